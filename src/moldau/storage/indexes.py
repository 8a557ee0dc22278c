"""The sparse indexes of a segment, in memory and as bytes on disk.

An index is derived from the `.log` beside it: it has no checksum, and a damaged one is rebuilt from
the batches. The formats are Kafka's:

    .index      8 bytes: int32 last offset of a batch relative to the segment's base,
                         int32 position where that batch starts
    .timeindex 12 bytes: int64 largest timestamp so far,
                         int32 relative last offset of the batch that holds it
    .txnindex  34 bytes: int16 version 0, int64 producer id, first offset, last offset (of the
                         ABORT marker), last stable offset after the marker

Entries ascend. The active segment keeps its `.index` and `.timeindex` entries in memory and stores
them when it is closed; `transaction_index` writes each `.txnindex` entry at once. The indexes of
closed segments are loaded on demand and kept in an `IndexCache`. This module does not access files,
and `tail` decides when an entry is due.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import lt, sub
from struct import Struct
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from moldau.base.checks import invariant
from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer

OFFSET_ENTRY_SIZE: Final = 8
TIME_ENTRY_SIZE: Final = 12
ABORTED_ENTRY_SIZE: Final = 34
RELATIVE_OFFSET_MAX: Final = 2**31 - 1
"""The largest distance of an offset from the base of its segment: indexes have 31 bits for it."""

NO_TIMESTAMP: Final = -1

_POSITION_BITS: Final = 32
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1
_TIME_ENTRY: Final = Struct(">qi")
_TIMESTAMP = Struct(">q")
_ABORTED_ENTRY = Struct(">hqqqq")
_ABORTED_VERSION = 0
_ABORTED_LAST_OFFSET = Struct(">18xq")
_NUMBER_SIZE = 8
_SWAPPED = sys.byteorder == "little"


class OffsetEntry(NamedTuple):
    """A batch's last offset and the position where the batch starts."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp so far and the last offset of the batch that holds it."""

    timestamp: int
    offset: int


class OffsetIndex:
    """The entries of an `.index`, each packed into one integer so that `bisect` runs in C."""

    __slots__ = ("_entries", "base_offset")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._entries = array("Q")

    @classmethod
    def decode(cls, base_offset: int, content: Buffer, log_size: int) -> OffsetIndex:
        """Decode an index; CorruptRecords if it does not fit a `.log` of this size.

        Only the first and the last entry are checked: this runs on the event loop.
        """
        index = cls(base_offset)
        index.extend(content)
        index.check(log_size)
        return index

    def extend(self, content: Buffer) -> None:
        """Add entries as the file has them; CorruptRecords if the last one is cut."""
        if len(content) % OFFSET_ENTRY_SIZE:
            raise CorruptRecords(f"{len(content)} bytes of an offset index have half an entry")
        entries = array("Q")
        entries.frombytes(content)
        if _SWAPPED:
            entries.byteswap()
        self._entries.extend(entries)

    def check(self, log_size: int) -> None:
        """Raise CorruptRecords if the first or the last entry does not fit a `.log` of a size."""
        entries = self._entries
        if not entries:
            return
        first, last = entries[0], entries[-1]
        if last >> (_POSITION_BITS + 31) or last & _POSITION_MASK >= log_size:
            raise CorruptRecords(f"an offset index points behind a log of {log_size} bytes")
        if len(entries) > 1 and not _both_ascend(first, last):
            raise CorruptRecords("an offset index does not ascend")

    def encode(self, first: int = 0) -> bytes:
        """Encode the entries from this one on for the file."""
        entries = self._entries[first:]
        if _SWAPPED:
            entries.byteswap()
        return entries.tobytes()

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, number: int) -> OffsetEntry:
        entry = self._entries[number]
        return OffsetEntry(self.base_offset + (entry >> _POSITION_BITS), entry & _POSITION_MASK)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self._entries) * OFFSET_ENTRY_SIZE

    @property
    def last_position(self) -> int:
        """The position in the last entry; 0 without entries."""
        return self._entries[-1] & _POSITION_MASK if self._entries else 0

    def append(self, offset: int, position: int) -> None:
        """Add an entry; the caller adds them in the order of the log."""
        self._entries.append((offset - self.base_offset) << _POSITION_BITS | position)

    def floor(self, offset: int) -> OffsetEntry:
        """Return the last entry at or below this offset, else the start of the segment."""
        bound = max(0, offset + 1 - self.base_offset) << _POSITION_BITS
        after = bisect_left(self._entries, bound)
        return self[after - 1] if after else OffsetEntry(self.base_offset, 0)

    def ceiling(self, position: int) -> int | None:
        """Return an offset at or after all batches that start before this position, if known."""
        after = bisect_left(self._entries, position, key=_position)
        return self[after].offset if after < len(self._entries) else None

    def truncate_to(self, end_offset: int) -> None:
        """Drop the entries at or above this offset."""
        bound = max(0, end_offset - self.base_offset) << _POSITION_BITS
        del self._entries[bisect_left(self._entries, bound) :]


