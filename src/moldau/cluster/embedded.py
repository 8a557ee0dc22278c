"""The metadata store of the only voter: KRaft's own journal, a quorum of one.

The default of a broker that stands alone: no other process, and a folder that changes hands with a
single-node Kafka either way. In a cluster it is the store of the one node that votes, and others
observe its log (`leader_log`, `observer`).

A commit is one batch, appended and synced before the image is replaced and listeners hear of it.
One commit is under way at a time; the disk's sync leaves the event loop through the executor.

The order of a start, so that a crash at any step leaves a directory that the next start accepts:
check or write the identity -> read snapshot and journal -> check the voters -> cut a torn tail ->
raise the leader epoch in `quorum-state` -> write it to the journal, with the first changes of a new
cluster. The journal is not changed before the voters are checked: it may belong to a larger quorum.

A commit survives the cancellation of its caller. Once it is written, the next start will find it,
so it must get into the image now.

There is no other candidate: a start wins the controllership, with a larger epoch each time, and it
is not lost while the store is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from moldau.base.checks import invariant
from moldau.base.clock import Clock, Random
from moldau.base.errors import MoldauError, StorageError
from moldau.base.executor import Executor
from moldau.base.files import Files
from moldau.base.ids import BrokerId, LeaderEpoch
from moldau.base.shielding import shielded
from moldau.cluster.blocking import blocking_in
from moldau.cluster.changes import Change
from moldau.cluster.cluster_minimum import ClusterMinimum
from moldau.cluster.commit_batches import FIRST_CHANGES, BatchStamp, JournalBatch, commit_batches
from moldau.cluster.formatting import ClusterIdentity, identify_directories
from moldau.cluster.image import MetadataImage
from moldau.cluster.in_turns import CHANGES_PER_TURN
from moldau.cluster.journal import METADATA_FOLDER, Journal
from moldau.cluster.kept_snapshots import KeptSnapshots, MetadataRetention
from moldau.cluster.leader_log import LeaderLog
from moldau.cluster.listeners import Listeners
from moldau.cluster.opening import formatted_changes, open_newest_snapshot, opening_errors
from moldau.cluster.quorum import Quorum, leader_change, read_leader_epoch, write_quorum_state
from moldau.cluster.record_codec import (
    TransactionMark,
    encode_change,
    encode_mark,
    metadata_level,
)
from moldau.cluster.snapshots import remove_unfinished_snapshots
from moldau.cluster.snapshotting import (
    SNAPSHOT_AFTER_BYTES,
    SNAPSHOT_INTERVAL_S,
    SnapshotPace,
    SnapshotState,
    Snapshotting,
)
from moldau.cluster.store import ControllerFenced, Listener, StoreFailed, VersionConflict
from moldau.records.control import ControlType, control_batch
from moldau.records.record import read_records


@dataclass(frozen=True, slots=True)
class EmbeddedControllership:
    """The right to commit of the only broker, as long as its store is open."""

    epoch: int
    _commit: Callable[[int, int, Sequence[Change]], Awaitable[int]]

    async def commit(self, expected_version: int, changes: Sequence[Change]) -> int:
        return await self._commit(self.epoch, expected_version, changes)

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Never call it: there is no other candidate."""


