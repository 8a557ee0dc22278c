"""The metadata store of a node of a quorum, whether it votes or only follows.

    start     read the own log, take part in the quorum; a voter that is alone leads it then
    follow    what is committed goes into the image, and to the listeners
    leads     return once this node leads and knows all that was committed: it may claim then
    commit    encode, append as the leader, return when a majority has it and the image too

Every node goes by its own log, the leader too. Only the leader's image takes a short way: it was
made when the changes were checked, so that they need not be read back from the log.

A commit under way when the leadership is lost may happen or not: the next leader decides.

A voter that is alone is a quorum all the same, with the same folder and the same ways. It founds
its cluster, and elects itself within its start. A folder that names other voters is refused before
anything in it is changed: to go on with it alone would fork the metadata of its cluster.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from moldau.base.clock import Clock, Random
from moldau.base.errors import CorruptRecords, InvariantViolated, MoldauError, StorageError
from moldau.base.executor import Executor
from moldau.base.files import Files
from moldau.base.ids import NO_OFFSET, LeaderEpoch, Offset
from moldau.base.shielding import shielded
from moldau.cluster.blocking import blocking_in
from moldau.cluster.changes import Change
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.formatting import FIRST_FEATURES, ClusterIdentity
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import difference_in_pieces
from moldau.cluster.in_turns import CHANGES_PER_TURN
from moldau.cluster.journal import METADATA_FOLDER
from moldau.cluster.kraft.description import describe
from moldau.cluster.kraft.node import RaftNode
from moldau.cluster.kraft.own_node import (
    LogSettings,
    OwnNode,
    identify_node,
    other_cluster_error,
)
from moldau.cluster.kraft.peers import Peers
from moldau.cluster.kraft.pending_commit import PendingCommit
from moldau.cluster.kraft.prepared_commit import PreparedCommit, prepare_commit
from moldau.cluster.kraft.quorum_file import read_quorum_state, write_quorum_state
from moldau.cluster.kraft.raft_log import RaftLog
from moldau.cluster.kraft.role_lines import RoleLines
from moldau.cluster.kraft.sole_log import SoleLog
from moldau.cluster.kraft.tenure import Tenure
from moldau.cluster.listeners import Listeners
from moldau.cluster.log_applier import LogApplier
from moldau.cluster.opening import NO_SNAPSHOT, formatted_changes, opening_errors
from moldau.cluster.quorum import Quorum
from moldau.cluster.quorum_description import QuorumDescription
from moldau.cluster.raft import effects as out
from moldau.cluster.raft.core import RaftCore
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.states import Leader, Role
from moldau.cluster.raft.timeouts import Timeouts
from moldau.cluster.raft.voter_changes import unready_voters
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import NO_NODE, NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.cluster.snapshotting import SnapshotState
from moldau.cluster.store import (
    ControllerFenced,
    Listener,
    OutcomeUnknown,
    StoreFailed,
    VersionConflict,
)

logger = logging.getLogger(__name__)

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
        self._minimum = ClusterMinimum(log_settings.min_insync_replicas)
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
        self._listeners = Listeners()
        self._identity: ClusterIdentity | None = None
        self._quorum = Quorum()
        self._promised = QuorumState()
        """What `quorum-state` says."""
        self._voters = VoterHistory(VoterSet())
        """The core changes it, as records of the log come and go."""
        self._first_changes: list[Change] = []
        self._image = MetadataImage()
        self._applier: LogApplier | None = None
        self._applying = asyncio.Lock()
        """Held by whoever moves the image."""
        self._committed = Offset(0)
        self._has_more = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._role = out.RoleChanged(Role.UNATTACHED, LeaderEpoch(0), NO_NODE)
        self._role_lines = RoleLines()
        self._role_news = asyncio.Event()
        """Set whenever the role or the image has changed."""
        self._tenure: Tenure | None = None
        self._turn = asyncio.Lock()
        """Held by the commit under way."""
        self._pending: PendingCommit | None = None
        self._commits: set[asyncio.Task[int]] = set()
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
        return self._image

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
        return self._role.epoch

    @property
    def leader_id(self) -> int:
        """The node that leads the quorum; -1 while it is not known."""
        return self._role.leader

    @property
    def has_heard_leader(self) -> bool:
        """Whether a leader has answered since the start, or this node has led."""
        return self._goal >= 0

    @property
    def committed_offset(self) -> Offset:
        """Everything before it is committed, as far as this node has heard."""
        return self._committed

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
        self._following = asyncio.ensure_future(self._follow())
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
        while not self._may_lead:
            self._role_news.clear()
            self._check()
            if self.node.refusal is not None:
                raise StorageError(self._folder, f"cannot be opened: {self.node.refusal}")
            await self._role_news.wait()

    def _open(self, log_directories: Collection[str]) -> None:
        own = self._own
        self._identity = identify_node(
            self._files, own, log_directories, self._random, self._clock.wall_ms()
        )
        sole = SoleLog(own.id, self._folder, self._quorum, self._minimum)
        opened = self._log.read(
            self._identity.cluster_id,
            self._quorum,
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
            self._first_changes = list(image.as_changes()) or formatted_changes(
                self._files, own.metadata_directory
            )
            image = MetadataImage(cluster_id=self._identity.cluster_id)
        self._image = image
        self._committed = Offset(snapshot.end_offset)
        self._applier = self._new_applier()
        self._promised = read_quorum_state(self._files, self._folder)

    async def caught_up(self) -> None:
        """Return once the image has all that was committed when a leader was first heard of."""
        self._check()
        while self._goal < 0 or self._applied_offset < self._goal:
            self._role_news.clear()
            await self._role_news.wait()
            self._check()

    @property
    def _applied_offset(self) -> int:
        return -1 if self._applier is None else self._applier.applied_offset

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
        return self._listeners.subscribe(listener)

    async def close(self) -> None:
        """Hand over if this node leads, finish what is written, and give everything back."""
        if self._is_closed:
            return
        if self._tenure is not None:
            self._tenure.give_back()
        await self.node.stop(STOP_PATIENCE_S)
        self._is_closed = True
        self._end_tenure()
        self._role_news.set()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        if self._commits:
            await asyncio.wait(tuple(self._commits))
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
        self._role = change
        tenure = self._tenure
        if self._is_waiting_for_disk:
            self._fail_pending(self._disk_error())
        elif tenure is not None and (
            change.role is not Role.LEADER or change.epoch != tenure.epoch
        ):
            self._end_tenure()
        self._tell_news()

    @property
    def _is_waiting_for_disk(self) -> bool:
        """Whether the only voter cannot write: nobody else leads, so it stays the controller."""
        node = self.node
        return self._own.is_sole_voter and node.life is None and node.refusal is not None

    def _disk_error(self) -> StoreFailed:
        return StoreFailed(f"{self._folder} cannot be written: {self.node.refusal}")

    def _tell_news(self) -> None:
        self._role_news.set()
        self.on_news()

    def failed(self, error: MoldauError) -> None:
        """End for a reason that will not pass."""
        if self._failure is None:
            self._failure = error
            self._end_tenure()
            self._role_news.set()
            if self._failed is not None:
                self._failed(error)

    # From the log to the image

    def committed(self, offset: Offset) -> None:
        """Let the image follow."""
        self._committed = offset
        self._has_more.set()

    async def _follow(self) -> None:
        while True:
            await self._has_more.wait()
            self._has_more.clear()
            try:
                async with self._applying:
                    await self._apply()
            except (CorruptRecords, InvariantViolated) as error:
                self.failed(StorageError(self._folder, f"does not add up: {error}"))
                return
            except MoldauError as error:
                self.failed(error)
                return
            except OSError as error:
                self.failed(StorageError(self._folder, f"cannot be read: {error}"))
                return

    async def _apply(self) -> None:
        applier, end, pending = self._applier, self._committed, self._pending
        assert applier is not None  # it was opened
        if pending is not None and pending.image is not None:
            if pending.version <= end:
                await applier.apply_up_to(pending.first_offset)
                applier.adopt(pending.changes, pending.image)
            else:
                # Its first batches are committed. It is adopted as a whole, so none is read back.
                end = min(end, Offset(pending.first_offset))
        await applier.apply_up_to(end)
        if pending is not None and pending.version <= end:
            self._pending = None
            pending.finish()
        if self._may_lead and self._goal < 0:
            self._goal = end
        self._tell_news()
        self._log.keep_snapshots(self._snapshot_state)

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

    def _new_applier(self) -> LogApplier:
        return LogApplier(self._log.journal, self._image, self._quorum, self._publish)

    def _publish(self, changes: Sequence[Change], image: MetadataImage) -> None:
        self._image = image
        if not changes:
            return
        try:
            self._listeners.tell(changes, image)
        except Exception as error:
            # All others have heard. Whoever has asked for the commit is told.
            if self._pending is not None and self._pending.image is image:
                self._pending.listener_error = error
            else:
                logger.exception("a listener of the metadata failed")

    def _snapshot_state(self) -> SnapshotState | None:
        journal = self._log.journal
        if self._image.version != journal.next_offset:
            return None
        return SnapshotState(self._image, journal.last_epoch, self._quorum.control)

    async def install(self, wanted: SnapshotId) -> None:
        """Put a snapshot in place of the log, and go on with its image.

        Listeners hear what it changes. Nobody reads the log meanwhile: it begins anew.
        """
        async with self._applying:
            snapshot = await self._log.install(wanted)
            changes: list[Change] = []
            for count, piece in enumerate(difference_in_pieces(self._image, snapshot.image), 1):
                changes += piece
                if not count % CHANGES_PER_TURN:
                    await asyncio.sleep(0)
            self._quorum = snapshot.quorum
            self._publish(changes, snapshot.image)
            self._applier = self._new_applier()
        self._tell_news()

    # Being the controller

    @property
    def _may_lead(self) -> bool:
        """Whether this node leads, and its image has all that was committed before it did."""
        role = self._role
        return (
            role.role is Role.LEADER
            and NO_OFFSET < role.epoch_start < self._committed
            and role.epoch_start < self._applied_offset
        )

    async def leads(self) -> None:
        """Return when this node may claim the controllership."""
        self._check()
        while not self._may_lead or self._tenure is not None:
            self._role_news.clear()
            await self._role_news.wait()
            self._check()

    async def claim(self) -> Tenure | None:
        self._check()
        if self._tenure is not None and not self._tenure.is_over:
            return self._tenure
        if not self._may_lead:
            return None
        tenure = self._tenure = Tenure(self._role.epoch, self._commit)
        try:
            await self._commit_first(tenure)
        except Exception as error:
            self._end_tenure()
            if not isinstance(error, MoldauError):
                raise
            logger.warning("not the controller: %s", error)
            return None
        return None if tenure.is_over else tenure

    async def _commit_first(self, tenure: Tenure) -> None:
        """End a commit that a former leader has left half done; write what a new cluster has."""
        applier = self._applier
        assert applier is not None  # it was opened
        if self._image.features:
            changes = self._minimum.corrected(self._image)
        else:
            changes = list(self._first_changes or FIRST_FEATURES)
            after = self._image.apply(changes, self._image.version)
            changes += self._minimum.stated(after)
        if changes or applier.is_in_transaction:
            is_aborting = applier.is_in_transaction
            await self._commit(tenure, self._image.version, changes, is_aborting=is_aborting)

    @property
    def tenure(self) -> Tenure | None:
        """This node's time as the active controller, if it is that."""
        return self._tenure

    def _end_tenure(self) -> None:
        tenure, self._tenure = self._tenure, None
        if tenure is not None:
            tenure.end()
        self._fail_pending(OutcomeUnknown("the leadership was lost during a commit"))

    def _fail_pending(self, error: StoreFailed) -> None:
        pending, self._pending = self._pending, None
        self._has_more.set()
        if pending is not None and not pending.done.done():
            # Also where it is committed but not applied: then the log says so, to all alike.
            pending.done.set_exception(error)

    async def _commit(
        self,
        tenure: Tenure,
        expected_version: int,
        changes: Sequence[Change],
        *,
        is_aborting: bool = False,
    ) -> int:
        # A task of its own, shielded: if the caller is cancelled, the commit still finishes.
        work = self._commit_in_turn(tenure, expected_version, tuple(changes), is_aborting)
        task = asyncio.ensure_future(work)
        self._commits.add(task)
        task.add_done_callback(self._commits.discard)
        return await shielded(task)

    async def _commit_in_turn(
        self, tenure: Tenure, expected_version: int, changes: tuple[Change, ...], is_aborting: bool
    ) -> int:
        async with self._turn:
            self._check()
            tenure.check()
            if self._is_waiting_for_disk:
                raise self._disk_error()
            image = self._image
            if expected_version != image.version:
                raise VersionConflict(expected_version, image.version)
            if not changes and not is_aborting:
                return expected_version
            now_ms = self._clock.wall_ms()
            prepared = await prepare_commit(image, changes, now_ms, is_aborting=is_aborting)
            pending = self._append(tenure, prepared, is_read_back=is_aborting)
            await pending.done
            return pending.version

    def _append(
        self, tenure: Tenure, commit: PreparedCommit, *, is_read_back: bool
    ) -> PendingCommit:
        """Append all batches in one turn, under one leadership."""
        tenure.check()
        life = self.node.life
        if life is None or life.state.role is not Role.LEADER or life.epoch != tenure.epoch:
            raise ControllerFenced(tenure.epoch)
        first = life.log.end_offset
        for batch in commit.batches:
            self.node.append(batch, batch.record_count)
        if tenure.is_over:
            raise OutcomeUnknown("the leadership was lost during a commit")
        version = first + commit.record_count
        image = None if is_read_back else commit.image_at(version)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending = PendingCommit(first, version, commit.changes, image, done)
        return self._pending
