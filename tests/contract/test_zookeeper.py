"""What everybody may rely on who talks to ZooKeeper: kazoo with a real server, and the simulation.

The real server is one process for the whole file. Each test has a chroot of its own there.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from kits.leaks import run_without_leaks
from kits.zookeeper_kit import (
    SESSION_TIMEOUT_S,
    Calls,
    KazooBench,
    SimBench,
    States,
    ZooKeeperBench,
    begun,
    close_session,
    until,
    until_true,
)
from moldau.cluster.zookeeper.client.connect_string import parse_connect_string
from moldau.cluster.zookeeper.client.kazoo_session import (
    IN_FLIGHT_MAX,
    KazooSession,
    KazooZooKeeper,
    ZooKeeperSettings,
)
from moldau.cluster.zookeeper.client.port import (
    PERSISTENT_OWNER,
    BadVersion,
    CheckVersion,
    ConnectionTimedOut,
    CreateNode,
    DeleteNode,
    NodeError,
    NodeExists,
    NodeKind,
    NoNode,
    NotEmpty,
    RequestRefused,
    RequestTooLarge,
    SessionExpired,
    SessionState,
    SetData,
    UnknownOutcome,
    ZooKeeperSession,
)
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper

SEEDS = range(6)
DEADLINE_S = 120
"""Only ever reached by a failure."""

CONNECTED, SUSPENDED, EXPIRED = (
    SessionState.CONNECTED,
    SessionState.SUSPENDED,
    SessionState.EXPIRED,
)

Scenario = Callable[[ZooKeeperBench], Coroutine[Any, Any, None]]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperNode]:
    require_zookeeper()
    with ZooKeeperNode(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


def run_real(scenario: Scenario, port: int) -> None:
    async def main() -> None:
        bench = KazooBench(port, f"/test-{next(_numbers)}")
        try:
            async with asyncio.timeout(DEADLINE_S):
                await scenario(bench)
        finally:
            await bench.close()

    asyncio.run(main())


def run_simulated(scenario: Scenario) -> None:
    for seed in SEEDS:
        with World(seed) as world:
            world.run(scenario(SimBench(SimEnsemble(world))), limit_s=DEADLINE_S * 5)


@pytest.fixture(params=[pytest.param("kazoo", marks=pytest.mark.process), "simulated"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    if request.param == "simulated":
        return run_simulated
    port = request.getfixturevalue("node").port
    return lambda scenario: run_real(scenario, port)


# Nodes


def test_a_node_has_data_and_a_stat(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        assert await session.exists("/a") is None
        assert await session.create("/a", b"one") == "/a"
        first = await session.read("/a")
        assert first.data == b"one"
        assert first.stat.version == 0
        assert first.stat.czxid == first.stat.mzxid > 0
        assert first.stat.ephemeral_owner == PERSISTENT_OWNER
        assert first.stat.ctime_ms > 1_600_000_000_000
        stat = await session.set_data("/a", b"two", 0)
        second = await session.read("/a")
        assert second.data == b"two"
        assert second.stat == stat == await session.exists("/a")
        assert stat.version == 1
        assert stat.czxid == first.stat.czxid < stat.mzxid
        await session.create("/a/c")
        await session.create("/a/b")
        assert await session.children("/a") == ["b", "c"]
        assert (await session.read("/a/b")).data == b""
        assert (await session.read("/a/b")).stat.czxid > stat.mzxid

    run(scenario)


def test_a_write_is_refused_because_of_a_node(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")

        async def refused(error: type[NodeError], write: Coroutine[Any, Any, object]) -> None:
            with pytest.raises(error) as raised:
                await write
            assert type(raised.value) is error
            assert raised.value.path.startswith("/a")

        await refused(NoNode, session.read("/a"))
        await refused(NoNode, session.children("/a"))
        await refused(NoNode, session.create("/a/b"))
        await refused(NoNode, session.set_data("/a", b""))
        await refused(NoNode, session.delete("/a"))
        await session.create("/a")
        await session.create("/a/b")
        await refused(NodeExists, session.create("/a"))
        await refused(NotEmpty, session.delete("/a"))
        await refused(BadVersion, session.set_data("/a", b"", 1))
        await refused(BadVersion, session.delete("/a/b", 1))
        await session.create("/a/mine", b"", NodeKind.EPHEMERAL)
        await refused(RequestRefused, session.create("/a/mine/child"))
        assert (await session.read("/a")).stat.version == 0
        await session.delete("/a/b", 0)
        await session.delete("/a/mine")
        await session.delete("/a")
        assert await session.exists("/a") is None

    run(scenario)


def test_the_root_is_a_node_like_others(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker", "/own")
        await session.create("/b")
        await session.create("/a")
        assert await session.children("/") == ["a", "b"]
        assert await session.exists("/") is not None
        assert (await session.set_data("/", b"root")).version == 1
        assert (await session.read("/")).data == b"root"

    run(scenario)


def test_sequential_nodes_have_growing_numbers(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker", "/own")
        await session.create("/changes")
        made = []
        for _ in range(3):
            path = await session.create("/changes/change_", b"", NodeKind.SEQUENTIAL)
            assert path.startswith("/changes/change_")
            assert (await session.read(path)).stat.ephemeral_owner == PERSISTENT_OWNER
            made.append(int(path.removeprefix("/changes/change_")))
            assert path == f"/changes/change_{made[-1]:010d}"
            await session.delete(path)
        assert made == sorted(set(made))

    run(scenario)


def test_a_chroot_is_created_and_not_seen(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        inside, _ = await zookeeper.open("inside", "/kafka/production")
        again, _ = await zookeeper.open("again", "/kafka/production")
        outside, _ = await zookeeper.open("outside")
        await inside.create("/brokers")
        await again.create("/brokers/ids")
        await outside.sync()
        assert await outside.children("/kafka/production") == ["brokers"]
        assert await outside.children("/kafka/production/brokers") == ["ids"]
        with pytest.raises(NodeExists, match=r"^/brokers: "):
            await inside.create("/brokers")

    run(scenario)


# Multi


def test_a_multi_does_all(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker", "/own")
        await session.create("/epoch", b"1")
        await session.create("/old")
        created, stat, sequential, checked, deleted = await session.multi(
            [
                CreateNode("/mine", b"", NodeKind.EPHEMERAL),
                SetData("/mine", b"data", 0),
                CreateNode("/n_", b"", NodeKind.SEQUENTIAL),
                CheckVersion("/epoch", 0),
                DeleteNode("/old", 0),
            ]
        )
        assert created.path == "/mine"
        assert sequential.path.startswith("/n_0000")
        assert checked.path == "/epoch"
        assert deleted.path == "/old"
        node = await session.read("/mine")
        assert (node.data, node.stat) == (b"data", stat.stat)
        assert node.stat.ephemeral_owner == session.session_id
        assert node.stat.czxid == node.stat.mzxid  # one transaction
        assert await session.exists("/old") is None
        assert await session.multi([]) == []

    run(scenario)


@pytest.mark.parametrize("failing", range(4))
def test_a_multi_does_nothing_if_one_operation_cannot_be_done(run, failing):
    operations = [
        CheckVersion("/epoch", 0),
        CreateNode("/new", b""),
        SetData("/state", b"changed", 0),
        DeleteNode("/old", 0),
    ]
    wrong = [
        (CheckVersion("/epoch", 1), BadVersion),
        (CreateNode("/state", b""), NodeExists),
        (SetData("/missing", b""), NoNode),
        (DeleteNode("/parent"), NotEmpty),
    ]
    failure, error = wrong[failing]
    operations[failing] = failure

    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        for path in ("/epoch", "/state", "/old", "/parent", "/parent/child"):
            await session.create(path)
        before = [await session.read(path) for path in ("/epoch", "/state", "/old")]
        with pytest.raises(error) as raised:
            await session.multi(operations)
        assert raised.value.operation_index == failing
        assert raised.value.path == failure.path
        assert before == [await session.read(path) for path in ("/epoch", "/state", "/old")]
        assert await session.exists("/new") is None
        # What failed must not count, as a number for later nodes neither.
        assert (await session.set_data("/state", b"", 0)).version == 1

    run(scenario)


def test_a_controller_that_was_replaced_writes_nothing(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        old, _ = await zookeeper.open("old")
        new, _ = await zookeeper.open("new")
        await old.create("/controller_epoch", b"1")
        await old.create("/state")
        await new.sync()
        await new.set_data("/controller_epoch", b"2", 0)
        with pytest.raises(BadVersion) as raised:
            await old.multi([CheckVersion("/controller_epoch", 0), SetData("/state", b"old")])
        assert raised.value.path == "/controller_epoch"
        assert (await old.read("/state")).stat.version == 0

    run(scenario)


def test_a_multi_may_have_exactly_the_size_that_servers_take(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker", "/own")
        others = [
            CreateNode("/ä", b"x" * 100, NodeKind.EPHEMERAL),
            SetData("/ä", b"x", 0),
            CheckVersion("/ä", 1),
            CreateNode("/large", b""),
        ]
        rest = session.max_multi_bytes - sum(map(session.operation_bytes, others))
        rest -= session.operation_bytes(SetData("/large", b"", 0))
        with pytest.raises(RequestTooLarge):
            await session.multi([*others, SetData("/large", b"x" * (rest + 1), 0)])
        assert await session.exists("/large") is None
        await session.multi([*others, SetData("/large", b"x" * rest, 0)])
        assert len((await session.read("/large")).data) == rest
        assert states.told == []

    run(scenario)


@pytest.mark.process
def test_a_server_takes_no_larger_request_than_we_reckon(node):
    """Send one byte more, to see that the limit is the server's and not only ours."""

    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        await session.create("/large")
        session._max_request_bytes += 1
        room = session.max_multi_bytes - session.operation_bytes(SetData("/large", b""))
        with pytest.raises(UnknownOutcome):
            await session.set_data("/large", b"x" * room)
        await until(lambda: states.told)
        assert states.told[0] is SUSPENDED

    run_real(scenario, node.port)