def _position(entry: int) -> int:
    return entry & _POSITION_MASK


def _both_ascend(first: int, last: int) -> bool:
    return (
        first >> _POSITION_BITS < last >> _POSITION_BITS
        and first & _POSITION_MASK < last & _POSITION_MASK
    )


class TimeIndex:
    """The entries of a `.timeindex`, as the bytes of the file: look-ups by time are rare."""

    __slots__ = ("_entries", "base_offset", "last")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self._entries = bytearray()
        self.last = TimeEntry(NO_TIMESTAMP, base_offset)

    @classmethod
    def decode(cls, base_offset: int, content: Buffer) -> TimeIndex:
        """Decode an index; CorruptRecords if it is invalid. Checks the first and last entry."""
        index = cls(base_offset)
        index.extend(content)
        index.check()
        return index

    def extend(self, content: Buffer) -> None:
        """Add entries as the file has them; CorruptRecords if the last one is cut."""
        if len(content) % TIME_ENTRY_SIZE:
            raise CorruptRecords(f"{len(content)} bytes of a time index have half an entry")
        self._entries += content
        self._find_last()

    def check(self) -> None:
        """Raise CorruptRecords if the first or the last entry cannot be one."""
        if not self._entries:
            return
        first, last = self[0], self.last
        if last.offset < self.base_offset or last.timestamp < 0:
            raise CorruptRecords("a time index ends in no entry")
        if len(self) > 1 and not (first.timestamp < last.timestamp and first.offset < last.offset):
            raise CorruptRecords("a time index does not ascend")

    def encode(self, first: int = 0) -> bytes:
        """Encode the entries from this one on for the file."""
        return bytes(self._entries[first * TIME_ENTRY_SIZE :])

    def __len__(self) -> int:
        return len(self._entries) // TIME_ENTRY_SIZE

    def __getitem__(self, number: int) -> TimeEntry:
        timestamp, relative = _TIME_ENTRY.unpack_from(self._entries, number * TIME_ENTRY_SIZE)
        return TimeEntry(timestamp, self.base_offset + relative)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self._entries)

    def append_if_larger(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than the last entry's."""
        if timestamp > self.last.timestamp:
            invariant(offset >= self.last.offset, f"time index goes back to offset {offset}")
            self._entries += _TIME_ENTRY.pack(timestamp, offset - self.base_offset)
            self.last = TimeEntry(timestamp, offset)

    def floor(self, timestamp: int) -> TimeEntry:
        """Return the last entry at or below this timestamp, else the start of the segment.

        No batch up to the entry's offset is newer than the entry.
        """
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if _TIMESTAMP.unpack_from(self._entries, middle * TIME_ENTRY_SIZE)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self[low - 1] if low else TimeEntry(NO_TIMESTAMP, self.base_offset)

    def truncate_to(self, end_offset: int) -> None:
        """Drop the entries at or above this offset."""
        # Offsets ascend too, and a gigabyte has a quarter of a million entries.
        count = bisect_left(range(len(self)), end_offset, key=lambda number: self[number].offset)
        del self._entries[count * TIME_ENTRY_SIZE :]
        self._find_last()

    def _find_last(self) -> None:
        count = len(self)
        self.last = self[count - 1] if count else TimeEntry(NO_TIMESTAMP, self.base_offset)


class AbortedTransaction(NamedTuple):
    """The records of this producer in [first offset, last offset] were aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    """Encode entries for a `.txnindex`."""
    return b"".join(_ABORTED_ENTRY.pack(_ABORTED_VERSION, *entry) for entry in transactions)


def decode_aborted(content: Buffer) -> list[AbortedTransaction]:
    """Decode all entries; CorruptRecords if the bytes are not whole entries of version 0."""
    return list(AbortedIndex.decode(content))


class AbortedIndex:
    """The entries of a `.txnindex`, as the bytes of the file: a fetch needs a few of many."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries = bytearray()

    @classmethod
    def decode(cls, content: Buffer) -> AbortedIndex:
        """Decode an index; CorruptRecords if the bytes are not whole entries of version 0."""
        if len(content) % ABORTED_ENTRY_SIZE:
            raise CorruptRecords(f"a transaction index of {len(content)} bytes has half an entry")
        high, low = content[::ABORTED_ENTRY_SIZE], content[1::ABORTED_ENTRY_SIZE]
        if any(high) or any(low):
            raise CorruptRecords("a transaction index has entries of another version than 0")
        index = cls()
        index._entries += content
        return index

    def check(self, base_offset: int, end_offset: int) -> None:
        """Raise CorruptRecords unless all markers are in [base, end) and every entry is plausible.

        Whole columns are compared in C: a segment may have a hundred thousand entries, and this
        runs on the event loop.
        """
        if not self._entries:
            return
        producer_ids, first_offsets, last_offsets, stable_offsets = [
            self._column(position) for position in range(2, ABORTED_ENTRY_SIZE, _NUMBER_SIZE)
        ]
        if not all(map(lt, last_offsets, islice(last_offsets, 1, None))):
            raise CorruptRecords("a transaction index does not ascend")
        if last_offsets[0] < base_offset or last_offsets[-1] >= end_offset:
            raise CorruptRecords(
                f"a transaction index has markers from {last_offsets[0]} to {last_offsets[-1]},"
                f" and its segment is [{base_offset}, {end_offset})"
            )
        negative = any(min(one) < 0 for one in (producer_ids, first_offsets, stable_offsets))
        ends_first = not all(map(lt, first_offsets, last_offsets))
        # The last stable offset after a marker is at most the offset after the marker.
        if negative or ends_first or max(map(sub, stable_offsets, last_offsets)) > 1:
            raise CorruptRecords("a transaction index has an entry that cannot be one")

    def _column(self, position: int) -> array[int]:
        """Return the 64-bit number at this position of every entry."""
        content = bytearray(len(self) * _NUMBER_SIZE)
        for number in range(_NUMBER_SIZE):
            content[number::_NUMBER_SIZE] = self._entries[position + number :: ABORTED_ENTRY_SIZE]
        column = array("q")
        column.frombytes(content)
        if _SWAPPED:
            column.byteswap()
        return column

    def encode(self) -> bytes:
        """Encode the entries for the file."""
        return bytes(self._entries)

    def __len__(self) -> int:
        return len(self._entries) // ABORTED_ENTRY_SIZE

    def __getitem__(self, number: int) -> AbortedTransaction:
        fields = _ABORTED_ENTRY.unpack_from(self._entries, number * ABORTED_ENTRY_SIZE)
        return AbortedTransaction(*fields[1:])

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return self.ending_from(0)

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self._entries)

    def append(self, transaction: AbortedTransaction) -> None:
        """Add an entry; the caller adds them in the order of their markers."""
        self._entries += _ABORTED_ENTRY.pack(_ABORTED_VERSION, *transaction)

    def ending_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """Yield the transactions whose marker is at or after an offset."""
        for number in range(self._count_ending_before(offset), len(self)):
            yield self[number]

    def truncate_to(self, end_offset: int) -> None:
        """Drop the transactions whose marker is at or above this offset."""
        del self._entries[self._count_ending_before(end_offset) * ABORTED_ENTRY_SIZE :]

    def _count_ending_before(self, offset: int) -> int:
        return bisect_left(range(len(self)), offset, key=self._last_offset)

    def _last_offset(self, number: int) -> int:
        last_offset: int
        (last_offset,) = _ABORTED_LAST_OFFSET.unpack_from(
            self._entries, number * ABORTED_ENTRY_SIZE
        )
        return last_offset


