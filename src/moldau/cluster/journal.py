"""The metadata journal: `__cluster_metadata-0`, a log of batches in KRaft's own form.

Owns the folder's segments, the leader epoch checkpoint and what Kafka expects to lie beside them.
Knows batches and offsets, not what the records mean: `embedded` does. It is small, append-only
and read once at start, so unlike a partition's log it needs no index; the index files are left as
they are, since Kafka rebuilds them whenever it opens this log.

    append -> bytes in the page cache          sync -> they survive a power cut

Only what was synced may be told to anybody, and at most one batch is ever waiting to be. So
recovery can tell a torn tail from damage: a last batch that is not whole was never synced, nobody
was told of it, and it is cut. A broken batch with a whole one behind it had been promised: that
is refused, not cut.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from moldau.base.checks import crash_point
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
    """Where a journal ended at some moment."""

    size: int
    """Of the newest segment."""
    next_offset: int


class Journal:
    """One open metadata log. `load` and `resume` first; then `append` and `sync`, in turn."""

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
        """Yield every batch that ends after this offset; to be read to its end.

        `start_offset` is where the snapshot in use ends. Nothing on the disk is changed yet: the
        folder may turn out not to be ours.
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
        """Make ready for appending where `load` from the same offset has ended."""
        if self.next_offset < start_offset:
            # A snapshot that reaches beyond the log: the log is what is out of date.
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
        """Say under which leader epoch what follows is written, durably before the first of it."""
        self._epochs.assign(epoch, Offset(self.next_offset))
        save_epochs(self._files, self.folder, self._epochs)

    @property
    def end(self) -> JournalEnd:
        """Where the journal ends now, for `take_back`."""
        return JournalEnd(self._good_size, self.next_offset)

    def append(self, batch: bytes, next_offset: int) -> None:
        """Write one whole batch that ends before `next_offset`; StorageError if the disk refuses.

        What was written of it is for the caller to `take_back`.
        """
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
        """End where it ended before a failed write, so that it can go on; else it has failed."""
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
        """Return once everything appended is durable; may block. After an error nothing goes on.

        The kernel reports a lost write once and then forgets it, so trying again would lie.
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
        """Whether it can go on; after a failed sync, only a new start tells what is on the disk."""
        return self._active is not None

    def roll(self) -> None:
        """Start a new segment, so that the ones before it can go once a snapshot has them."""
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
        """Go on in the old segment, once the half-made one is gone for good; else it has failed.

        Were the new one still there after a power cut, it would stand behind offsets that the old
        one has as well.
        """
        try:
            self._remove([base])
        except OSError:
            self.close()

    def trim(self, offset: int) -> None:
        """Remove the segments that hold nothing at or after this offset; a snapshot has them."""
        gone = [base for base, after in pairwise(self._bases) if after <= offset]
        self._remove(gone)
        self._bases = self._bases[len(gone) :]
        self.size = sum(self._files.size(self._path(base)) for base in self._bases)
        self._epochs.truncate_from_start(Offset(self._bases[0]))
        save_epochs(self._files, self.folder, self._epochs)

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
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
    """Read the epochs; `load` learns those of the batches again if their file is damaged."""
    try:
        return load_epochs(files, folder)
    except DamagedFile as error:
        logger.warning("%s; made anew from the batches", error)
        epochs = LeaderEpochs()
        epochs.dirty = True
        return epochs
