"""What a caller may rely on who reads and writes nodes in ZooKeeper, alone or among others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kits.zookeeper_kit import (
    ZooKeeperBench,
    begun,
    until,
)
from kits.zookeeper_scenarios import (
    SUSPENDED,
    run_real,
)
from moldau.cluster.zookeeper.client.port import (
    PERSISTENT_OWNER,
    BadVersion,
    CheckVersion,
    CreateNode,
    DeleteNode,
    NodeError,
    NodeExists,
    NodeKind,
    NoNode,
    NotEmpty,
    RequestRefused,
    RequestTooLarge,
    SetData,
    UnknownOutcome,
    ZooKeeperSession,
)

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
