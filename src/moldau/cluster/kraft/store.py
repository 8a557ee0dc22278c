"""The metadata store of a node of a quorum, whether it votes or only follows.

    start     read the own log, take part in the quorum; a voter that is alone leads it then
    follow    what is committed goes into the image, and to the listeners
    leads     return once this node leads and knows all that was committed: it may claim then
    commit    encode, append as the leader, return when a majority has it and the image too

Two parts do the work: `image_follower` follows the committed log, `leadership` claims and commits.
The store opens the log for them, keeps what this node has promised, and hears from the `node` what
becomes of it: it passes news on to the part they concern. It must not know how a commit is made.

A voter that is alone is a quorum all the same, with the same folder and the same ways. It founds
its cluster, and elects itself within its start. A folder that names other voters is refused before
anything in it is changed: to go on with it alone would fork the metadata of its cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from moldau.base.clock import Clock, Random
from moldau.base.errors import MoldauError, StorageError
from moldau.base.executor import Executor
from moldau.base.files import Files
from moldau.base.ids import Offset
from moldau.cluster.blocking import blocking_in
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.formatting import ClusterIdentity
from moldau.cluster.image import MetadataImage
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.kraft.description import describe
from moldau.cluster.kraft.image_follower import ImageFollower
from moldau.cluster.kraft.leadership import Leadership
from moldau.cluster.kraft.node import RaftNode
from moldau.cluster.kraft.own_node import (
    LogSettings,
    OwnNode,
    identify_node,
    other_cluster_error,
)
from moldau.cluster.kraft.peers import Peers
from moldau.cluster.kraft.quorum_file import read_quorum_state, write_quorum_state
from moldau.cluster.kraft.raft_log import RaftLog
from moldau.cluster.kraft.role_lines import RoleLines
from moldau.cluster.kraft.sole_log import SoleLog
from moldau.cluster.kraft.tenure import Tenure
from moldau.cluster.opening import NO_SNAPSHOT, formatted_changes, opening_errors
from moldau.cluster.quorum_description import QuorumDescription
from moldau.cluster.raft import effects as out
from moldau.cluster.raft.core import RaftCore
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.states import Leader
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voter_changes import unready_voters
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.cluster.store import Listener, StoreFailed

STOP_PATIENCE_S: Final = 2.0
"""How long a leader that stops waits until the others know."""


class RaftStore:
    """A `MetadataStore` on a quorum. Owned by the event loop's thread."""

    def __init__(
        self,
        own: OwnNode,
        files: Files,
        clock: Clock,
        random: Random,
        peers: Peers,
        timeouts: Timeouts,
        log_settings: LogSettings,
        executor: Executor | None = None,
    ) -> None:
        self._own = own
        self._files = files
        self._clock = clock
        self._random = random
        self._timeouts = timeouts
        self._folder = f"{own.metadata_directory}/{METADATA_FOLDER}"
        self._blocking = blocking_in(executor)
        self._log = RaftLog(
            files,
            self._folder,
            clock,
            self._blocking,
            log_settings.pace,
            log_settings.retention,
            is_voting=own.is_voting,
            is_sole=own.is_sole_voter,
        )
        self.node = RaftNode(self._begin_life, self._log, peers, clock, self._keep_promise, self)
        self.peers = peers
        """The ways to the other nodes."""
        self._follower = ImageFollower(self._log, self._applied, self.failed)
        self._minimum = ClusterMinimum(log_settings.min_insync_replicas)
        self._leadership = Leadership(
            self.node, self._follower, clock, self._minimum, self._check, self._disk_error
        )
        self._identity: ClusterIdentity | None = None
        self._promised = QuorumState()
        """What `quorum-state` says."""
        self._voters = VoterHistory(VoterSet())
        """The core changes it, as records of the log come and go."""
        self._role_lines = RoleLines()
        self._role_news = asyncio.Event()
        """Set whenever the role or the image has changed."""
        self._goal = -1
        """The first high watermark that a leader has told; -1 before."""
        self._failure: MoldauError | None = None
        self._failed: Callable[[MoldauError], None] | None = None
        self.on_news: Callable[[], None] = lambda: None
        """Called after another role, leader or voter set; also when nothing has changed."""
        self._is_closed = False

    # What every broker follows

    @property
    def image(self) -> MetadataImage:
        return self._follower.image

    @property
    def identity(self) -> ClusterIdentity:
        """Cluster id, node id and the ids of the log directories; known once started."""
        if self._identity is None:
            raise StoreFailed("the metadata store has not been started")
        return self._identity

    @property
    def metadata_directory_id(self) -> bytes:
        """The id of the directory with the metadata log; known once started."""
        return self.identity.metadata_directory_id

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that is known here."""
        return self._leadership.role.epoch

    @property
    def leader_id(self) -> int:
        """The node that leads the quorum; -1 while it is not known."""
        return self._leadership.role.leader

    @property
    def has_heard_leader(self) -> bool:
        """Whether a leader has answered since the start, or this node has led."""
        return self._goal >= 0

    @property
    def committed_offset(self) -> Offset:
        """Everything before it is committed, as far as this node has heard."""
        return self._follower.committed_offset

    @property
    def kraft_version(self) -> int:
        """0 with voters from the settings, 1 from the log."""
        return int(self._voters.is_dynamic)

    @property
    def voters(self) -> VoterSet:
        """Who votes, as far as is known here."""
        return self._voters.newest.voters

    @property
    def unready_voters(self) -> tuple[int, ...]:
        """The voters of which this node, as the leader, does not know that the log can name them.

        Under kraft.version 1 it does so already; a node that does not lead knows of nobody.
        """
        life = self.node.life
        if life is None or not isinstance(life.state, Leader) or self.kraft_version:
            return ()
        return unready_voters(life, life.state)

    def describe(self) -> QuorumDescription | None:
        """Return what this node knows of the quorum as its leader; None if it does not lead."""
        life = self.node.life
        now = self._clock
        return None if life is None else describe(life, now.monotonic(), now.wall_ms())

    async def start(self, log_directories: Sequence[str] | None = None) -> None:
        """Read the own log and take part in the quorum; nothing need be known of others yet."""
        with opening_errors(self._folder):
            self._open(self._own.log_directories if log_directories is None else log_directories)
            await self._log.make_durable()
        self._follower.start()
        self.node.start()
        if self._own.is_sole_voter:
            try:
                await self._lead_first()
            except MoldauError:
                await self.close()
                raise

    async def _lead_first(self) -> None:
        """Return once this node leads, with all of its log in the image; StorageError if it cannot.

        Later, a disk that refuses is waited for. Now there is somebody to be told.
        """
        while not self._leadership.is_possible:
            self._role_news.clear()
            self._check()
            if self.node.refusal is not None:
                raise StorageError(self._folder, f"cannot be opened: {self.node.refusal}")
            await self._role_news.wait()

    def _open(self, log_directories: Collection[str]) -> None:
        own, quorum = self._own, self._follower.quorum
        self._identity = identify_node(
            self._files, own, log_directories, self._random, self._clock.wall_ms()
        )
        sole = SoleLog(own.id, self._folder, quorum, self._minimum)
        opened = self._log.read(
            self._identity.cluster_id,
            quorum,
            own.static_voters,
            sole.look if own.is_sole_voter else None,
        )
        if own.is_sole_voter:
            sole.check(opened.voters.newest.voters, self._identity.metadata_directory_id)
        self._log.open(opened.snapshot.id)
        self._voters = opened.voters
        snapshot, replay = opened.snapshot
        image = replay.image(snapshot.end_offset)
        if snapshot.end_offset == NO_SNAPSHOT.end_offset:
            # What the format tool wrote is not in the log: the first controller writes it there.
            self._leadership.first_changes = list(image.as_changes()) or formatted_changes(
                self._files, own.metadata_directory
            )
            image = MetadataImage(cluster_id=self._identity.cluster_id)
        self._follower.open(image, Offset(snapshot.end_offset))
        self._promised = read_quorum_state(self._files, self._folder)

    async def caught_up(self) -> None:
        """Return once the image has all that was committed when a leader was first heard of."""
        self._check()
        while self._goal < 0 or self._follower.applied_offset < self._goal:
            self._role_news.clear()
            await self._role_news.wait()
            self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closed:
            raise StoreFailed("the metadata store is closed")

    def on_failed(self, callback: Callable[[MoldauError], None]) -> None:
        """Call this once the store can go on no more; at once if it already cannot."""
        self._failed = callback
        if self._failure is not None:
            callback(self._failure)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._follower.subscribe(listener)

    async def close(self) -> None:
        """Hand over if this node leads, finish what is written, and give everything back."""
        if self._is_closed:
            return
        if self.tenure is not None:
            self.tenure.give_back()
        await self.node.stop(STOP_PATIENCE_S)
        self._is_closed = True
        self._leadership.end()
        self._role_news.set()
        await self._follower.close()
        await self._leadership.finish()
        await self._log.close()
        await self.peers.close()

    # The node's life

    def _begin_life(self) -> RaftCore:
        position = self._log.position()
        self._voters.truncate(position.end_offset)
        return RaftCore(
            self._own_voter(),
            self.identity.cluster_id,
            self._timeouts,
            self._random,
            position,
            self._voters,
            self._promised,
            self._clock.monotonic(),
            joins_voters=self._own.joins_voters,
        )

    def _own_voter(self) -> Voter:
        key = ReplicaKey(NodeId(self._own.id), self.metadata_directory_id)
        known = self.voters.find(key)
        if known is not None and self.kraft_version and not self._own.endpoints:
            return known  # Nobody reaches this node now; its log keeps what it says.
        return Voter(key, self._own.endpoints)

    async def _keep_promise(self, quorum: QuorumState, life: Life) -> None:
        place, version = (self._files, self._folder), int(life.voter_history.is_dynamic)
        await self._blocking(partial(write_quorum_state, *place, quorum, life.voters, version))
        self._promised = quorum

    def role_changed(self, change: out.RoleChanged) -> None:
        """Take note of another role, epoch or leader."""
        self._role_lines.changed(change)
        self._leadership.role_changed(change)
        self._tell_news()

    def _disk_error(self, size: int) -> StoreFailed | None:
        """Say what keeps the only voter from writing; None if nothing does, or others vote too.

        What was appended and does not fit costs this life of the core. So a large commit is refused
        before, if it can be known. Among several, another leader may have the room.
        """
        if not self._own.is_sole_voter:
            return None
        node = self.node
        if node.life is None and node.refusal is not None:
            return StoreFailed(f"{self._folder} cannot be written: {node.refusal}")
        if self._log.lacks_room(size):
            return StoreFailed(f"{self._folder} has no room for {size} bytes")
        return None

    def _tell_news(self) -> None:
        self._role_news.set()
        self.on_news()

    def failed(self, error: MoldauError) -> None:
        """End for a reason that will not pass."""
        if self._failure is None:
            self._failure = error
            self._leadership.end()
            self._role_news.set()
            if self._failed is not None:
                self._failed(error)

    # The image

    def committed(self, offset: Offset) -> None:
        """Let the image follow."""
        self._follower.committed(offset)

    async def install(self, snapshot: SnapshotId) -> None:
        """Put a snapshot in place of the log, and go on with its image."""
        await self._follower.install(snapshot)
        self._tell_news()

    def _applied(self, offset: Offset) -> None:
        if self._leadership.is_possible and self._goal < 0:
            self._goal = offset
        self._tell_news()

    def leader_answered(self, high_watermark: int) -> None:
        """Take note how far the log was committed when a leader was first heard of."""
        self._role_lines.heard()
        if self._goal < 0:
            self._goal = high_watermark
            self._role_news.set()

    def met_other_cluster(self) -> bool:
        """Tell whether this node can go on although a controller belongs to another cluster.

        Of several, another one may know this node's cluster, now or later.
        """
        if self._own.is_voting or not self._own.has_one_controller or self._goal >= 0:
            return True
        self.failed(other_cluster_error(self._own, self.identity))
        return False

    # Being the controller

    @property
    def tenure(self) -> Tenure | None:
        """This node's time as the active controller, if it is that."""
        return self._leadership.tenure

    async def leads(self) -> None:
        """Return when this node may claim the controllership."""
        self._check()
        while not self._leadership.is_possible or self.tenure is not None:
            self._role_news.clear()
            await self._role_news.wait()
            self._check()

    async def claim(self) -> Tenure | None:
        self._check()
        return await self._leadership.claim()
