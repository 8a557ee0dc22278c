"""What a caller may rely on of a session with ZooKeeper: its opening, lost connections, its end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode
from kits.leaks import run_without_leaks
from kits.zookeeper_kit import (
    SESSION_TIMEOUT_S,
    Calls,
    KazooBench,
    States,
    ZooKeeperBench,
    begun,
    close_session,
    until_true,
)
from kits.zookeeper_scenarios import (
    CONNECTED,
    EXPIRED,
    SUSPENDED,
    new_chroot,
    run_real,
)
from moldau.cluster.zookeeper.client.connect_string import parse_connect_string
from moldau.cluster.zookeeper.client.kazoo_session import (
    IN_FLIGHT_MAX,
    KazooSession,
    KazooZooKeeper,
    ZooKeeperSettings,
)
from moldau.cluster.zookeeper.client.port import (
    ConnectionTimedOut,
    CreateNode,
    NodeKind,
    SessionExpired,
    SetData,
    UnknownOutcome,
)
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper

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
        connect = parse_connect_string(f"{node.address}{new_chroot()}")
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
def test_sessions_live_on_when_the_server_comes_back(tmp_path: Path, caplog):
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
            # The owner of the session logs that. kazoo would warn of each try to connect.
            assert [record.getMessage() for record in caplog.records] == []
        finally:
            await bench.close()

    with ZooKeeperNode(tmp_path) as server:
        asyncio.run(main(server))
