"""The move of a cluster's metadata from ZooKeeper to a quorum, for brokers that are all stopped.

    check     no broker runs, the tree can be read, each node has its folders
    write     the same snapshot into the metadata folder of each voter
    compare   what is read back from every folder with the tree, which nobody has changed meanwhile
    mark      /migration in ZooKeeper: from here on no broker starts on the tree
    switch    `meta.properties` of every node

Until the mark, brokers can be started on ZooKeeper again, and the move can be begun again. After
it, the next move goes on with the switch. Records, offsets of groups and transactions are in the
logs of topics, which stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from moldau.base.clock import Clock, Random
from moldau.base.errors import UserError
from moldau.base.files import Files
from moldau.base.ids import BrokerId
from moldau.cluster.brokers import SUPPORTED_FEATURES
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import in_turns
from moldau.cluster.kraft.migrated_folder import (
    NodeFolders,
    belong_to_quorum,
    checksum_of,
    directory_ids,
    has_log,
    is_known_node,
    read_metadata,
    refuse_other_metadata,
    write_metadata,
)
from moldau.cluster.migration import (
    TreeNodes,
    brokers_with_replicas,
    differences,
    first_of,
    obstacles,
    taken_over,
)
from moldau.cluster.model import Broker, Endpoint
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.cluster.zookeeper.client.port import ZooKeeper, ZooKeeperError
from moldau.cluster.zookeeper.moved_tree import read_mark
from moldau.cluster.zookeeper.moving_out import MovingOut
from moldau.cluster.zookeeper.nodes.migration_node import MigrationNode
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.tree_image import read_tree
from moldau.server.configuration.settings import BrokerSettings
from moldau.storage.directory import LOCK

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MovingNode:
    """One node as it will be in the quorum."""

    settings: BrokerSettings
    folders: NodeFolders

    @classmethod
    def of(cls, settings: BrokerSettings) -> MovingNode:
        """Return the node of these settings."""
        metadata = settings.metadata_log_dir or settings.log_dirs[0]
        return cls(settings, NodeFolders(settings.node_id, settings.log_dirs, metadata))

    @property
    def id(self) -> BrokerId:
        return BrokerId(self.folders.node_id)

    @property
    def is_voter(self) -> bool:
        """Whether it votes on the metadata."""
        return any(one.node_id == self.id for one in self.settings.quorum.voters)


def named_voters(nodes: Sequence[MovingNode]) -> VoterSet:
    """Return the voters that all nodes name; UserError if they do not agree, or lack one."""
    ids = [node.id for node in nodes]
    for number in ids:
        if ids.count(number) > 1:
            raise UserError(f"node {number} has more than one file of settings")
    named = {frozenset(node.settings.quorum.voters) for node in nodes}
    if len(named) != 1 or not (voters := named.pop()):
        raise UserError("controller.quorum.voters has to be set, and the same, for all nodes")
    missing = sorted({one.node_id for one in voters}.difference(ids))
    if missing:
        raise UserError(f"voter {missing[0]} has no file of settings: each node needs one")
    return VoterSet(tuple(Voter(ReplicaKey(NodeId(one.node_id))) for one in sorted(voters)))


class MetadataMove:
    """One move: all that it needs, and its steps."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        files: Files,
        clock: Clock,
        random: Random,
        nodes: Sequence[MovingNode],
        say: Say,
    ) -> None:
        """Raise UserError if the settings of the nodes do not make one quorum."""
        self._zookeeper = zookeeper
        self._files = files
        self._clock = clock
        self._random = random
        self._nodes = nodes
        self._voters = named_voters(nodes)
        self._say = say

    async def run(self, *, is_dry_run: bool = False) -> str:
        """Move, and return the id of the cluster; UserError if anything is in the way.

        A dry run does all that writes nothing.
        """
        with self._locked():
            try:
                session = await self._zookeeper.open_session(lambda _: None)
                try:
                    moving = MovingOut(session)
                    await session.sync()
                    mark = await read_mark(session)
                    if mark is not None:
                        return await self._go_on(moving, mark, is_dry_run=is_dry_run)
                    await moving.refuse_others()
                    return await (self._rehearse(moving) if is_dry_run else self._move(moving))
                finally:
                    await session.close()
            except (ZooKeeperError, MalformedNode) as error:
                raise UserError(f"the move was not finished; ZooKeeper: {error}") from error
            except OSError as error:
                raise UserError(f"the move was not finished; a disk refused: {error}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the locks of all directories: a broker that has lost ZooKeeper may still run."""
        with ExitStack() as held:
            for path in {path: None for node in self._nodes for path in node.folders.directories}:
                if not self._files.exists(path):
                    continue
                try:
                    held.callback(self._files.lock(f"{path}/{LOCK}").release)
                except BlockingIOError:
                    raise UserError(f"{path} is in use by a broker: stop all of them") from None
            yield

    async def _rehearse(self, moving: MovingOut) -> str:
        tree, image = await self._read(moving)
        taken = self._taken_over(tree, image, is_writing=False)
        _refuse(differences(image, taken, taken))
        self._say(f"nothing is in the way of moving {_size(taken)}; nothing was written")
        return taken.cluster_id

    async def _move(self, moving: MovingOut) -> str:
        now_ms = self._clock.wall_ms()
        await moving.take_seat(now_ms)
        try:
            tree, image = await self._read(moving)
            taken = self._taken_over(tree, image, is_writing=True)
            checksum = self._write(image, taken, tree.snapshot, now_ms)
            if (await moving.read()).metadata != tree.metadata:
                raise UserError("somebody has changed the tree meanwhile: give the command again")
            await moving.refuse_others()
            mark = MigrationNode(*tree.snapshot, checksum)
            await moving.mark(mark)
            self._switch(mark, taken.cluster_id)
        finally:
            await moving.leave()
        for group in await moving.old_groups():
            self._say(f"warning: offsets of the old consumer group {group} stay in ZooKeeper")
        return taken.cluster_id

    async def _go_on(self, moving: MovingOut, mark: MigrationNode, *, is_dry_run: bool) -> str:
        """End a move that was interrupted behind its mark."""
        reading = await in_turns(read_tree((await moving.read()).metadata, 0))
        cluster_id = reading.image.cluster_id
        self._say("ZooKeeper says already that the metadata has moved: only the switch is left")
        if not is_dry_run:
            for node in self._nodes:
                is_known_node(self._files, node.folders, cluster_id)
            self._switch(mark, cluster_id)
        return cluster_id

    # Checking

    async def _read(self, moving: MovingOut) -> tuple[TreeNodes, MetadataImage]:
        tree = await moving.read()
        reading = await in_turns(read_tree(tree.metadata, 0))
        _refuse(obstacles(tree, reading))
        self._refuse_folders(reading.image)
        return tree, reading.image

    def _refuse_folders(self, tree: MetadataImage) -> None:
        """Raise UserError unless each broker of the tree has its folders here, and no other's."""
        known = {
            node.id
            for node in self._nodes
            if is_known_node(self._files, node.folders, tree.cluster_id)
        }
        given = {node.id for node in self._nodes}
        for broker_id in sorted(brokers_with_replicas(tree) - known):
            if broker_id in given:
                raise UserError(
                    f"broker {broker_id} has replicas, and no meta.properties in its log.dirs"
                )
            raise UserError(
                f"broker {broker_id} has replicas, and no file of settings: each node needs one. If"
                " it is gone for good, move its replicas to other brokers first"
            )
        for node in self._nodes:
            refuse_other_metadata(self._files, node.folders)

    # Writing

    def _taken_over(
        self, tree: TreeNodes, image: MetadataImage, *, is_writing: bool
    ) -> MetadataImage:
        brokers = []
        for node in self._nodes:
            ids = directory_ids(
                self._files, node.folders, image.cluster_id, self._random, is_writing=is_writing
            )
            epoch = tree.broker_epochs.get(node.id)
            if epoch is not None:
                brokers.append(_fenced_broker(node, epoch, ids))
        minimum = self._nodes[0].settings.values.integer("min.insync.replicas")
        return taken_over(image, brokers, tree.snapshot.end_offset, minimum)

    def _write(
        self, tree: MetadataImage, taken: MetadataImage, snapshot: SnapshotId, now_ms: int
    ) -> int:
        """Write the folders of all voters and read them back; return their common checksum."""
        voters = [node.folders for node in self._nodes if node.is_voter]
        for folders in voters:
            write_metadata(self._files, folders, taken, snapshot, self._voters, now_ms)
        checksums = set()
        for folders in voters:
            found = read_metadata(self._files, folders, taken.cluster_id, snapshot)
            _refuse(differences(tree, taken, found))
            checksums.add(checksum_of(self._files, folders, snapshot))
        checksum = checksums.pop()
        if checksums or checksum is None:
            raise UserError("the snapshots of the voters are not the same")
        self._say(f"{_size(taken)}: written to {len(voters)} voters and compared")
        return checksum

    def _switch(self, mark: MigrationNode, cluster_id: str) -> None:
        """Let every node belong to the quorum; UserError if a voter lacks what was marked."""
        snapshot = SnapshotId(mark.end_offset, mark.epoch)
        for node in self._nodes:
            is_there = checksum_of(self._files, node.folders, snapshot) == mark.checksum
            # One that has run with the quorum may have a newer snapshot instead.
            if node.is_voter and not is_there and not has_log(self._files, node.folders):
                raise UserError(
                    f"{node.folders.metadata_folder} lacks {snapshot.name} as it was written: copy"
                    " the folder of another voter"
                )
        for node in self._nodes:
            belong_to_quorum(self._files, node.folders, cluster_id)


def _fenced_broker(node: MovingNode, epoch: int, ids: Mapping[str, bytes]) -> Broker:
    """Return a broker as it was in its last life, which is over."""
    return Broker(
        node.id,
        epoch,
        epoch.to_bytes(16),
        tuple(
            Endpoint(
                one.name,
                one.advertised_host,
                one.advertised_port or one.port,
                one.security_protocol,
            )
            for one in node.settings.endpoints
        ),
        node.settings.rack,
        SUPPORTED_FEATURES,
        log_directories=tuple(ids[path] for path in node.folders.log_directories),
    )


def _size(image: MetadataImage) -> str:
    count = image.partition_count
    return f"cluster {image.cluster_id}, {len(image.topics)} topics with {count} partitions"


def _refuse(problems: Iterator[str]) -> None:
    problem = first_of(problems)
    if problem is not None:
        raise UserError(f"refused, and nothing was switched: {problem}")