class EmbeddedStore:
    """A `MetadataStore` in the log directories of one broker."""

    def __init__(
        self,
        files: Files,
        log_directories: Sequence[str],
        node_id: BrokerId,
        clock: Clock,
        random: Random,
        *,
        metadata_directory: str | None = None,
        cluster_id: str | None = None,
        executor: Executor | None = None,
        snapshot_after_bytes: int = SNAPSHOT_AFTER_BYTES,
        snapshot_interval_s: float = SNAPSHOT_INTERVAL_S,
        retention: MetadataRetention = MetadataRetention(),  # noqa: B008 - it never changes
        min_insync_replicas: int = 1,
    ) -> None:
        self._files = files
        self._log_directories = tuple(log_directories)
        self.metadata_directory = metadata_directory or self._log_directories[0]
        self._folder = f"{self.metadata_directory}/{METADATA_FOLDER}"
        self._node_id = node_id
        self._clock = clock
        self._random = random
        self._wanted_cluster_id = cluster_id
        self._blocking = blocking_in(executor)
        self._minimum = ClusterMinimum(min_insync_replicas)
        self._listeners = Listeners()
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[int]] = set()
        self._snapshots = KeptSnapshots(files, self._folder, retention)
        self._snapshotting = Snapshotting(
            files,
            self._folder,
            clock,
            self._blocking,
            self._turn,
            self._snapshots,
            SnapshotPace(snapshot_after_bytes, snapshot_interval_s),
        )
        self._quorum = Quorum()
        self._epoch = LeaderEpoch(0)
        self._journal: Journal | None = None
        self._log: LeaderLog | None = None
        self._controllership: EmbeddedControllership | None = None
        self._identity: ClusterIdentity | None = None
        self._image = MetadataImage()

    @property
    def image(self) -> MetadataImage:
        return self._image

    @property
    def identity(self) -> ClusterIdentity:
        """Cluster id, node id and the ids of the log directories; known after the start."""
        if self._identity is None:
            raise StoreFailed("the metadata store has not been started")
        return self._identity

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this node leads its quorum."""
        return self._epoch

    @property
    def leader_id(self) -> int:
        """The node that leads the metadata: this one, the only voter."""
        return self._node_id

    @property
    def kraft_version(self) -> int:
        """The version of the quorum: 0 with voters from the settings, 1 from the log."""
        return self._quorum.kraft_version

    @property
    def metadata_directory_id(self) -> bytes:
        """The id of the directory with the metadata log; known after the start."""
        return self.identity.metadata_directory_id

    @property
    def log(self) -> LeaderLog:
        """The committed log, for those that observe it; known once started."""
        if self._log is None:
            raise StoreFailed("the metadata store has not been started")
        return self._log

    async def start(self, log_directories: Sequence[str] | None = None) -> None:
        if log_directories is not None:
            self._log_directories = tuple(log_directories)
        with opening_errors(self._folder):
            await self._open()

    async def claim(self) -> EmbeddedControllership:
        """Always grant it: the start has won the election of one voter."""
        if self._journal is None or self._controllership is None:
            raise StoreFailed("the metadata store is not open")
        return self._controllership

    @property
    def leader_log(self) -> LeaderLog:
        """The committed log, for nodes that follow it."""
        return self.log

    async def caught_up(self) -> None:
        """Return at once: what was committed is read at the start."""

    def on_failed(self, callback: Callable[[MoldauError], None]) -> None:
        """Never call: a write that fails is told to whoever asked for it."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        return self._listeners.subscribe(listener)

    async def close(self) -> None:
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        await self._snapshotting.finish()
        if self._log is not None:
            self._log.end()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    async def _open(self) -> None:
        self._identity = identify_directories(
            self._files,
            self._log_directories,
            self.metadata_directory,
            self._node_id,
            self._random,
            self._clock.wall_ms(),
            self._wanted_cluster_id,
        )
        journal = Journal(self._files, self._folder)
        snapshot, replay = open_newest_snapshot(
            self._files, self._folder, self.identity.cluster_id, self._quorum
        )
        for batch in journal.load(snapshot.end_offset):
            records = read_records(batch.data)
            if batch.header.control:
                for record in records:
                    self._quorum.learn(record)
            else:
                values = [
                    record.value or b""
                    for record in records
                    if record.offset >= snapshot.end_offset
                ]
                replay.take(values)
                self._minimum.saw(batch.header.base_offset, values)
        # Before `resume`, which cuts a torn tail: a journal of a larger quorum stays as it is.
        self._quorum.check_alone(self._node_id, self._folder)
        self._image = replay.image(journal.next_offset)
        journal.resume(snapshot.end_offset)
        remove_unfinished_snapshots(self._files, self._folder)
        self._journal = journal
        self._snapshots.load(journal.start_offset)
        known = max(
            read_leader_epoch(self._files, self._folder), journal.last_epoch, snapshot.epoch
        )
        await self._lead(journal, LeaderEpoch(known + 1), replay.open_transaction)
        self._log = LeaderLog(
            self._files,
            journal,
            self._snapshots,
            self.identity.cluster_id,
            self._node_id,
            self._epoch,
            journal.next_offset,
        )
        self._keep_snapshots(journal)

    async def _lead(self, journal: Journal, epoch: LeaderEpoch, open_transaction: bool) -> None:
        """Win the election of one voter, and write the first batches of a new leader.

        The epoch is in `quorum-state` before a batch has it. After a crash in between, the next
        start takes a larger one.
        """
        self._epoch = epoch
        write_quorum_state(
            self._files, self._folder, self._node_id, epoch, (self._node_id,), self.kraft_version
        )
        journal.begin_epoch(self._epoch)
        first = control_batch(
            ControlType.LEADER_CHANGE,
            leader_change(self._node_id),
            self._clock.wall_ms(),
            base_offset=journal.next_offset,
            leader_epoch=self._epoch,
        )
        values = [encode_mark(TransactionMark.ABORT)] if open_transaction else []
        changes = self._first_changes() or self._minimum.corrected(self._image)
        level = metadata_level(self._image.apply(changes, self._image.version))
        values += [encode_change(change, level) for change in changes]
        second = journal.next_offset + 1
        name = None if self._image.features else FIRST_CHANGES
        batches = await commit_batches(values, second, self._stamp(level), name)
        await self._write(journal, [JournalBatch(first, second), *batches])
        self._image = self._image.apply(changes, journal.next_offset)
        self._controllership = EmbeddedControllership(self._epoch, self._commit)

    def _first_changes(self) -> list[Change]:
        """Return the first changes of a new cluster, as it was formatted; none for an older one."""
        if self._image.features:
            return []
        changes = formatted_changes(self._files, self.metadata_directory)
        image = self._image.apply(changes, self._image.version)
        return changes + self._minimum.stated(image)

    async def _commit(self, epoch: int, expected_version: int, changes: Sequence[Change]) -> int:
        # A task of its own, shielded: if the caller is cancelled, the commit still finishes.
        task = asyncio.ensure_future(self._commit_in_turn(epoch, expected_version, tuple(changes)))
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await shielded(task)

    async def _commit_in_turn(
        self, epoch: int, expected_version: int, changes: tuple[Change, ...]
    ) -> int:
        async with self._turn:
            journal = self._journal
            if journal is None or not journal.writable:
                raise StoreFailed("the metadata store is not open for writing")
            # Before the version: a fenced controller must not decide again on a newer image.
            if epoch != self._epoch:
                raise ControllerFenced(epoch)
            if expected_version != self._image.version:
                raise VersionConflict(expected_version, self._image.version)
            if not changes:
                return expected_version
            level = metadata_level(self._image)
            values, draft = [], self._image.draft()
            for count, change in enumerate(changes, 1):
                values.append(encode_change(change, level))
                draft.take(change)
                if not count % CHANGES_PER_TURN:
                    await asyncio.sleep(0)
            batches = await commit_batches(values, journal.next_offset, self._stamp(level))
            version = batches[-1].next_offset
            invariant(version > expected_version, "a commit does not raise the version")
            # The image is complete before the write: if the changes contradict it, nothing may be
            # written. It is published after the write: nobody may see what a crash can undo.
            image = draft.finish(version)
            await self._write(journal, batches)
            self._image = image
            # Before the listeners: one that fails must not hide the commit from other nodes.
            self.log.commit(version)
            self._listeners.tell(changes, image)
        self._keep_snapshots(journal)
        return version

    async def _write(self, journal: Journal, batches: Sequence[JournalBatch]) -> None:
        """Make batches durable, each before the next is begun; all of them or none."""
        end = journal.end
        try:
            for batch in batches:
                journal.append(batch.data, batch.next_offset)
                await self._blocking(journal.sync)
        except StorageError:
            journal.take_back(end)
            raise

    def _stamp(self, level: int) -> BatchStamp:
        return BatchStamp(self._epoch, self._clock.wall_ms(), level)

    def _forget(self, task: asyncio.Task[int]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # The caller gets the exception. If it was cancelled, the exception is dropped here.
            task.exception()

    def _keep_snapshots(self, journal: Journal) -> None:
        self._snapshotting.changed(
            journal, lambda: SnapshotState(self._image, self._epoch, self._quorum.control)
        )
