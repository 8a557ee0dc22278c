"""What a caller may rely on who watches nodes in ZooKeeper."""

from __future__ import annotations

import asyncio

import pytest

from kits.zookeeper_kit import (
    Calls,
    ZooKeeperBench,
    until,
)
from kits.zookeeper_scenarios import (
    CONNECTED,
    SUSPENDED,
)
from moldau.cluster.zookeeper.client.port import (
    NodeKind,
    NoNode,
)

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
