"""The metadata journal: `__cluster_metadata-0`, a log of batches in KRaft's format.

Owns the folder's segments, the leader epoch checkpoint and what Kafka expects to lie beside them.
Knows batches and offsets, not what the records mean: the stores do. It is small, append-only and
read once at start. Where a batch lies is kept in memory (`journal_segment`); the index files are
left as they are, since Kafka rebuilds them whenever it opens this log.

Segments before the newest snapshot stay until retention removes them (`kept_snapshots`). Only nodes
that have fallen behind read them.

    append -> bytes in the page cache          sync -> they survive a power cut

A voter's journal is where the metadata is durable. Only what was synced may be told to anybody, and
at most one batch of a voter that is alone is waiting to be. So recovery can tell a torn tail from
damage: a last batch that is not whole was never synced, nobody was told of it, and it is cut. A
broken batch with a whole one behind it had been promised: that is refused, not cut.

A voter of several appends on while the disk syncs, so that more than one batch may wait. It notes
how far it has synced (`sync_mark`): what is broken before the mark is refused, and what is broken
behind it is cut.

An observer's journal is a copy (`is_copy`): it is never synced, and all of it can be fetched
again. After a power cut any part of it may be gone. It ends where the first batch is missing or
broken, and goes on from there.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from operator import attrgetter
from threading import Lock
from typing import Final, NamedTuple

from moldau.base.checks import crash_point, invariant
from moldau.base.errors import StorageError
from moldau.base.files import Buffer, File, FileRegion, Files
from moldau.base.ids import LeaderEpoch, Offset, TopicId
from moldau.cluster.batch_files import DamagedBatch, StoredBatch, intact_batch_follows, walk
from moldau.cluster.journal_segment import JournalSegment, read_older_segment
from moldau.cluster.sync_mark import FILE_NAME as MARK_NAME
from moldau.cluster.sync_mark import SyncMark
from moldau.records.batch import BatchHeader
from moldau.storage.checkpoints import PARTITION_METADATA, DamagedFile, write_topic_id
from moldau.storage.epochs import LeaderEpochs, load_epochs, save_epochs

logger = logging.getLogger(__name__)

METADATA_FOLDER: Final = "__cluster_metadata-0"
METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = TopicId(bytes(15) + b"\x01")

_SEGMENT_NAME = re.compile(r"\d{20}\.log")
_SEGMENT_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

CRASH_POINTS: Final = (
    "journal.create.before_folder_sync",
    "journal.cut.before_truncate",
    "journal.cut.before_sync",
    "journal.append.before_write",
    "journal.append.after_write",
    "journal.sync.after_sync",
    "journal.trim.before_remove",
    "journal.trim.between_removes",
)

FOLLOWER_CRASH_POINTS: Final = (
    "journal.truncate.before_cut",
    "journal.restart.before_create",
)
"""Passed where a log is cut or begun anew; that of a voter that is alone never is."""


class JournalEnd(NamedTuple):
    """The end of a journal at some moment."""

    size: int
    """The size of the newest segment."""
    next_offset: int


class Journal:
    """One open metadata log. First call `load` and `resume`; then `append` and `sync` in turn."""

    def __init__(self, files: Files, folder: str, *, is_copy: bool = False) -> None:
        self._files = files
        self.folder = folder
        self._is_copy = is_copy
        self._mark: SyncMark | None = None
        """How far a voter of several has synced; None of others."""
        self._segments: list[JournalSegment] = []
        self._opened: tuple[JournalSegment, File] | None = None
        """The older segment that was asked for last: closed segments would use up descriptors."""
        self._unused: list[int] = []
        """Segments that `load` found and that are not part of the log any more."""
        self._is_writable = False
        self._sync_lock = Lock()
        self.epochs = LeaderEpochs()
        self.next_offset = 0

    def keep_mark(self, mark: SyncMark) -> None:
        """Note in this mark how far it is synced; before `load`."""
        self._mark = mark

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The leader epoch of the newest batch; -1 while there is none."""
        return self.epochs.latest

    @property
    def start_offset(self) -> int:
        """Where the log begins: a snapshot has what came before."""
        return self._segments[0].base if self._segments else self.next_offset

    @property
    def size(self) -> int:
        """Bytes in all segments."""
        return sum(segment.size for segment in self._segments)

    def size_from(self, offset: int) -> int:
        """Return the bytes in the segments that reach beyond an offset."""
        size = 0
        for segment in reversed(self._segments):
            if segment.next_offset <= offset:
                break
            size += segment.size
        return size

    def load(self, start_offset: int) -> Iterator[StoredBatch]:
        """Yield every batch that ends after this offset. The caller must read to the end.

        `start_offset` is the end of the snapshot in use. Nothing on the disk is changed yet: the
        folder may belong to another node.
        """
        self.epochs = _known_epochs(self._files, self.folder)
        bases = self._segment_bases()
        first = max((base for base in bases if base <= start_offset), default=None)
        if first is None and bases and not self._is_copy:
            raise StorageError(
                self.folder,
                f"starts at offset {bases[0]}, but no snapshot reaches further than {start_offset}",
            )
        self.next_offset = start_offset if first is None else first
        self._load_older([base for base in bases if first is None or base < first], first)
        older = len(self._segments)
        following = [base for base in bases if first is not None and base >= first]
        for base in following:
            if base != self.next_offset:
                self._refuse(base, f"offsets from {self.next_offset} are missing")
                break
            if not (yield from self._load_segment(base, start_offset, last=base == following[-1])):
                break
        self._unused += following[len(self._segments) - older :]
        if max(self.next_offset, start_offset) < self._promised_offset:
            raise StorageError(
                self.folder,
                f"ends at offset {self.next_offset}, but was synced up to {self._promised_offset}."
                f" If other software has cut it, remove {MARK_NAME}",
            )

    def _load_older(self, bases: Sequence[int], end: int | None) -> None:
        """Find the segments that end where the first needed one begins, without a gap.

        Without its leader epochs, a segment cannot be compared with the log of another node.
        """
        older: list[JournalSegment] = []
        for base in reversed(bases):
            segment = read_older_segment(base, self._files.open(self._path(base)))
            if segment.next_offset != end or self.epochs.epoch_for(Offset(base)) < 0:
                break
            older.append(segment)
            end = base
        self._segments = older[::-1]
        self._unused = list(bases[: len(bases) - len(older)])

    def _load_segment(
        self, base: int, start_offset: int, *, last: bool
    ) -> Generator[StoredBatch, None, bool]:
        """Read one segment; return whether all of it is whole, so that others may follow."""
        file = self._files.open(self._path(base))
        segment = self._add_segment(base, file)
        try:
            for batch in walk(file):
                header = batch.header
                if header.base_offset != self.next_offset or header.last_offset_delta < 0:
                    self._refuse(
                        base,
                        f"offset {header.base_offset} at position {batch.position} where"
                        f" {self.next_offset} belongs",
                    )
                    return False
                self.next_offset = header.next_offset
                segment.add(header.size, header.next_offset)
                self.epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
                if header.next_offset > start_offset:
                    yield batch
        except DamagedBatch as damage:
            if not last or intact_batch_follows(file, damage):
                self._refuse(base, f"{damage}, and more follows it")
            elif self._is_promised:
                self._refuse(base, f"{damage}, before offset {self._promised_offset}")
            return False
        return True

    @property
    def _promised_offset(self) -> int:
        """Everything before it was synced, as far as that was noted."""
        offset = None if self._mark is None else self._mark.offset
        return 0 if offset is None else offset

    @property
    def _is_promised(self) -> bool:
        """Tell whether the next batch to be read was synced once."""
        return self.next_offset < self._promised_offset

    def _refuse(self, base: int, problem: str) -> None:
        """Refuse damage to what was promised; a copy of it may end there, and what was not."""
        is_noted = self._mark is not None and self._mark.offset is not None
        if not self._is_copy and (self._is_promised or not is_noted):
            raise StorageError(self._path(base), problem)
        logger.warning("%s: %s; fetched again from there", self._path(base), problem)

    def resume(self, start_offset: int) -> None:
        """Prepare to append after the last batch of `load`, which read from the same offset."""
        if self.next_offset < start_offset:
            # A snapshot that reaches beyond the log: the log is what is out of date.
            self._unused += [segment.base for segment in self._segments]
            self._drop_segments(self._segments)
            self.epochs.clear()
            self.next_offset = start_offset
        self._remove(self._unused)
        self._unused = []
        self.epochs.truncate_from_end(Offset(self.next_offset))
        save_epochs(self._files, self.folder, self.epochs)
        if self._segments:
            self._cut_torn_tail()
        else:
            self._create(self.next_offset)
        self._is_writable = True

    def _cut_torn_tail(self) -> None:
        file, size = self._newest_file(), self._segments[-1].size
        if file.size() > size:
            crash_point("journal.cut.before_truncate")
            file.truncate(size)
            crash_point("journal.cut.before_sync")
            file.sync()

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """Record durably the leader epoch of the next batches, before the first of them."""
        # Batches of two leaderships with one epoch could not be told apart.
        invariant(
            epoch > self.last_epoch, f"{self.folder}: leader epoch {epoch} after {self.last_epoch}"
        )
        self.epochs.assign(epoch, Offset(self.next_offset))
        self._save_epochs_from(self.next_offset)

    def _save_epochs_from(self, offset: int) -> None:
        """Write the epochs down; without success, forget those that begin at this offset."""
        try:
            save_epochs(self._files, self.folder, self.epochs)
        except Exception:
            # Nobody has written in them: to claim one would make this log look newer than it is.
            self.epochs.truncate_from_end(Offset(offset))
            raise

    @property
    def end(self) -> JournalEnd:
        """Where the journal ends now, for `take_back`."""
        return JournalEnd(self._segments[-1].size, self.next_offset)

    def append(self, batch: Buffer, next_offset: int) -> None:
        """Write one whole batch that ends before `next_offset`; StorageError if the disk refuses.

        After an error the caller must `take_back` the part that was written.
        """
        # A batch without offsets, or with those of another, would be refused at the next start.
        invariant(
            next_offset > self.next_offset,
            f"{self.folder}: a batch from {self.next_offset} ends at {next_offset}",
        )
        self._append(batch)
        self._note(len(batch), next_offset)

    def append_copies(self, data: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Write batches of the leader's as they are, in one go; all of them or none."""
        end = self.end
        for header in headers:
            # Known before it is written: an entry too many goes when the log is loaded.
            self.epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
        self._save_epochs_from(end.next_offset)
        try:
            self._append(data)
        except StorageError:
            self.take_back(end)
            raise
        for header in headers:
            self._note(header.size, header.next_offset)

    def _append(self, data: Buffer) -> None:
        file = self._writable_file()
        crash_point("journal.append.before_write")
        try:
            file.append([data])
        except OSError as error:
            raise StorageError(file.path, f"cannot be appended to: {error}") from error
        crash_point("journal.append.after_write")

    def _note(self, size: int, next_offset: int) -> None:
        self._segments[-1].add(size, next_offset)
        self.next_offset = next_offset

    def take_back(self, end: JournalEnd) -> None:
        """End where it ended before a failed write, so that it can go on; else it has failed."""
        if not self._is_writable:
            return
        try:
            self._newest_file().truncate(end.size)
        except OSError:
            self._is_writable = False
            return
        self._segments[-1].cut(end.next_offset)
        self.next_offset = end.next_offset
        self.epochs.truncate_from_end(Offset(end.next_offset))

    def sync(self) -> None:
        """Return once everything appended is durable; may block. After an error it is closed.

        The kernel reports a lost write once and then forgets it. A second sync would succeed
        although the data is lost.
        """
        with self._sync_lock:  # of two that sync at once, the kernel tells one of a lost write
            file = self._writable_file()
            try:
                file.sync()
            except OSError as error:
                self._is_writable = False
                raise StorageError(file.path, f"cannot be synced: {error}") from error
        crash_point("journal.sync.after_sync")

    @property
    def writable(self) -> bool:
        """Whether it can go on; after a failed sync, only a new start tells what is on the disk."""
        return self._is_writable

    def region(self, offset: int, end_offset: int, max_bytes: int) -> FileRegion | None:
        """Name whole batches from an offset on that end before another; None if there are none.

        At least one batch, however large. The region stays readable when its segment is removed.
        """
        if not self.start_offset <= offset < min(end_offset, self.next_offset):
            return None
        segment = self._segments[bisect_right(self._segments, offset, key=_by_base) - 1]
        return segment.region(self._file_of(segment), offset, end_offset, max_bytes)

    def _file_of(self, segment: JournalSegment) -> File:
        file = segment.file  # read once: `roll` may run in a thread
        if file is not None:
            return file
        if self._opened is None or self._opened[0] is not segment:
            self._opened = segment, self._files.open(self._path(segment.base))
        return self._opened[1]

    def roll(self) -> None:
        """Start a new segment, so that the ones before it can go once a snapshot has them."""
        self._check_writable()
        if self._segments[-1].base == self.next_offset:
            return
        if self._mark is not None:
            self.sync()  # from now on a sync is one of the new segment
        try:
            self._create(self.next_offset)
        except OSError as error:
            self._give_up_segment(self.next_offset)
            raise StorageError(self.folder, f"cannot hold a new segment: {error}") from error

    def _give_up_segment(self, base: int) -> None:
        """Remove a half-made segment and continue in the old one; close the journal if that fails.

        If the half-made one were still there after a power cut, both segments would have the same
        offsets.
        """
        try:
            self._remove([base])
        except OSError:
            self._is_writable = False

    def drop_before(self, offset: int) -> list[int]:
        """Begin later: with the segment that holds this offset.

        Return the segments that are not part of the log any more, for `remove`. Whoever reads the
        log must see at once that they are gone; removing their files may block.
        """
        gone = [segment.base for segment in self._segments[:-1] if segment.next_offset <= offset]
        del self._segments[: len(gone)]
        self.epochs.truncate_from_start(Offset(self.start_offset))
        return gone

    def remove(self, bases: Sequence[int]) -> None:
        """Remove the files of segments that were dropped; may block."""
        self._remove(bases)
        save_epochs(self._files, self.folder, self.epochs)

    def truncate(self, offset: int) -> None:
        """End at this offset or, if a batch reaches over it, where that batch begins."""
        self._check_writable()
        self._is_writable = False  # for good, if the disk refuses in between
        if self._mark is not None:
            self._mark.lower(offset)
        gone = [segment for segment in self._segments[1:] if segment.base >= offset]
        self._drop_segments(gone)
        # The newest first, so that no gap is left when it ends in between.
        self._remove([segment.base for segment in reversed(gone)])
        segment = self._segments[-1]
        segment.cut(offset)
        self.next_offset = segment.next_offset
        crash_point("journal.truncate.before_cut")
        self._cut_newest(segment.size)
        self.epochs.truncate_from_end(Offset(self.next_offset))
        save_epochs(self._files, self.folder, self.epochs)
        self._is_writable = True

    def _cut_newest(self, size: int) -> None:
        """Cut the newest file, durably in a voter's journal."""
        segment, file = self._segments[-1], self._newest_file()
        file.truncate(size)
        if self._mark is not None:
            # A leader may have named regions behind the cut, which wait for slow peers.
            file.cut_off_regions(size)
            file.sync()
            segment.file = self._files.open(self._path(segment.base))

    def restart_at(self, offset: int) -> None:
        """Drop everything and go on at this offset, where a snapshot ends."""
        self._check_writable()
        self._is_writable = False
        if self._mark is not None:
            self._mark.lower(offset)
        gone = list(self._segments)
        self.next_offset = offset  # before the segments go: the log begins there then
        self._drop_segments(gone)
        self._remove([segment.base for segment in reversed(gone)])
        crash_point("journal.restart.before_create")
        self._create(offset)
        self.epochs.clear()
        save_epochs(self._files, self.folder, self.epochs)
        self._is_writable = True

    def close(self) -> None:
        """Give the descriptors back; closing twice is harmless."""
        self._is_writable = False
        self._opened = None
        if self._mark is not None:
            self._mark.close()
        for segment in self._segments:
            if segment.file is not None:
                segment.file.close()

    def _check_writable(self) -> None:
        if not self._is_writable:
            raise StorageError(self.folder, "is closed or has failed")

    def _writable_file(self) -> File:
        self._check_writable()
        return self._newest_file()

    def _newest_file(self) -> File:
        """Return the file of the newest segment, which stays open."""
        segment = self._segments[-1]
        if segment.file is None:
            segment.file = self._file_of(segment)
        return segment.file

    def _add_segment(self, base: int, file: File) -> JournalSegment:
        if self._segments:
            # Not closed: a region of it may be on its way to a socket.
            self._segments[-1].file = None
        segment = JournalSegment(base, file)
        self._segments.append(segment)
        return segment

    def _drop_segments(self, gone: Sequence[JournalSegment]) -> None:
        # Their files are not closed: a region of one may be on its way to a socket.
        self._segments = [segment for segment in self._segments if segment not in gone]

    def _segment_bases(self) -> list[int]:
        if not self._files.exists(self.folder):
            return []
        names = self._files.names(self.folder)
        return [int(name[:20]) for name in names if _SEGMENT_NAME.fullmatch(name)]

    def _path(self, base: int, suffix: str = ".log") -> str:
        return f"{self.folder}/{base:020d}{suffix}"

    def _create(self, base: int) -> None:
        self._files.make_folder(self.folder)
        if not self._files.exists(f"{self.folder}/{PARTITION_METADATA}"):
            write_topic_id(self._files, self.folder, METADATA_TOPIC_ID)
        for suffix in (".index", ".timeindex"):
            self._files.open(self._path(base, suffix), create=True).close()
        file = self._files.open(self._path(base), create=True)
        crash_point("journal.create.before_folder_sync")
        self._files.sync_folder(self.folder)
        self._files.sync_folder(self.folder.rpartition("/")[0])
        self._add_segment(base, file)

    def _remove(self, bases: Sequence[int]) -> None:
        if not bases:
            return
        crash_point("journal.trim.before_remove")
        for base in bases:
            for suffix in _SEGMENT_SUFFIXES:
                self._files.remove(self._path(base, suffix))
            crash_point("journal.trim.between_removes")
        self._files.sync_folder(self.folder)


_by_base = attrgetter("base")


def _known_epochs(files: Files, folder: str) -> LeaderEpochs:
    """Read the epochs. If their file is damaged, `load` finds them again in the batches."""
    try:
        return load_epochs(files, folder)
    except DamagedFile as error:
        logger.warning("%s; made anew from the batches", error)
        epochs = LeaderEpochs()
        epochs.dirty = True
        return epochs