class IndexPair(NamedTuple):
    """The offset index and the time index of one segment."""

    offsets: OffsetIndex
    times: TimeIndex

    @property
    def size(self) -> int:
        return self.offsets.size + self.times.size


class Cached(Protocol):
    """An index in a cache; it must not grow there, because the cache counts its bytes once."""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        ...


_Cached = TypeVar("_Cached", bound=Cached)


class IndexCache(Generic[_Cached]):
    """Indexes of closed segments, limited in bytes; the least recently used is dropped first."""

    __slots__ = ("_capacity_bytes", "_kept", "size")

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._kept: OrderedDict[str, _Cached] = OrderedDict()
        self.size = 0

    def get(self, stem: str) -> _Cached | None:
        """Return the indexes of a segment, by the path of its files without suffix."""
        found = self._kept.get(stem)
        if found is not None:
            self._kept.move_to_end(stem)
        return found

    def put(self, stem: str, indexes: _Cached) -> None:
        """Add the indexes of a segment and drop others for them; too large ones are not kept."""
        self.drop(stem)
        if indexes.size > self._capacity_bytes:
            return
        self._kept[stem] = indexes
        self.size += indexes.size
        while self.size > self._capacity_bytes:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.size

    def drop(self, stem: str) -> _Cached | None:
        """Remove the indexes of a segment that changes or is deleted; return them if cached."""
        dropped = self._kept.pop(stem, None)
        if dropped is not None:
            self.size -= dropped.size
        return dropped
