"""The records of a node of the quorum: its journal and its snapshots, moved as the core says.

The core knows the log by offsets and epochs; here are the bytes. Effects on the log are carried out
one after the other, in the order in which the core gave them, and each returns when the next one
may begin. Syncs run beside them: several appends may wait for one sync.

    append, append_fetched     bytes in the page cache
    sync                       what was appended before survives a power cut
    truncate, install          durable when they return

A voter that is alone syncs each batch before the next one, within `append`. Nobody else could use
the time. So a power cut tears its last batch at most, and the log needs no mark of what was synced.
One that is there from a time with other voters counts, and is kept.

It must not know who leads, or what the records mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import StorageError
from moldau.base.files import Buffer, FileRegion, Files
from moldau.base.ids import LeaderEpoch, Offset
from moldau.cluster.batch_files import StoredBatch
from moldau.cluster.blocking import Blocking
from moldau.cluster.image import MetadataImage
from moldau.cluster.journal import Journal
from moldau.cluster.kept_snapshots import KeptSnapshots, MetadataRetention
from moldau.cluster.kraft.control_records import (
    leader_change_batch,
    voters_batch,
    voters_in,
    voters_of,
)
from moldau.cluster.kraft.fetched_batches import FetchedBatches
from moldau.cluster.opening import OpenedSnapshot, open_newest_snapshot
from moldau.cluster.quorum import Quorum
from moldau.cluster.raft.log_position import LogMark, LogPosition
from moldau.cluster.raft.requests import Batch, LeaderChange, VotersChange
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import VoterSet
from moldau.cluster.snapshot_download import SnapshotDownload, SnapshotSpoiled
from moldau.cluster.snapshots import SnapshotId, remove_unfinished_snapshots
from moldau.cluster.snapshotting import SnapshotPace, SnapshotState, Snapshotting
from moldau.cluster.sync_mark import SyncMark
from moldau.records.control import ControlType
from moldau.storage.epochs import LeaderEpochs

_log = logging.getLogger(__name__)

LARGE_APPEND_BYTES: Final = 64 << 10
"""From so many bytes on, all batches of a commit together, a look at the free room is worth it."""

_BASE_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_EPOCH_POSITION: Final = 12
"""Offset and epoch of a batch stand before what its checksum covers."""


class PreparedBatch(NamedTuple):
    """A batch of the active controller's: whole, except for its offset and its epoch."""

    data: bytearray
    record_count: int


class OpenedLog(NamedTuple):
    """What a start finds."""

    snapshot: OpenedSnapshot
    voters: VoterHistory


class DownloadedSnapshot(NamedTuple):
    """A snapshot that was fetched and is intact."""

    id: SnapshotId
    image: MetadataImage
    quorum: Quorum


