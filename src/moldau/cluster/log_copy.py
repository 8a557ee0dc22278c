"""A node's own copy of the leader's metadata log: its files, its high watermark, its image.

    append fetched batches -> the leader's high watermark commits them -> image, listeners

The high watermark starts where the own snapshot ends, as in Kafka: the end of the journal may have
been written under a leader that is gone, and only the present one can tell. It never goes back.
What was committed once is never taken back: a leader whose log ends before it is refused.

The journal is not synced, because all of it can be fetched again; snapshots are. What is fetched
from whom, and when, is the business of whoever owns this.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from moldau.base.clock import Clock
from moldau.base.files import Buffer, Files
from moldau.base.ids import Offset
from moldau.cluster.blocking import Blocking
from moldau.cluster.changes import Change
from moldau.cluster.fetched_log import checked_batches
from moldau.cluster.image import MetadataImage
from moldau.cluster.image_difference import difference_in_pieces
from moldau.cluster.in_turns import CHANGES_PER_TURN
from moldau.cluster.journal import Journal
from moldau.cluster.kept_snapshots import KeptSnapshots, MetadataRetention
from moldau.cluster.log_applier import LogApplier
from moldau.cluster.metadata_source import SourceUnavailable
from moldau.cluster.opening import open_newest_snapshot
from moldau.cluster.quorum import Quorum
from moldau.cluster.snapshot_download import SnapshotDownload, SnapshotPiece
from moldau.cluster.snapshots import SnapshotId, remove_unfinished_snapshots
from moldau.cluster.snapshotting import SnapshotPace, SnapshotState, Snapshotting
from moldau.cluster.store import Listener, StoreFailed
from moldau.storage.epochs import UNKNOWN_EPOCH_END, EpochEnd

_log = logging.getLogger(__name__)


class CommittedLost(StoreFailed):
    """The leader does not have what was committed before."""


class LogCopy:
    """One open copy. Its methods are called one after the other."""

    def __init__(
        self,
        files: Files,
        folder: str,
        clock: Clock,
        blocking: Blocking,
        tell: Listener,
        pace: SnapshotPace,
        retention: MetadataRetention,
    ) -> None:
        self._files = files
        self._folder = folder
        self._blocking = blocking
        self._tell = tell
        self._turn = asyncio.Lock()
        self._snapshots = KeptSnapshots(files, folder, retention)
        self._snapshotting = Snapshotting(
            files, folder, clock, blocking, self._turn, self._snapshots, pace
        )
        self._journal = Journal(files, folder, is_copy=True)
        self.quorum = Quorum()
        self.image = MetadataImage()
        self._applier = self._new_applier()
        self.high_watermark = 0

    def open(self, cluster_id: str) -> None:
        """Read the newest snapshot and see how much of the journal is intact."""
        snapshot, replay = open_newest_snapshot(self._files, self._folder, cluster_id, self.quorum)
        for _ in self._journal.load(snapshot.end_offset):
            pass  # they are applied when the leader has said how many of them are committed
        self._journal.resume(snapshot.end_offset)
        remove_unfinished_snapshots(self._files, self._folder)
        self._snapshots.load(self._journal.start_offset)
        self.image = replay.image(snapshot.end_offset)
        self.high_watermark = snapshot.end_offset
        self._applier = self._new_applier()

    async def close(self) -> None:
        """Give everything back; closing twice is harmless."""
        await self._snapshotting.finish()
        self._journal.close()

    @property
    def writable(self) -> bool:
        """Whether it can go on; if not, only a new start tells what is on the disk."""
        return self._journal.writable

    @property
    def next_offset(self) -> int:
        """Where the copy ends and goes on."""
        return self._journal.next_offset

    @property
    def start_offset(self) -> int:
        """Where the journal begins."""
        return self._journal.start_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the journal or in the snapshot before it."""
        newest = self._snapshots.newest
        return max(self._journal.last_epoch, newest.epoch if newest is not None else 0)

    @property
    def applied_offset(self) -> int:
        """Every record before this one counts in the image, or waits for its transaction's end."""
        return self._applier.applied_offset

    async def append(self, data: Buffer, leader_epoch: int) -> None:
        """Write batches that were fetched under an epoch; SourceUnavailable at a wrong one."""
        for batches in checked_batches(data, self.next_offset, self.last_epoch, leader_epoch):
            write = partial(self._journal.append_copies, *batches)
            async with self._turn:
                if batches.headers[-1].leader_epoch == self._journal.last_epoch:
                    write()
                else:
                    await self._blocking(write)  # a new epoch is written durably
            await asyncio.sleep(0)

    async def commit(self, leader_high_watermark: int) -> None:
        """Apply what the leader says is committed, as far as it is here."""
        committed = min(leader_high_watermark, self.next_offset)
        self.high_watermark = max(self.high_watermark, committed)
        await self._applier.apply_up_to(self.high_watermark)
        self._snapshotting.changed(self._journal, self._snapshot_state)

    async def truncate(self, leader_end: EpochEnd) -> None:
        """Cut the journal where it leaves the leader's, as Kafka's replicas do."""
        journal = self._journal
        own = journal.epochs.end_offset_for(leader_end.epoch, Offset(journal.next_offset))
        if own == UNKNOWN_EPOCH_END:
            own = EpochEnd(journal.last_epoch, Offset(journal.next_offset))
        same = own.epoch == leader_end.epoch
        offset = min(own.end_offset, leader_end.end_offset) if same else own.end_offset
        self._check_kept(offset, f"its epoch {leader_end.epoch} ends at {leader_end.end_offset}")
        if offset >= journal.next_offset:
            raise SourceUnavailable(f"the leader parts at {leader_end}, which is not in this log")
        _log.warning("metadata log cut from offset %d to %d", journal.next_offset, offset)
        async with self._turn:
            await self._blocking(partial(journal.truncate, offset))

    async def restart_with(
        self, snapshot: SnapshotId, piece_at: Callable[[int], Awaitable[SnapshotPiece]]
    ) -> None:
        """Fetch a snapshot and go on behind it; listeners hear what it changes."""
        self._check_kept(snapshot.end_offset, f"it offers a snapshot up to {snapshot.end_offset}")
        download = SnapshotDownload(self._files, self._folder, snapshot, self._blocking)
        try:
            await download.fetch(piece_at)
            image, quorum = await download.read(self.image.cluster_id)
            changes = await self._difference(image)
            async with self._turn:
                await download.put_in_place()
                await self._blocking(partial(self._journal.restart_at, snapshot.end_offset))
        except (Exception, asyncio.CancelledError):
            download.abandon()
            raise
        remove_older = self._snapshots.restart_with(snapshot)
        self.quorum = quorum
        self.high_watermark = snapshot.end_offset
        self._publish(changes, image)
        self._applier = self._new_applier()
        await self._blocking(remove_older)

    async def _difference(self, image: MetadataImage) -> list[Change]:
        changes: list[Change] = []
        for count, piece in enumerate(difference_in_pieces(self.image, image), 1):
            changes += piece
            if not count % CHANGES_PER_TURN:
                await asyncio.sleep(0)
        return changes

    def _check_kept(self, offset: int, why: str) -> None:
        if offset < self.high_watermark:
            raise CommittedLost(
                f"{self._folder} has committed metadata up to offset {self.high_watermark}, which"
                f" the leader does not have: {why}"
            )

    def _new_applier(self) -> LogApplier:
        return LogApplier(self._journal, self.image, self.quorum, self._publish)

    def _publish(self, changes: Sequence[Change], image: MetadataImage) -> None:
        self.image = image
        if changes:
            self._tell(tuple(changes), image)

    def _snapshot_state(self) -> SnapshotState | None:
        """Return what a snapshot can be made of; None while the image ends before the journal."""
        if self.image.version != self.next_offset:
            return None
        return SnapshotState(self.image, self.last_epoch, self.quorum.control)
