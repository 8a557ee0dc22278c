"""The metadata journal: `__cluster_metadata-0`, a log of batches in KRaft's format.

Owns the segments, the leader epoch checkpoint and the other files that Kafka expects in the folder.
Knows batches and offsets; `embedded` knows what the records mean. The journal is small, append-only
and read once at a start, so it needs no index. The index files stay empty: Kafka rebuilds them when
it opens this log.

    append -> bytes in the page cache          sync -> they survive a power cut

Only synced batches may be told to anybody, and at most one batch is not synced. So recovery can
tell a torn tail from damage. A last batch that is not whole was never synced and never told, and is
cut. A broken batch with a whole one after it was synced and told: the start is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from moldau.base.checks import crash_point, invariant
from moldau.base.errors import StorageError
from moldau.base.files import File, Files
from moldau.base.ids import LeaderEpoch, Offset, TopicId
from moldau.cluster.batch_files import DamagedBatch, StoredBatch, intact_batch_follows, walk
from moldau.storage.checkpoints import PARTITION_METADATA, DamagedFile, write_topic_id
from moldau.storage.epochs import LeaderEpochs, load_epochs, save_epochs

logger = logging.getLogger(__name__)

METADATA_FOLDER: Final = "__cluster_metadata-0"
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


class JournalEnd(NamedTuple):
    """The end of a journal at some moment."""

    size: int
    """The size of the newest segment."""
    next_offset: int


class Journal:
    """One open metadata log. First call `load` and `resume`; then `append` and `sync` in turn."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self.folder = folder
        self._bases: list[int] = []
        self._active: File | None = None
        self._good_size = 0
        self._epochs = _known_epochs(files, folder)
        self.next_offset = 0
        self.size = 0
        """Bytes in all segments."""

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The leader epoch of the newest batch; -1 while there is none."""
        return self._epochs.latest

    def load(self, start_offset: int) -> Iterator[StoredBatch]:
        """Yield every batch that ends after this offset. The caller must read to the end.

        `start_offset` is the end of the snapshot in use. Nothing on the disk is changed yet: the
        folder may belong to another node.
        """
        self._bases = self._segment_bases()
        first = max((base for base in self._bases if base <= start_offset), default=None)
        if first is None and self._bases:
            raise StorageError(
                self.folder,
                f"starts at offset {self._bases[0]}, but no snapshot reaches further than"
                f" {start_offset}",
            )
        self.next_offset = start_offset if first is None else first
        for base in [base for base in self._bases if first is not None and base >= first]:
            if base != self.next_offset:
                raise StorageError(self._path(base), f"offsets from {self.next_offset} are missing")
            yield from self._load_segment(base, start_offset)

    def _load_segment(self, base: int, start_offset: int) -> Iterator[StoredBatch]:
        file = self._files.open(self._path(base))
        try:
            for batch in walk(file):
                header = batch.header
                if header.base_offset != self.next_offset or header.last_offset_delta < 0:
                    raise StorageError(
                        file.path,
                        f"offset {header.base_offset} at position {batch.position} where"
                        f" {self.next_offset} belongs",
                    )
                self.next_offset = header.next_offset
                self._epochs.assign(LeaderEpoch(header.leader_epoch), Offset(header.base_offset))
                if header.next_offset > start_offset:
                    yield batch
            self._good_size = file.size()
        except DamagedBatch as damage:
            if base != self._bases[-1] or intact_batch_follows(file, damage):
                raise StorageError(file.path, f"{damage}, and more follows it") from damage
            self._good_size = damage.position
        finally:
            file.close()
        self.size += self._good_size

    def resume(self, start_offset: int) -> None:
        """Prepare to append after the last batch of `load`, which read from the same offset."""
        if self.next_offset < start_offset:
            # The snapshot ends after the log, so the whole log is out of date.
            self._remove(self._bases)
            self._bases, self.next_offset, self.size = [], start_offset, 0
        self._epochs.truncate_from_end(Offset(self.next_offset))
        save_epochs(self._files, self.folder, self._epochs)
        if self._bases:
            self._active = self._files.open(self._path(self._bases[-1]))
            self._cut_torn_tail(self._active)
        else:
            self._active = self._create(self.next_offset)

    def _cut_torn_tail(self, file: File) -> None:
        if file.size() > self._good_size:
            crash_point("journal.cut.before_truncate")
            file.truncate(self._good_size)
            crash_point("journal.cut.before_sync")
            file.sync()

    def begin_epoch(self, epoch: LeaderEpoch) -> None:
        """Record durably the leader epoch of the next batches, before the first of them."""
        # Batches of two leaderships with one epoch could not be told apart.
        invariant(
            epoch > self.last_epoch, f"{self.folder}: leader epoch {epoch} after {self.last_epoch}"
        )
        self._epochs.assign(epoch, Offset(self.next_offset))
        save_epochs(self._files, self.folder, self._epochs)

    @property
    def end(self) -> JournalEnd:
        """The present end of the journal, for `take_back`."""
        return JournalEnd(self._good_size, self.next_offset)

    def append(self, batch: bytes, next_offset: int) -> None:
        """Write one whole batch that ends before `next_offset`; StorageError if the disk fails.

        After an error the caller must `take_back` the part that was written.
        """
        # A batch without offsets, or with those of another, would be refused at the next start.
        invariant(
            next_offset > self.next_offset,
            f"{self.folder}: a batch from {self.next_offset} ends at {next_offset}",
        )
        file = self._writable()
        crash_point("journal.append.before_write")
        try:
            file.append([batch])
        except OSError as error:
            raise StorageError(file.path, f"cannot be appended to: {error}") from error
        crash_point("journal.append.after_write")
        self._good_size += len(batch)
        self.size += len(batch)
        self.next_offset = next_offset

    def take_back(self, end: JournalEnd) -> None:
        """Truncate to the end before a failed write. If that fails too, close the journal."""
        if self._active is None:
            return
        try:
            self._active.truncate(end.size)
        except OSError:
            self.close()
            return
        self.size -= self._good_size - end.size
        self._good_size, self.next_offset = end

    def sync(self) -> None:
        """Return once everything appended is durable; may block. After an error it is closed.

        The kernel reports a lost write once and then forgets it. A second sync would succeed
        although the data is lost.
        """
        file = self._writable()
        try:
            file.sync()
        except OSError as error:
            self.close()
            raise StorageError(file.path, f"cannot be synced: {error}") from error
        crash_point("journal.sync.after_sync")

    @property
    def writable(self) -> bool:
        """Whether it can be appended to. After a failed sync, only a new start can tell the end."""
        return self._active is not None

    def roll(self) -> None:
        """Start a new segment, so that older ones can be removed once a snapshot has them."""
        old = self._writable()
        if self._bases[-1] == self.next_offset:
            return
        try:
            self._active = self._create(self.next_offset)
        except OSError as error:
            self._give_up_segment(self.next_offset)
            raise StorageError(self.folder, f"cannot hold a new segment: {error}") from error
        old.close()

    def _give_up_segment(self, base: int) -> None:
        """Remove a half-made segment and continue in the old one; close the journal if that fails.

        If the half-made one were still there after a power cut, both segments would have the same
        offsets.
        """
        try:
            self._remove([base])
        except OSError:
            self.close()

    def trim(self, offset: int) -> None:
        """Remove the segments before this offset. A durable snapshot must end at it or later."""
        gone = [base for base, after in pairwise(self._bases) if after <= offset]
        self._remove(gone)
        self._bases = self._bases[len(gone) :]
        self.size = sum(self._files.size(self._path(base)) for base in self._bases)
        self._epochs.truncate_from_start(Offset(self._bases[0]))
        save_epochs(self._files, self.folder, self._epochs)

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._active is not None:
            self._active.close()
            self._active = None

    def _writable(self) -> File:
        if self._active is None:
            raise StorageError(self.folder, "is closed or has failed")
        return self._active

    def _segment_bases(self) -> list[int]:
        if not self._files.exists(self.folder):
            return []
        names = self._files.names(self.folder)
        return [int(name[:20]) for name in names if _SEGMENT_NAME.fullmatch(name)]

    def _path(self, base: int, suffix: str = ".log") -> str:
        return f"{self.folder}/{base:020d}{suffix}"

    def _create(self, base: int) -> File:
        self._files.make_folder(self.folder)
        if not self._files.exists(f"{self.folder}/{PARTITION_METADATA}"):
            write_topic_id(self._files, self.folder, METADATA_TOPIC_ID)
        for suffix in (".index", ".timeindex"):
            self._files.open(self._path(base, suffix), create=True).close()
        file = self._files.open(self._path(base), create=True)
        crash_point("journal.create.before_folder_sync")
        self._files.sync_folder(self.folder)
        self._files.sync_folder(self.folder.rpartition("/")[0])
        self._bases.append(base)
        self._good_size = 0
        return file

    def _remove(self, bases: Sequence[int]) -> None:
        crash_point("journal.trim.before_remove")
        for base in bases:
            for suffix in _SEGMENT_SUFFIXES:
                self._files.remove(self._path(base, suffix))
            crash_point("journal.trim.between_removes")
        self._files.sync_folder(self.folder)


def _known_epochs(files: Files, folder: str) -> LeaderEpochs:
    """Read the epochs. If their file is damaged, `load` finds them again in the batches."""
    try:
        return load_epochs(files, folder)
    except DamagedFile as error:
        logger.warning("%s; made anew from the batches", error)
        epochs = LeaderEpochs()
        epochs.dirty = True
        return epochs