class RaftLog:
    """One open log. `turn` is held by whoever changes the journal."""

    def __init__(
        self,
        files: Files,
        folder: str,
        clock: Clock,
        blocking: Blocking,
        pace: SnapshotPace,
        retention: MetadataRetention,
        *,
        is_voting: bool,
        is_sole: bool = False,
    ) -> None:
        """Only nodes that may vote make their log durable; others can fetch all of it again."""
        self._files = files
        self.folder = folder
        self._clock = clock
        self._blocking = blocking
        self._is_voting = is_voting
        self._is_sole = is_sole
        self.turn = asyncio.Lock()
        self._mark: SyncMark | None = None
        self.journal = Journal(files, folder, is_copy=not is_voting)
        self._kept = KeptSnapshots(files, folder, retention)
        self._snapshotting = Snapshotting(
            files, folder, clock, blocking, self.turn, self._kept, pace
        )
        self._synced = LogMark(0, Offset(0))
        self._download: SnapshotDownload | None = None
        self._downloaded: DownloadedSnapshot | None = None
        self._served: tuple[SnapshotId, FileRegion] | None = None
        """The snapshot that was asked for last. Answers that wait for slow peers share its file."""

    # Opening

    def read(
        self,
        cluster_id: str,
        quorum: Quorum,
        static: VoterSet | None,
        look: Callable[[StoredBatch], None] | None = None,
    ) -> OpenedLog:
        """Read the newest snapshot, and see which voters the journal names; change nothing.

        `static` are the voters of the settings; None where the log names them. `look` is shown
        every batch behind the snapshot, if it is given.
        """
        journal = self.journal
        mark = SyncMark(self._files, self.folder) if self._is_voting else None
        if mark is not None and not (self._is_sole and mark.offset is None):
            self._mark = mark
            journal.keep_mark(mark)
        snapshot = open_newest_snapshot(self._files, self.folder, cluster_id, quorum)
        start = snapshot.id.end_offset
        voters = _first_voters(quorum, static)
        for batch in journal.load(start):
            if batch.header.control and (found := voters_in(batch.data, 0)) is not None:
                voters.append(found[1], found[0])
            if look is not None:
                look(batch)
        return OpenedLog(snapshot, voters)

    def open(self, snapshot: SnapshotId) -> None:
        """Go on behind what was read: cut a torn tail, and remove what is in no use any more."""
        self.journal.resume(snapshot.end_offset)
        remove_unfinished_snapshots(self._files, self.folder)
        self._kept.load(self.journal.start_offset)

    def position(self) -> LogPosition:
        """Return what the core has to know of the log as it is now.

        What is there at a start was synced, or is after the next sync: the core asks for one
        whenever it appends, and a vote does not depend on what is not synced.
        """
        journal = self.journal
        end = Offset(journal.next_offset)
        return LogPosition(
            LeaderEpochs(journal.epochs.entries),
            Offset(journal.start_offset),
            end,
            end,
            self._kept.oldest,
            self._kept.newest,
        )

    async def make_durable(self) -> None:
        """Sync what a former life has appended: it may not be durable yet, but counts from now.

        That of a sole voter counts once it has led again, and then its first batch was synced.
        """
        if self._is_voting and not self._is_sole:
            await self._blocking(partial(self._sync_up_to, self.journal.next_offset))

    # What the core wants

    async def append(self, base_offset: int, epoch: LeaderEpoch, content: object) -> None:
        """Append a batch of this leader's."""
        data, count = self._batch(base_offset, epoch, content)
        async with self.turn:
            if epoch != self.journal.last_epoch:
                await self._blocking(partial(self.journal.begin_epoch, epoch))
            end = self.journal.end
            try:
                self.journal.append(data, base_offset + count)
            except Exception:
                self.journal.take_back(end)
                raise
            if self._is_sole:
                await self._blocking(partial(self._sync_up_to, base_offset + count))

    def _batch(self, base_offset: int, epoch: LeaderEpoch, content: object) -> tuple[Buffer, int]:
        now_ms = self._clock.wall_ms()
        match content:
            case PreparedBatch(data, count):
                _BASE_OFFSET.pack_into(data, 0, base_offset)
                _EPOCH.pack_into(data, _EPOCH_POSITION, epoch)
                return data, count
            case LeaderChange() as change:
                count = 1 if change.logged_voters is None else 3
                return leader_change_batch(change, base_offset, epoch, now_ms), count
            case VotersChange() as change:
                return voters_batch(change, base_offset, epoch, now_ms), change.record_count
            case _:
                raise TypeError(f"{content!r} is nothing to append")

    def lacks_room(self, size: int) -> bool:
        """Tell whether the disk is known to have less room than a large append needs.

        Small ones are tried: the disk may have room in reserve for them.
        """
        if size < LARGE_APPEND_BYTES:
            return False
        try:
            _, free = self._files.space(self.folder)
        except OSError:
            return False  # the append will tell
        return 0 <= free < size

    async def append_fetched(self, batches: tuple[Batch, ...]) -> None:
        """Append batches as the leader has sent them."""
        for batch in batches:
            fetched = batch.content
            assert isinstance(fetched, FetchedBatches)  # made where the answer was read
            write = partial(self.journal.append_copies, *fetched)
            async with self.turn:
                if batch.epoch == self.journal.last_epoch:
                    write()
                else:
                    await self._blocking(write)  # a new epoch is written durably
            await asyncio.sleep(0)

    async def sync(self, mark: LogMark) -> None:
        """Make everything before a mark durable."""
        if self._is_voting and not self._is_sole:
            await self._blocking(partial(self._sync_up_to, mark.end_offset))

    def _sync_up_to(self, end_offset: int) -> None:
        self.journal.sync()
        if self._mark is not None:
            # No cut comes in between: the core asks for none while anything is not synced.
            self._mark.note(end_offset)

    async def truncate(self, end_offset: int) -> None:
        """Cut the log."""
        _log.warning("metadata log cut from %d to %d", self.journal.next_offset, end_offset)
        async with self.turn:
            await self._blocking(partial(self.journal.truncate, end_offset))

    # Serving others

    def region(self, offset: int, max_bytes: int) -> FileRegion | None:
        """Name whole batches from an offset on; at least one, however large, if there are any."""
        return self.journal.region(offset, self.journal.next_offset, max_bytes)

    def open_snapshot(self, snapshot: SnapshotId) -> FileRegion | None:
        """Return a snapshot as a whole; None if it is not there, or not any more."""
        if self._served is None or self._served[0] != snapshot:
            try:
                file = self._files.open(f"{self.folder}/{snapshot.name}")
            except FileNotFoundError:
                return None
            self._served = snapshot, FileRegion(file, 0, file.size())
        return self._served[1]

    # Snapshots

    @property
    def oldest_snapshot(self) -> SnapshotId | None:
        return self._kept.oldest

    @property
    def newest_snapshot(self) -> SnapshotId | None:
        return self._kept.newest

    def keep_snapshots(self, state: Callable[[], SnapshotState | None]) -> None:
        """Write a snapshot if one is due; `state` says of what, while the journal stands still."""
        self._snapshotting.changed(self.journal, state)

    def store_part(self, snapshot: SnapshotId, position: int, data: bytes) -> None:
        """Keep a part of a snapshot that is being fetched; position 0 begins it anew."""
        if position == 0:
            self.abandon_download()
            self._download = SnapshotDownload(self._files, self.folder, snapshot, self._blocking)
        assert self._download is not None  # the core begins with position 0
        self._download.add(data)

    async def finish_download(self, snapshot: SnapshotId, cluster_id: str) -> Quorum:
        """Check what was fetched; SnapshotSpoiled if it is damaged. Return what names voters."""
        download = self._download
        assert download is not None  # the core has asked for all parts
        image, quorum = await download.read(cluster_id)
        await download.make_durable()
        if self._download is not download:
            raise SnapshotSpoiled(f"snapshot {snapshot.name} was begun anew")
        self._downloaded = DownloadedSnapshot(snapshot, image, quorum)
        return quorum

    async def install(self, snapshot: SnapshotId) -> DownloadedSnapshot:
        """Put a checked snapshot in place, and begin the log anew behind it."""
        downloaded, download = self._downloaded, self._download
        assert downloaded is not None  # it was checked
        assert download is not None
        async with self.turn:
            await download.put_in_place()
            await self._blocking(partial(self.journal.restart_at, snapshot.end_offset))
            remove_older = self._kept.restart_with(snapshot)
        self._download = self._downloaded = None
        await self._blocking(remove_older)
        return downloaded

    def abandon_download(self) -> None:
        """Leave nothing behind of a snapshot that is not in place."""
        if self._download is not None:
            self._download.abandon()
        self._download = self._downloaded = None

    async def close(self) -> None:
        """Give everything back; what was synced whole needs no mark any more.

        A disk that refuses holds up no stop: the partitions' logs are still to be closed.
        """
        await self._snapshotting.finish()
        try:
            self.abandon_download()
            if self._mark is not None and self.journal.writable:
                await self._blocking(self._leave_synced)
        except (StorageError, OSError) as error:
            # The mark stays, so that the next start knows what was promised.
            _log.warning("the metadata log is left as by a kill: %s", error)
        self.journal.close()

    def _leave_synced(self) -> None:
        assert self._mark is not None
        self.journal.sync()
        self._mark.remove()


def _first_voters(quorum: Quorum, static: VoterSet | None) -> VoterHistory:
    """Return the voters that are known before the journal is read; those of the log count more."""
    stated = quorum.control.get(ControlType.KRAFT_VOTERS)
    if stated is not None:
        return VoterHistory(voters_of(stated))
    return VoterHistory(static or VoterSet(), is_static=static is not None)
