"""One segment of a log: a `.log` file of batches and the indexes beside it.

The last segment of a log is active: `tail` holds its indexes and the state that appends need. The
others are closed: a base offset and a size, with no more in memory until a reader comes. Files are
opened and indexes loaded at first use, so an idle log has no descriptor and few objects.

A segment is full when a batch would exceed `segment.bytes`, when the batch is `segment.ms` newer
than the first one, when an index is full, or when an offset needs more than 31 bits relative to
the base. A look-up takes a position from the offset index and walks the headers from there.

Readers stop at `size`, which only `account` moves. Bytes after it in the file are from a failed
write.

`write` raises StorageError; all other methods raise OSError, which `Log` converts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence

from moldau.base.checks import crash_point, invariant
from moldau.base.errors import CorruptRecords, StorageError
from moldau.base.files import Buffer, File, write_atomically
from moldau.records.batch import PEEK_SIZE, peek
from moldau.storage.disk_errors import is_full, storage_error
from moldau.storage.index_files import (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    last_entry,
    make_empty,
    store_entries,
)
from moldau.storage.indexes import (
    NO_TIMESTAMP,
    OFFSET_ENTRY_SIZE,
    RELATIVE_OFFSET_MAX,
    TIME_ENTRY_SIZE,
    AbortedIndex,
    AbortedTransaction,
    IndexPair,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
)
from moldau.storage.resources import Resources, ScheduledDelete
from moldau.storage.scan import StoredBatch, StoredPlace, find_offset, walk, walk_checked
from moldau.storage.segment_files import DELETED_SUFFIX, SegmentCut, rename_deleted
from moldau.storage.tail import Tail
from moldau.storage.tail_loading import at_once, load_tail, rebuilt_tail, stored_tail
from moldau.storage.topic_config import LONG_MAX, LogConfig
from moldau.storage.transaction_index import (
    TRANSACTION_INDEX_SUFFIX,
    append_aborted,
    load_aborted,
    read_aborted,
)

LOG_SUFFIX = ".log"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
"""The files of a segment. First the `.log`: without it the others are orphans."""


class HalfWritten(StorageError):  # noqa: N818 - it names the state of the file
    """A write failed and could not be undone: nothing more may be appended to this log."""


def file_stem(base_offset: int) -> str:
    """Return the file name of a segment without suffix: the base offset in 20 digits."""
    return f"{base_offset:020d}"


class Segment:
    """One `.log` and its indexes."""

    __slots__ = (
        "_closed_first",
        "_closed_largest",
        "_jitter_ms",
        "_resources",
        "base_offset",
        "config",
        "created_ms",
        "file",
        "first_timestamp",
        "has_aborted",
        "size",
        "stem",
        "tail",
        "used",
    )

    def __init__(
        self,
        resources: Resources,
        folder: str,
        base_offset: int,
        size: int,
        config: LogConfig,
        *,
        has_aborted: bool = False,
    ) -> None:
        self._resources = resources
        self._jitter_ms = 0
        self._closed_first: int | None = None
        self._closed_largest: TimeEntry | None = None
        self.has_aborted = has_aborted
        """Whether there is a `.txnindex`; most segments have none."""
        self.config = config
        self.stem = f"{folder}/{file_stem(base_offset)}"
        self.base_offset = base_offset
        self.size = size
        self.created_ms = resources.clock.wall_ms()
        self.first_timestamp = NO_TIMESTAMP
        """Of the first batch; `segment.ms` counts from it. Only set in the active segment."""
        self.file: File | None = None
        self.used = False
        self.tail: Tail | None = None
        """The indexes of the active segment; None while closed."""

    @classmethod
    def create(
        cls, resources: Resources, folder: str, base_offset: int, config: LogConfig
    ) -> Segment:
        """Create an empty active segment."""
        segment = cls.without_file(resources, folder, base_offset, config)
        crash_point("segment.create.before_open")
        try:
            segment.file = resources.files.open(segment.path, create=True)
            segment.file.truncate(0)
        except OSError:
            # After a restart, an empty `.log` would be the active segment and move the log end.
            resources.files.remove(segment.path)
            raise
        crash_point("segment.create.after_open")
        resources.open_files.opened(segment)
        return segment

    @classmethod
    def without_file(
        cls, resources: Resources, folder: str, base_offset: int, config: LogConfig
    ) -> Segment:
        """Return an empty active segment whose file is created before the first write."""
        segment = cls(resources, folder, base_offset, 0, config)
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        if jitter_ms > 0:
            segment._jitter_ms = resources.random.randrange(jitter_ms)
        segment.tail = Tail.empty(base_offset)
        return segment

    @property
    def file_names(self) -> list[str]:
        """The names of its files, first that of the `.log`; a file may not exist."""
        name = file_stem(self.base_offset)
        return [name + suffix for suffix in SEGMENT_SUFFIXES]

    @property
    def path(self) -> str:
        return self.stem + LOG_SUFFIX

    @property
    def index_paths(self) -> list[str]:
        """The paths of `.index`, `.timeindex` and `.txnindex`; a file may not exist."""
        return [self.stem + suffix for suffix in SEGMENT_SUFFIXES[1:]]

    def handle(self) -> File:
        """Return the `.log` file, opened at first use."""
        file = self.file
        if file is None:
            file = self.file = self._resources.files.open(self.path)
            self._resources.open_files.opened(self)
        self.used = True
        return file

    def let_go(self) -> None:
        """Drop the file and the cached indexes.

        The file is not closed here: a response may still be sending from it. It closes itself
        when the last reference goes.
        """
        self.file = None
        self._resources.indexes.drop(self.stem)
        self._resources.aborted.drop(self.stem)

    # Writing

    def should_roll(self, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Return whether a batch must go to a new segment."""
        far = last_offset - self.base_offset > RELATIVE_OFFSET_MAX
        if not self.size or far:
            return far
        tail = self.tail or self.warm_up()
        config = self.config
        first_timestamp = self.first_timestamp
        waited_ms = (
            max_timestamp - first_timestamp
            if first_timestamp >= 0
            else self._resources.clock.wall_ms() - self.created_ms
        )
        return (
            self.size > config.segment_bytes - size
            or waited_ms > config.segment_ms - self._jitter_ms
            or self._indexes_full(tail)
        )

    def _indexes_full(self, tail: Tail) -> bool:
        size_max = self.config.segment_index_bytes
        return (
            len(tail.offsets) >= size_max // OFFSET_ENTRY_SIZE
            # Keep one slot free: closing the segment adds a last entry.
            or len(tail.times) >= size_max // TIME_ENTRY_SIZE - 1
        )

    def write(self, parts: Sequence[Buffer]) -> None:
        """Append batches to the file: all of them, or none and StorageError.

        The caller must then call `account` for each batch, in order.
        """
        file = self.file
        crash_point("segment.append.before_write")
        try:
            if file is None:
                file = self.handle()
            self.used = True
            if not self.size:
                make_empty(self._resources.files, self.index_paths[:2])
            file.append(parts)
        except OSError as error:
            self._undo_write(file, error)
        crash_point("segment.append.after_write")

    def _undo_write(self, file: File | None, error: OSError) -> None:
        """Truncate a partial write away: the next batch must not follow garbage."""
        try:
            if file is not None:
                file.truncate(self.size)
        except OSError as second:
            raise HalfWritten(self.path, f"{error}, then cutting it back: {second}") from error
        raise storage_error(self.path, error) from error

    def follow(self, config: LogConfig) -> None:
        """Use new topic configs from now on."""
        self.config = config

    def account(self, size: int, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch that was written to the file: to the size and, if due, to the indexes."""
        tail = self.tail or self.warm_up()
        position = self.size
        if not position:
            self.first_timestamp = max_timestamp
        tail.note(
            position, base_offset, last_offset, max_timestamp, self.config.index_interval_bytes
        )
        self.size = position + size

    def load_tail(self) -> Generator[None, None, Tail]:
        """Load in steps what `warm_up` needs; look-ups find the indexes in the cache from then."""
        if self.tail is not None:
            return self.tail
        tail = yield from load_tail(self._resources.files, self)
        tail.close_times()
        self._resources.indexes.put(self.stem, IndexPair(tail.offsets, tail.times))
        return tail

    def warm_up(self, loaded: Tail | None = None) -> Tail:
        """Make this segment the active one, with the tail of `load_tail` if there is one."""
        if self.tail is None:
            tail = loaded or at_once(load_tail(self._resources.files, self))
            with contextlib.suppress(CorruptRecords):
                first = next(self.batches(), None)
                self.first_timestamp = NO_TIMESTAMP if first is None else first.max_timestamp
            self.tail = tail
            # A cached copy would miss the entries that are added from now on.
            self._resources.indexes.drop(self.stem)
        return self.tail

    def store_indexes(self) -> None:
        """Write the missing index entries, with the last entry of the time index; no sync."""
        tail, files = self.tail or self.warm_up(), self._resources.files
        tail.close_times()
        crash_point("segment.indexes.before_times")
        stored = tail.stored_times
        path, kept_size = self.stem + TIME_INDEX_SUFFIX, stored * TIME_ENTRY_SIZE
        store_entries(files, path, kept_size, tail.times.encode(stored))
        tail.stored_times = len(tail.times)
        crash_point("segment.indexes.before_offsets")
        stored = tail.stored_offsets
        path, kept_size = self.stem + INDEX_SUFFIX, stored * OFFSET_ENTRY_SIZE
        store_entries(files, path, kept_size, tail.offsets.encode(stored))
        tail.stored_offsets = len(tail.offsets)
        crash_point("segment.indexes.after_offsets")

    def stop_writing(self) -> None:
        """Drop the tail: the indexes are stored and another segment is the active one."""
        if self.tail is not None:
            self._closed_first = self.first_timestamp
            self._closed_largest = self.tail.times.last
            self.tail = None

    # Reading

    def batches(self, position: int = 0) -> Iterator[StoredBatch]:
        """Walk the batches from this position, where a batch must start."""
        # An empty segment may have no file yet.
        return walk(self.handle(), position, self.size) if self.size else iter(())

    def batch_holding(self, offset: int) -> StoredBatch | None:
        """Find the first batch that ends at or after this offset; None if all end before it."""
        start = self.indexes().offsets.floor(offset).position
        for batch in self.batches(start):
            if batch.last_offset >= offset:
                return batch
        return None

    def position_of(self, offset: int) -> int | None:
        """Find the position of the first batch that ends at or after this offset."""
        if self.tail is not None:
            position = self.tail.position_of(offset)
            if position is not None:
                return position
        place = self.place_of(offset)
        return None if place is None else place.position

    def place_of(self, offset: int) -> StoredPlace | None:
        """Find the position and size of the first batch that ends at or after this offset."""
        if not self.size:
            return None
        start = self.indexes().offsets.floor(offset).position
        return find_offset(self.handle(), start, self.size, offset)

    def batch_size(self, position: int) -> int:
        """Return the size of the batch at this position."""
        _, size, _ = peek(self.handle().read(position, PEEK_SIZE))
        return size

    def largest(self) -> TimeEntry:
        """Return the largest timestamp, and the last offset of the batch that has it.

        -1 if no batch has a timestamp. It is the last entry of a closed segment's time index, so
        only 12 bytes are read.
        """
        if self.tail is not None:
            return TimeEntry(self.tail.largest_timestamp, self.tail.largest_offset)
        if self._closed_largest is None:
            self._closed_largest = self._last_stored_time() or self.indexes().times.last
        return self._closed_largest

    def first_batch_ms(self) -> int:
        """Return the largest timestamp of the first batch; -1 if there is none.

        A closed segment is read once, because the cleaner asks often. CorruptRecords if the file
        does not start with a batch.
        """
        if self.tail is not None:
            return self.first_timestamp
        if self._closed_first is None:
            first = next(self.batches(), None)
            self._closed_first = NO_TIMESTAMP if first is None else first.max_timestamp
        return self._closed_first

    def newest_ms(self) -> int:
        """Return the newest record's timestamp; without any, when this object was created."""
        largest = self.largest().timestamp
        return largest if largest >= 0 else self.created_ms

    def indexes(self) -> IndexPair:
        """Return both indexes; those of a closed segment are loaded, or rebuilt if damaged."""
        if self.tail is not None:
            return IndexPair(self.tail.offsets, self.tail.times)
        cache = self._resources.indexes
        pair = cache.get(self.stem)
        if pair is None:
            files = self._resources.files
            tail = at_once(stored_tail(files, self)) or self._repaired_tail()
            pair = IndexPair(tail.offsets, tail.times)
            cache.put(self.stem, pair)
        return pair

    def _last_stored_time(self) -> TimeEntry | None:
        """Read the last entry of the time index; None if it is missing or invalid."""
        content = last_entry(self._resources.files, self.stem + TIME_INDEX_SUFFIX, TIME_ENTRY_SIZE)
        try:
            return TimeIndex.decode(self.base_offset, content).last if content else None
        except CorruptRecords:
            return None

    def end_offset(self) -> int | None:
        """Find the offset after the last batch from the end of the file; None if damaged.

        For opening after a clean shutdown, which loads no index. The position in the last index
        entry counts only if the batches from there end exactly where the file does.
        """
        found = self._end_offset_from(self._last_stored_position())
        return self._end_offset_from(0) if found is None else found

    def _end_offset_from(self, position: int) -> int | None:
        next_offset = self.base_offset
        with contextlib.suppress(CorruptRecords):
            for batch in self.batches(position):
                position, next_offset = batch.end_position, batch.last_offset + 1
        return next_offset if position == self.size else None

    def _last_stored_position(self) -> int:
        """Read the position in the last entry of the offset index; 0 if missing or invalid."""
        content = last_entry(self._resources.files, self.stem + INDEX_SUFFIX, OFFSET_ENTRY_SIZE)
        try:
            return OffsetIndex.decode(self.base_offset, content, self.size).last_position
        except CorruptRecords:
            return 0

    def _repaired_tail(self) -> Tail:
        """Rebuild the indexes of a closed segment and write them to their files."""
        tail = at_once(rebuilt_tail(self))
        tail.close_times()
        files = self._resources.files
        try:
            write_atomically(files, self.stem + TIME_INDEX_SUFFIX, tail.times.encode())
            write_atomically(files, self.stem + INDEX_SUFFIX, tail.offsets.encode())
        except OSError as error:
            # Reads must work on a full disk; the next reader rebuilds the indexes again.
            if not is_full(error):
                raise
        return tail

    # Aborted transactions

    @property
    def transactions_path(self) -> str:
        """The path of the `.txnindex`, which exists if `has_aborted`."""
        return self.stem + TRANSACTION_INDEX_SUFFIX

    def add_aborted(self, transaction: AbortedTransaction) -> None:
        """Add an aborted transaction whose ABORT marker is in this segment."""
        crash_point("segment.abort.before_entry")
        append_aborted(self._resources.files, self.transactions_path, transaction)
        # Take the index out of the cache while it grows: the cache counts bytes at `put`.
        cache = self._resources.aborted
        index = cache.drop(self.stem) if self.has_aborted else AbortedIndex()
        self.has_aborted = True
        if index is not None:
            index.append(transaction)
            cache.put(self.stem, index)
        crash_point("segment.abort.after_entry")

    def aborted(self, end_offset: int = LONG_MAX) -> AbortedIndex:
        """Return the aborted transactions whose markers are in this segment.

        `end_offset` is the end of the segment, to validate the file. DamagedTransactionIndex if
        the file does not fit.
        """
        if not self.has_aborted:
            return AbortedIndex()
        cache = self._resources.aborted
        index = cache.get(self.stem)
        if index is None:
            path = self.transactions_path
            index = load_aborted(self._resources.files, path, self.base_offset, end_offset)
            cache.put(self.stem, index)
        return index

    def aborted_rebuilt(self, index: AbortedIndex) -> None:
        """Use a rebuilt index instead of a damaged file."""
        self.has_aborted = len(index) > 0
        self._resources.aborted.put(self.stem, index)

    # Truncating and deleting

    def truncate_to(self, offset: int, loaded: Tail | None = None) -> SegmentCut:
        """Remove every batch that ends at or after this offset, in memory.

        `loaded` is what `load_tail` has returned, if it was called before.

        The new end is the offset, or the base offset of the batch that contained it: a batch is
        removed whole. Nothing may be written before the returned cut has run: it takes as long as
        the kernel needs to free a gigabyte. Reads below the new end go on meanwhile.
        """
        tail = self.warm_up(loaded)
        batch = self.batch_holding(offset)
        if batch is None:
            return SegmentCut(offset, None, self.size, "", None)
        end_offset = min(offset, batch.base_offset)
        invariant(
            end_offset >= self.base_offset,
            f"{self.path}: the batch at {batch.position} has offset {batch.base_offset}",
        )
        transactions_size = self._truncate_aborted(end_offset)
        file = self.handle()
        file.cut_off_regions(batch.position)
        self.file = None  # regions of what is appended next belong to another handle
        self.size = batch.position
        tail.truncate_to(end_offset)
        self._find_largest_after_indexes(tail)
        if not self.size:
            self.first_timestamp = NO_TIMESTAMP
        return SegmentCut(end_offset, file, self.size, self.file_names[-1], transactions_size)

    def _truncate_aborted(self, end_offset: int) -> int | None:
        """Drop aborted transactions in memory; return the new size of the file, if there is one."""
        if not self.has_aborted:
            return None
        cache = self._resources.aborted
        cache.drop(self.stem)
        kept = read_aborted(self._resources.files, self.transactions_path)
        kept.truncate_to(end_offset)
        self.has_aborted = kept.size > 0
        if self.has_aborted:
            # The file has more until it is cut, and would seem damaged.
            cache.put(self.stem, kept)
        return kept.size

    def _find_largest_after_indexes(self, tail: Tail) -> None:
        """Look for a larger timestamp behind the last entry of the indexes.

        Where the offset index has an entry and the time index has none, no timestamp had grown. So
        the walk is short also where all records of a segment are of the same time.
        """
        for batch in self.batches(tail.offsets.last_position):
            tail.note_largest(batch.max_timestamp, batch.last_offset)

    def recover(
        self, check_from_offset: int, take: Callable[[StoredBatch], None]
    ) -> CorruptRecords | None:
        """Read the whole file, rebuild the indexes, and stop at the first bad batch.

        CRCs are checked from this offset on; below it everything was synced. `take` gets every
        good batch in order. Returns what was wrong, or None. The caller truncates the file to
        `size` then.
        """
        file = self.handle()
        end_position, self.size = self.size, 0
        self.tail = Tail.empty(self.base_offset)
        self._resources.indexes.drop(self.stem)
        self._resources.aborted.drop(self.stem)
        self._resources.files.remove(self.transactions_path)
        self.has_aborted = False
        # Old entries could point after the new end, or into batches that are appended later.
        make_empty(self._resources.files, self.index_paths[:2])
        next_offset = self.base_offset
        try:
            for batch in walk_checked(file, 0, end_position, check_from_offset=check_from_offset):
                _check_order(batch, next_offset, self.base_offset)
                take(batch)
                self.account(batch.size, batch.base_offset, batch.last_offset, batch.max_timestamp)
                next_offset = batch.last_offset + 1
        except CorruptRecords as error:
            return error
        return None

    def schedule_delete(self) -> None:
        """Rename every file to `.deleted`, and remove it after `file.delete.delay.ms`.

        Readers keep their open files.
        """
        folder = self._resources.files.open_folder(self.stem.rpartition("/")[0])
        try:
            rename_deleted(folder, self.file_names)
        finally:
            folder.close()
        self.renamed_deleted()
        self.let_go()

    def renamed_deleted(self) -> None:
        """Have the renamed files removed after `file.delete.delay.ms`."""
        due_ms = self._resources.clock.wall_ms() + self.config.file_delete_delay_ms
        for suffix in SEGMENT_SUFFIXES if self.has_aborted else SEGMENT_SUFFIXES[:-1]:
            path = self.stem + suffix + DELETED_SUFFIX
            self._resources.scheduled_deletes.append(ScheduledDelete(due_ms, path, is_folder=False))


def _check_order(batch: StoredBatch, next_offset: int, base_offset: int) -> None:
    """Raise CorruptRecords if offsets go back, or need more than 31 bits from the base."""
    first_offset = batch.base_offset if batch.header is not None else batch.last_offset
    if first_offset < next_offset or batch.last_offset - base_offset > RELATIVE_OFFSET_MAX:
        raise CorruptRecords(f"offset {batch.base_offset} where {next_offset} was next")
