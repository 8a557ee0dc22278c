"""The move from ZooKeeper to a quorum: what it leaves on disks and in the tree, however it ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from kits.metadata_samples import after, topic_id
from kits.sole_voter import on_disk, put, use
from kits.stores_on_zookeeper import StoresOnZooKeeper
from kits.zookeeper_tree import tree_of
from moldau.base.errors import UserError
from moldau.base.ids import BrokerId
from moldau.cluster.changes import PartitionCreated, TopicCreated
from moldau.cluster.formatting import FIRST_FEATURES
from moldau.cluster.image import MetadataImage
from moldau.cluster.kraft.quorum_file import read_quorum_state
from moldau.cluster.model import Partition
from moldau.cluster.opening import open_newest_snapshot
from moldau.cluster.quorum import Quorum
from moldau.cluster.zookeeper.client.port import NoNode, ZooKeeperSession
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode
from moldau.cluster.zookeeper.nodes.migration_node import MIGRATION, decode_migration
from moldau.cluster.zookeeper.registration import register_broker
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.zookeeper.metadata_move import MetadataMove, MovingNode
from moldau.sim.disk import SimDisk
from moldau.sim.world import World
from moldau.sim.zookeeper.session import SimZooKeeper
from moldau.storage.checkpoints import MetaProperties, read_meta_properties, write_meta_properties

CLUSTER = "mC6VnLVsTPmWPNvJOyeUFA"
VOTERS = (1, 2, 3)
OBSERVER = 4
LIMIT = 200


def directory_of(node_id: int) -> str:
    return f"/node-{node_id}"


def folder_of(node_id: int) -> str:
    return f"{directory_of(node_id)}/__cluster_metadata-0"


def node(node_id: int, voters: tuple[int, ...] = VOTERS) -> MovingNode:
    """A node of the quorum, with the folders that it has had on ZooKeeper."""
    is_voter = node_id in voters
    listeners = f"PLAINTEXT://127.0.0.1:{9000 + node_id}"
    lines = [
        f"node.id={node_id}",
        f"process.roles={'broker,controller' if is_voter else 'broker'}",
        f"listeners={listeners}"
        + (f",CONTROLLER://127.0.0.1:{9100 + node_id}" if is_voter else ""),
        f"advertised.listeners={listeners}",
        "controller.listener.names=CONTROLLER",
        "controller.quorum.voters=" + ",".join(f"{one}@127.0.0.1:{9100 + one}" for one in voters),
        f"log.dirs={directory_of(node_id)}",
    ]
    return MovingNode.of(BrokerSettings.load("\n".join(lines)))


def image_of_tree() -> MetadataImage:
    first = Partition(0, (1, 2, 3), (1, 2, 3), 1, 3, 5)
    second = Partition(1, (4, 2), (4,), 4, 1, 2, eligible_leaders=(2,))
    changes = [
        TopicCreated("a", topic_id(1)),
        PartitionCreated(topic_id(1), first),
        PartitionCreated(topic_id(1), second),
    ]
    return after(MetadataImage(cluster_id=CLUSTER), [*FIRST_FEATURES, *changes])


class Moving:
    """A stopped cluster on a simulated ZooKeeper, the disks of its nodes, and moves of it."""

    def __init__(self, world: World, voters: tuple[int, ...] = VOTERS) -> None:
        self.world = world
        self.kept = StoresOnZooKeeper(world)
        self.disk = SimDisk(world.random("disk"))
        self.nodes = [node(one, voters) for one in (*VOTERS, OBSERVER)]
        self.said: list[str] = []
        self.hear: Callable[[str], None] = self.said.append
        self.epochs: dict[int, int] = {}
        self._moves = 0
        for one in (*VOTERS, OBSERVER):
            self.disk.make_folder(directory_of(one))
            put(self.disk, f"{directory_of(one)}/.lock", b"")
            identity = MetaProperties(0, CLUSTER, one, bytes([one]) * 16)
            write_meta_properties(self.disk, directory_of(one), identity)

    async def session(self, name: str = "tool") -> ZooKeeperSession:
        return await SimZooKeeper(self.kept.ensemble, name).open_session(lambda _: None)

    async def plant(self) -> None:
        """Write the tree, as its brokers have left it."""
        session = await self.session()
        tree = tree_of(image_of_tree())
        for path in sorted(tree.nodes):
            await session.create(path, tree.nodes[path].data)
            for _ in range(tree.nodes[path].version):
                await session.set_data(path, tree.nodes[path].data)
        for one in (*VOTERS, OBSERVER):
            registered = await register_broker(session, BrokerId(one), -1, BrokerNode(()))
            self.epochs[one] = registered.epoch
            await session.delete(paths.broker(one))
        await session.close()

    async def put(self, path: str, data: bytes = b"") -> None:
        session = await self.session()
        await session.create(path, data)
        await session.close()

    async def mark(self) -> Any:
        session = await self.session()
        try:
            await session.sync()
            return decode_migration((await session.read(MIGRATION)).data)
        except NoNode:
            return None
        finally:
            await session.close()

    async def move(self, files: Any = None, *, is_dry_run: bool = False, nodes: Any = None) -> str:
        """Move in a process of its own."""
        self._moves += 1
        move = MetadataMove(
            SimZooKeeper(self.kept.ensemble, f"move-{self._moves}"),
            files or self.disk,
            self.world.clock,
            random.Random(self._moves),
            nodes or self.nodes,
            self.hear,
        )
        return await move.run(is_dry_run=is_dry_run)

    def end_sessions(self) -> None:
        """Let the session of a move that was killed expire."""
        for number in range(1, self._moves + 1):
            self.kept.ensemble.expire(f"move-{number}")

    def versions(self) -> set[int]:
        found = (
            read_meta_properties(self.disk, one.folders.metadata_directory) for one in self.nodes
        )
        return {one.version for one in found if one is not None}

    def read_back(self, node_id: int) -> MetadataImage:
        opened = open_newest_snapshot(self.disk, folder_of(node_id), CLUSTER, Quorum())
        return opened.replay.image(opened.id.end_offset)


def run(test: Any, voters: tuple[int, ...] = VOTERS, *, seed: int = 1) -> Moving:
    with World(seed) as world:
        moving = Moving(world, voters)

        async def main() -> None:
            await moving.plant()
            await test(moving)

        world.run(main())
        return moving


def refused(moving: Moving, words: str, **options: Any) -> Any:
    """Expect a move to be refused, in one line."""

    async def check() -> None:
        with pytest.raises(UserError, match=words) as error:
            await moving.move(**options)
        assert "\n" not in str(error.value)

    return check()


# A move that is not disturbed


def test_all_voters_get_the_same_metadata_and_every_node_belongs_to_the_quorum():
    async def test(moving):
        assert await moving.move() == CLUSTER
        mark = await moving.mark()
        epoch = mark.epoch
        for one in VOTERS:
            image = moving.read_back(one)
            assert image == moving.read_back(1)
            assert image.version == mark.end_offset > max(moving.epochs.values())
            assert read_quorum_state(moving.disk, folder_of(one)) == (epoch, -1, None)
            assert {each.id: each.epoch for each in image.brokers.values()} == moving.epochs
        assert not moving.disk.exists(folder_of(OBSERVER))
        for one in (*VOTERS, OBSERVER):
            found = read_meta_properties(moving.disk, directory_of(one))
            assert found == MetaProperties(1, CLUSTER, one, bytes([one]) * 16)
        session = await moving.session()
        assert await session.exists(paths.CONTROLLER) is None
        await session.close()

    run(test)


def test_a_sole_voter_goes_on_behind_what_it_got():
    with World(1) as world:
        moving = Moving(world, (1,))

        async def main():
            await moving.plant()
            await moving.move()

        world.run(main())
        before = moving.read_back(1)
        directories = (directory_of(1),)
        image = use(world, moving.disk, node_id=1, directories=directories)
        assert image.topics == before.topics
        assert image.brokers == before.brokers
        assert image.version > before.version


def test_a_dry_run_writes_nothing():
    async def test(moving):
        before = on_disk(moving.disk, "/"), moving.kept.ensemble.nodes()
        assert await moving.move(is_dry_run=True) == CLUSTER
        assert (on_disk(moving.disk, "/"), moving.kept.ensemble.nodes()) == before
        assert "nothing was written" in moving.said[-1]

    run(test)


def test_directories_without_an_id_get_one_that_stays():
    async def test(moving):
        write_meta_properties(moving.disk, directory_of(1), MetaProperties(0, CLUSTER, 1))
        await moving.move()
        found = read_meta_properties(moving.disk, directory_of(1))
        assert moving.read_back(2).brokers[1].log_directories == (found.directory_id,)

    run(test)


def test_offsets_of_old_groups_that_stay_in_zookeeper_are_told():
    async def test(moving):
        await moving.put("/consumers/ancient")
        await moving.move()
        assert any("ancient" in line for line in moving.said)

    run(test)


# Brokers on ZooKeeper


def test_no_broker_starts_on_a_tree_that_has_moved():
    async def test(moving):
        await moving.move()
        store = moving.kept.store(1)
        with pytest.raises(UserError, match="has moved to a quorum"):
            await store.start()
        await store.close()

    run(test)


def test_a_broker_that_started_before_the_mark_cannot_be_elected_after_it():
    async def test(moving):
        store = moving.kept.store(1)
        await store.start()
        await moving.move()
        with pytest.raises(UserError, match="has moved to a quorum"):
            await store.claim()
        assert not store.is_controller
        with pytest.raises(UserError, match="has moved to a quorum"):
            await store.check_cluster()
        await store.close()

    run(test)


def test_a_broker_that_starts_during_the_move_is_not_elected():
    async def test(moving):
        store = moving.kept.store(1)
        await store.start()
        claims = []

        def claim_now(line):
            claims.append(asyncio.ensure_future(store.claim()))

        moving.hear = claim_now  # when the folders are written, before the mark
        await moving.move()
        granted = await asyncio.gather(*claims, return_exceptions=True)
        assert len(granted) == 1
        assert granted[0] is None or isinstance(granted[0], UserError)
        await store.close()

    run(test)


def test_the_node_of_kafkas_own_move_stops_no_broker_but_a_move():
    async def test(moving):
        await moving.put(MIGRATION, b'{"version":0,"kraft_controller_id":-1}')
        await refused(moving, "is Kafka's")
        store = moving.kept.store(1)
        await store.start()
        await store.close()

    run(test)


def test_a_registered_broker_or_a_controller_stops_the_move():
    async def test(moving):
        session = await moving.session("broker")
        await register_broker(session, BrokerId(2), -1, BrokerNode(()))
        await refused(moving, "/brokers/ids has 2: stop all brokers first")
        await session.delete(paths.broker(2))
        await moving.put(paths.CONTROLLER, b"{}")
        await refused(moving, "/controller is there")
        await refused(moving, "/controller is there", is_dry_run=True)
        await session.close()
        assert moving.versions() == {0}

    run(test)


def test_a_broker_that_runs_without_zookeeper_stops_the_move():
    async def test(moving):
        lock = moving.disk.another_process().lock(f"{directory_of(2)}/.lock")
        await refused(moving, "/node-2 is in use by a broker")
        lock.release()
        await moving.move()

    run(test)


# What does not fit


def test_what_cannot_be_taken_over_is_refused_and_nothing_is_switched():
    async def test(moving):
        await moving.put("/config/users/alice", b'{"version":1,"config":{"a":"b"}}')
        await refused(moving, "refused, and nothing was switched: /config/users/alice")
        assert (moving.versions(), await moving.mark()) == ({0}, None)
        assert not moving.disk.exists(folder_of(1))

    run(test)


def test_a_tree_that_changes_during_the_move_is_refused():
    async def test(moving):
        path = paths.state("a", 0)
        session = await moving.session("shell")
        data = (await session.read(path)).data
        changes = []

        def change(line):
            changes.append(asyncio.ensure_future(session.set_data(path, data)))

        moving.hear = change  # when the folders are written, before the mark
        with pytest.raises(UserError, match="somebody has changed the tree"):
            await moving.move()
        assert (len(changes), moving.versions(), await moving.mark()) == (1, {0}, None)
        await session.close()
        moving.hear = moving.said.append
        await moving.move()

    run(test)


def test_each_broker_with_replicas_needs_its_settings_and_its_folders():
    async def test(moving):
        await refused(moving, "broker 4 has replicas, and no file", nodes=moving.nodes[:3])
        moving.disk.remove(f"{directory_of(4)}/meta.properties")
        await refused(moving, "broker 4 has replicas, and no meta.properties")
        foreign = MetaProperties(0, "another-cluster", 4, bytes(16))
        write_meta_properties(moving.disk, directory_of(4), foreign)
        await refused(moving, "another-cluster")

    run(test)


def test_a_folder_in_which_a_quorum_has_run_is_refused():
    async def test(moving):
        moving.disk.make_folder(folder_of(2))
        put(moving.disk, f"{folder_of(2)}/{0:020d}.log", b"records")
        await refused(moving, "/node-2/__cluster_metadata-0 holds 0{20}.log")
        assert moving.disk.exists(f"{folder_of(2)}/{0:020d}.log")

    run(test)


def test_nodes_that_make_no_quorum_are_refused():
    async def test(moving):
        first, second, third, _ = moving.nodes
        await refused(moving, "node 1 has more than one file", nodes=[first, first, second, third])
        await refused(moving, "voter 3 has no file of settings", nodes=[first, second])
        await refused(moving, "the same, for all nodes", nodes=[*moving.nodes[:3], node(4, (1,))])

    run(test)


# A move that is interrupted


class Killed(Exception):  # noqa: N818 - it names the event
    """The process of the move has ended."""


class DyingDisk:
    """A disk whose process ends at one of its writes."""

    WRITES = frozenset({"make_folder", "remove", "rename", "sync_folder", "open_folder"})

    def __init__(self, disk: SimDisk, writes_left: int) -> None:
        self._disk = disk
        self._left = writes_left

    def open(self, path: str, *, create: bool = False) -> Any:
        if create:
            self._count()
        return self._disk.open(path, create=create)

    def __getattr__(self, name: str) -> Any:
        if name in self.WRITES:
            self._count()
        return getattr(self._disk, name)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


async def _check_either_way(moving: Moving) -> None:
    """Brokers may start on ZooKeeper as long as there is no mark, and never after it."""
    store = moving.kept.store(1)
    if await moving.mark() is None:
        assert moving.versions() == {0}
        await store.start()
    else:
        with pytest.raises(UserError, match="has moved to a quorum"):
            await store.start()
    await store.close()


async def _end_and_check(moving: Moving) -> None:
    moving.end_sessions()
    await asyncio.sleep(1)
    await _check_either_way(moving)
    assert await moving.move() == CLUSTER
    mark = await moving.mark()
    for one in VOTERS:
        assert moving.read_back(one).version == mark.end_offset
        assert moving.read_back(one) == moving.read_back(1)
    assert moving.versions() == {1}


def test_a_move_that_ends_at_any_write_to_a_disk_is_begun_again_or_given_up():
    seen = set()

    async def test(moving):
        try:
            await moving.move(DyingDisk(moving.disk, writes))
            seen.add("done")
        except Killed:
            seen.add("marked" if await moving.mark() else "not marked")
            # As `kill -9` does: locks go.
            moving.disk = moving.disk.kill()
            await _end_and_check(moving)

    for writes in range(LIMIT):
        run(test, seed=writes)
        if "done" in seen:
            break
    assert seen == {"done", "marked", "not marked"}


def test_a_move_that_loses_its_session_at_any_time_is_begun_again_or_given_up():
    seen = set()

    async def test(moving):
        task = asyncio.ensure_future(moving.move())
        await asyncio.sleep(delay_s)
        if task.done():
            seen.add("done")
            return
        moving.kept.ensemble.expire("move-1")
        try:
            await task
        except UserError:
            seen.add("marked" if await moving.mark() else "not marked")
        await _end_and_check(moving)

    delay_s = 0.0
    while "done" not in seen:
        run(test, seed=int(delay_s * 1000))
        delay_s += 0.02
    assert {"done", "not marked"} <= seen


def test_what_an_earlier_try_has_left_goes():
    async def test(moving):
        moving.disk.make_folder(folder_of(2))
        later = f"{2**40:020d}-0000000009.checkpoint"
        for name in (later, f"{later}.part", "quorum-state"):
            put(moving.disk, f"{folder_of(2)}/{name}", b"half")
        await moving.move()
        mark = await moving.mark()
        own = f"{mark.end_offset:020d}-{mark.epoch:010d}.checkpoint"
        assert set(moving.disk.names(folder_of(2))) == {own, "quorum-state"}

    run(test)


def test_a_voter_that_lost_what_was_marked_is_named():
    async def test(moving):
        await moving.move()
        for one in moving.nodes:
            write_meta_properties(
                moving.disk, one.folders.metadata_directory, MetaProperties(0, CLUSTER, one.id)
            )
        moving.disk.remove_folder(folder_of(2))
        await refused(moving, "/node-2/__cluster_metadata-0 lacks .*: copy the folder of another")
        assert moving.versions() == {0}

    run(test)