def test_many_requests_at_once_keep_their_order(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        await session.create("/n")
        writes = [await begun(session.set_data("/n", b"%d" % n, n)) for n in range(300)]
        stats = await asyncio.gather(*writes)
        assert [stat.version for stat in stats] == list(range(1, 301))
        assert (await session.read("/n")).data == b"299"

    run(scenario)


# Sessions


def test_ephemeral_nodes_end_with_their_session(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        first, states = await zookeeper.open("first")
        second, _ = await zookeeper.open("second")
        assert first.session_id != second.session_id
        await first.create("/first", b"", NodeKind.EPHEMERAL)
        await second.create("/second", b"", NodeKind.EPHEMERAL)
        await first.create("/stays")
        await first.close()
        await first.close()
        await second.sync()
        assert await second.exists("/first") is None
        assert await second.exists("/stays") is not None
        stat = await second.exists("/second")
        assert stat is not None
        assert stat.ephemeral_owner == second.session_id
        assert first.state is EXPIRED
        assert states.told == []
        with pytest.raises(SessionExpired):
            await first.create("/late")
        with pytest.raises(SessionExpired):
            await first.exists("/late")

    run(scenario)


def test_an_expired_session_is_over_for_good(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        witness, _ = await zookeeper.open("witness")
        watch = Calls()
        await session.create("/mine", b"", NodeKind.EPHEMERAL)
        await session.exists("/later", watch)
        gone = Calls()
        await witness.sync()
        assert await witness.exists("/mine", gone) is not None
        await zookeeper.expire("broker")
        await gone.until_called()
        assert await witness.exists("/mine") is None
        await states.until(EXPIRED)
        assert states.told == [SUSPENDED, EXPIRED]
        assert session.state is EXPIRED
        calls = watch.count
        await witness.create("/later")
        for call in (
            session.read("/later"),
            session.children("/"),
            session.sync(),
            session.create("/other", b"", NodeKind.EPHEMERAL),
        ):
            with pytest.raises(SessionExpired):
                await call
        assert await witness.children("/") == ["later"]
        assert watch.count == calls
        await session.close()
        following, later_states = await zookeeper.open("broker")
        assert following.session_id != session.session_id
        assert await following.create("/mine", b"", NodeKind.EPHEMERAL) == "/mine"
        assert following.state is CONNECTED
        assert later_states.told == []

    run(scenario)


def test_what_waits_for_a_connection_is_refused_when_the_session_has_expired(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        witness, _ = await zookeeper.open("witness")
        zookeeper.cut("broker")
        zookeeper.lose_connection("broker")
        await states.until(SUSPENDED)
        calls = [
            await begun(session.create("/a", b"", NodeKind.EPHEMERAL)),
            await begun(session.exists("/a")),
            await begun(session.sync()),
        ]
        await zookeeper.expire("broker")
        zookeeper.heal("broker")
        for call in calls:
            with pytest.raises(SessionExpired):
                await call
        assert states.told == [SUSPENDED, EXPIRED]
        await witness.sync()
        assert await witness.exists("/a") is None

    run(scenario)


# Lost connections


@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "is lost"])
def test_the_outcome_of_a_write_under_way_is_unknown(run, arrives):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        witness, _ = await zookeeper.open("witness")
        await session.create("/mine", b"", NodeKind.EPHEMERAL)
        session_id = session.session_id
        zookeeper.cut("broker", requests=not arrives, answers=arrives)
        write = await begun(session.create("/new", b""))
        if arrives:
            await until_true(lambda: witness.exists("/new"))
        else:
            await asyncio.sleep(0)
        zookeeper.lose_connection("broker")
        with pytest.raises(UnknownOutcome):
            await write
        await states.until(SUSPENDED)
        assert session.state is SUSPENDED
        zookeeper.heal("broker")
        await session.sync()
        assert (await session.exists("/new") is not None) == arrives
        assert states.told == [SUSPENDED, CONNECTED]
        assert session.session_id == session_id
        assert (await session.read("/mine")).stat.ephemeral_owner == session_id

    run(scenario)


def test_reads_under_way_and_requests_of_later_wait_for_the_next_connection(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        await session.create("/a", b"0")
        zookeeper.cut("broker", requests=False)
        read = await begun(session.read("/a"))
        exists = await begun(session.exists("/b"))
        await asyncio.sleep(0.05)
        zookeeper.cut("broker")
        zookeeper.lose_connection("broker")
        await states.until(SUSPENDED)
        write = await begun(session.multi([SetData("/a", b"1"), CreateNode("/b")]))
        late = await begun(session.read("/a"))
        await asyncio.sleep(0.05)
        assert not any(call.done() for call in (read, exists, late, write))
        zookeeper.heal("broker")
        assert (await read).data == b"0"
        assert await exists is None
        await write
        assert (await late).data == b"1"
        assert states.told == [SUSPENDED, CONNECTED]

    run(scenario)


def test_a_request_that_was_given_up_while_it_waited_is_not_sent(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        zookeeper.cut("broker")
        zookeeper.lose_connection("broker")
        await states.until(SUSPENDED)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.create("/late"), 0.05)
        zookeeper.heal("broker")
        await session.create("/in-time")
        assert await session.children("/") == ["in-time"]

    run(scenario)


# Watches


def test_a_watch_is_called_once_after_the_data_changed(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        writer, _ = await zookeeper.open("writer")
        await session.create("/a")
        await writer.sync()
        by_read, by_exists, of_children = Calls(), Calls(), Calls()
        await session.read("/a", by_read)
        await session.exists("/a", by_exists)
        await session.children("/a", of_children)
        for n in range(5):
            await writer.set_data("/a", b"%d" % n)
        await by_read.until_called()
        await session.sync()
        assert (await session.read("/a")).data == b"4"
        assert (by_read.count, by_exists.count, of_children.count) == (1, 1, 0)

    run(scenario)


def test_a_watch_is_called_after_a_creation_and_a_deletion(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        writer, _ = await zookeeper.open("writer")
        created = Calls()
        assert await session.exists("/a", created) is None
        not_left = Calls()
        with pytest.raises(NoNode):
            await session.read("/a", not_left)
        await writer.create("/a")
        await created.until_called()
        deleted, children = Calls(), Calls()
        await session.read("/a", deleted)
        await session.children("/a", children)
        await writer.delete("/a")
        await deleted.until_called()
        await children.until_called()
        assert await session.exists("/a") is None
        assert (created.count, deleted.count, children.count, not_left.count) == (1, 1, 1, 0)

    run(scenario)


def test_a_watch_of_children_is_called_when_one_comes_or_goes(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        writer, _ = await zookeeper.open("writer")
        await session.create("/ids")
        await writer.sync()
        for change, names in [
            (lambda: writer.create("/ids/1", b"", NodeKind.EPHEMERAL), ["1"]),
            (lambda: writer.create("/ids/2"), ["1", "2"]),
            (lambda: writer.delete("/ids/2"), ["1"]),
            (writer.close, []),
        ]:
            watch = Calls()
            await session.children("/ids", watch)
            await change()
            await watch.until_called()
            assert await session.children("/ids") == names
            assert watch.count == 1

    run(scenario)


def test_a_watch_is_called_before_anything_newer_is_seen(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        writer, _ = await zookeeper.open("writer")
        await session.create("/a")
        await session.create("/own")
        await writer.sync()

        async def write() -> None:
            for n in range(100):
                await writer.set_data("/a", b"%d" % n)

        writing = asyncio.ensure_future(write())
        seen = 0
        while seen < 100:
            watch = Calls()
            armed = (await session.read("/a", watch)).stat
            seen = armed.version
            while not watch.count:
                own = asyncio.ensure_future(session.set_data("/own", b""))
                newer = (await session.read("/a")).stat
                assert newer.version == armed.version or watch.count == 1
                await own
                if seen == 100:
                    break
        await writing

    run(scenario)


def test_no_change_goes_unnoticed_while_the_connection_is_lost(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        writer, _ = await zookeeper.open("writer")
        for path in ("/set", "/deleted", "/parent"):
            await session.create(path)
        watches = {path: Calls() for path in ("/set", "/deleted", "/created", "/parent")}
        for path in ("/set", "/deleted", "/created"):
            await session.exists(path, watches[path])
        await session.children("/parent", watches["/parent"])
        zookeeper.cut("broker")
        zookeeper.lose_connection("broker")
        await states.until(SUSPENDED)
        await writer.sync()
        await writer.set_data("/set", b"new")
        await writer.delete("/deleted")
        await writer.create("/created")
        await writer.create("/parent/child")
        zookeeper.heal("broker")
        await session.sync()
        assert (await session.read("/set")).data == b"new"
        assert await session.children("/parent") == ["child"]
        assert [watch.count for watch in watches.values()] == [1, 1, 1, 1]
        assert states.told == [SUSPENDED, CONNECTED]

    run(scenario)


def test_a_watch_may_read_again(run):
    """A watch is on the event loop, and may begin what it wants."""

    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        writer, _ = await zookeeper.open("writer")
        await session.create("/a")
        await writer.sync()
        seen: list[bytes] = []

        async def follow() -> None:
            seen.append((await session.read("/a", lambda: followers.append(start()))).data)

        def start() -> asyncio.Future[None]:
            return asyncio.ensure_future(follow())

        followers = [start()]
        for n in range(20):
            await writer.set_data("/a", b"%d" % n)
        await until(lambda: seen and seen[-1] == b"19")
        await asyncio.gather(*followers)
        numbers = [int(data) for data in seen if data]
        assert numbers == sorted(set(numbers))

    run(scenario)


# Several clients


def test_sync_makes_a_read_as_new_as_what_is_committed(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        writer, _ = await zookeeper.open("writer")
        await session.create("/a")
        await writer.sync()
        for n in range(20):
            await writer.set_data("/a", b"%d" % n)
            await session.sync()
            assert (await session.read("/a")).data == b"%d" % n

    run(scenario)


def test_one_of_many_claims_wins(run):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        sessions = [(await zookeeper.open(f"broker-{n}"))[0] for n in range(5)]
        await sessions[0].create("/controller_epoch")
        await asyncio.gather(*(session.sync() for session in sessions))

        async def claim(session: ZooKeeperSession) -> bool:
            try:
                await session.multi(
                    [
                        CreateNode("/controller", b"", NodeKind.EPHEMERAL),
                        SetData("/controller_epoch", b"1", 0),
                    ]
                )
            except (NodeExists, BadVersion):
                return False
            return True

        won = await asyncio.gather(*map(claim, sessions))
        assert sum(won) == 1
        stat = await sessions[won.index(True)].exists("/controller")
        assert stat is not None
        assert stat.ephemeral_owner == sessions[won.index(True)].session_id

    run(scenario)


# Opening


def test_no_session_without_a_server_simulated():
    with World(1) as world:
        ensemble = SimEnsemble(world)
        ensemble.stop()
        with pytest.raises(ConnectionTimedOut, match="no session with ZooKeeper"):
            world.run(SimZooKeeper(ensemble, "broker").open_session(lambda _: None))


@pytest.mark.process
def test_no_session_without_a_server():
    connect = parse_connect_string(f"127.0.0.1:{free_port()},localhost:{free_port()}/kafka")
    settings = ZooKeeperSettings(connect, SESSION_TIMEOUT_S, connection_timeout_s=0.3)
    with pytest.raises(ConnectionTimedOut, match=r"127\.0\.0\.1:\d+,localhost:\d+ within 0\.3 s"):
        asyncio.run(KazooZooKeeper(settings).open_session(lambda _: None))


@pytest.mark.process
def test_a_server_is_found_among_those_that_do_not_answer(node):
    async def main() -> None:
        connect = parse_connect_string(
            f"127.0.0.1:{free_port()},127.0.0.1:{node.port},127.0.0.1:{free_port()}"
        )
        session = await KazooZooKeeper(ZooKeeperSettings(connect)).open_session(lambda _: None)
        assert await session.exists("/zookeeper") is not None
        await session.close()

    asyncio.run(main())


@pytest.mark.process
def test_a_session_leaves_no_thread_and_no_socket(node):
    async def main() -> None:
        for _ in range(3):
            connect = parse_connect_string(node.address)
            session = await KazooZooKeeper(ZooKeeperSettings(connect)).open_session(lambda _: None)
            await session.sync()
            await session.close()

    run_without_leaks(main())


@pytest.mark.process
def test_no_request_gets_into_the_session_that_kazoo_opens_next(node, monkeypatch):
    """The event loop is busy while the session expires, and sends before it hears of that."""
    may_end = threading.Event()
    end_client = KazooSession._end_client

    def end_late(session: KazooSession) -> None:
        may_end.wait()
        end_client(session)

    monkeypatch.setattr(KazooSession, "_end_client", end_late)

    async def main() -> None:
        connect = parse_connect_string(f"{node.address}/test-{next(_numbers)}")
        zookeeper = KazooZooKeeper(ZooKeeperSettings(connect, SESSION_TIMEOUT_S))
        session = await zookeeper.open_session(States())
        client = session._client
        try:
            # Nothing here awaits: the event loop hears of nothing until the request was made.
            close_session(node.port, client.client_id)
            eventually(
                lambda: client.connected and client.client_id[0] != session.session_id,
                "kazoo has opened another session",
            )
            assert session.state is CONNECTED
            with pytest.raises(SessionExpired):
                await session.create("/late")
            assert session.state is EXPIRED
            assert client.exists(f"{connect.chroot}/late") is None
        finally:
            may_end.set()
            await session.close()

    asyncio.run(main())


@pytest.mark.process
def test_kazoo_gets_no_more_requests_than_it_takes_without_blocking(node):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, _ = await zookeeper.open("broker")
        await session.create("/n")
        zookeeper.cut("broker", requests=False)
        writes = [await begun(session.set_data("/n", b"")) for _ in range(1_000)]
        client = session._client
        assert 0 < len(client._queue) + len(client._pending) <= IN_FLIGHT_MAX
        zookeeper.heal("broker")
        await asyncio.gather(*writes)
        assert (await session.read("/n")).stat.version == 1_000

    run_real(scenario, node.port)


@pytest.mark.process
def test_reads_that_are_sent_again_keep_their_place_before_what_kazoo_had_not_got(node):
    async def scenario(zookeeper: ZooKeeperBench) -> None:
        session, states = await zookeeper.open("broker")
        await session.create("/a", b"0")
        zookeeper.cut("broker", requests=False)
        reads = [await begun(session.read("/a")) for _ in range(IN_FLIGHT_MAX + 30)]
        write = await begun(session.set_data("/a", b"1"))
        zookeeper.lose_connection("broker")
        await states.until(SUSPENDED)
        zookeeper.heal("broker")
        assert {node.data for node in await asyncio.gather(*reads)} == {b"0"}
        assert (await write).version == 1

    run_real(scenario, node.port)


@pytest.mark.process
def test_sessions_live_on_when_the_server_comes_back(tmp_path: Path):
    async def main(server: ZooKeeperNode) -> None:
        bench = KazooBench(server.port, "/own")
        try:
            session, states = await bench.open("broker")
            await session.create("/mine", b"data", NodeKind.EPHEMERAL)
            await asyncio.to_thread(server.kill)
            await states.until(SUSPENDED)
            reading = asyncio.ensure_future(session.read("/mine"))
            await asyncio.to_thread(server.start)
            assert (await reading).data == b"data"
            assert states.told == [SUSPENDED, CONNECTED]
        finally:
            await bench.close()

    with ZooKeeperNode(tmp_path) as server:
        asyncio.run(main(server))
