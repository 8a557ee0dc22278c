"""Records of one shape that follow each other in a batch, read many at a time.

Producers mostly write what looks alike: the same fields, of the same sizes. In a stretch of such
records every field lies as far behind the field of the record before as the record is long, so a
slice with that step is a column of them, and what would be one check per record is one comparison
of bytes. A stretch ends before the first record that differs in anything but the bytes of key and
value, the time, and an offset that is one more than the last.

A stretch is taken only where it is proven, byte by byte, that reading its records one by one would
give the same; nothing here raises. Whatever is not plain (headers, gaps between offsets, wide
numbers, damage) is left to who reads one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from struct import iter_unpack, unpack
from typing import Final

from moldau.base.errors import CorruptRecords
from moldau.base.tuples import NamedTuple
from moldau.records.varint import VARINT, read_varint

_LOW: Final = bytes(range(0x80))
_HIGH: Final = bytes(range(0x80, 0x100))
_MORE_TO_COME: Final = bytes(byte | 0x80 for byte in range(0x100))

_SHORT_DELTAS: Final = 1 << 6
"""Offset deltas below it take one byte."""
_WINDOW: Final = 1 << 13
"""In so many offset deltas, only the lowest two bytes of their varints change."""
_VARYING_BYTES: Final = 2
_LOWEST: Final = bytes(range(0, 0x80, 2)) * (_WINDOW // 64)
_SECOND: Final = b"".join(bytes((byte,)) * 64 for byte in range(0x80))
_WINDOW_BYTES: Final = (
    (_LOWEST,),
    (_LOWEST.translate(_MORE_TO_COME), _SECOND),
    (_LOWEST.translate(_MORE_TO_COME), _SECOND.translate(_MORE_TO_COME)),
)
"""Those bytes, for varints of one, of two, and of more bytes."""

_FIRST_LOOK: Final = 16
_LOOK_GROWTH: Final = 8
"""A stretch is looked for in steps that grow: where it is short, little was looked at in vain."""
SHORTEST: Final = 32
"""Fewer records are read one by one in the time it takes to look at them."""

Headers = tuple[tuple[str, bytes | None], ...]
Fields = tuple[int, int, bytes | None, bytes | None, Headers]
"""What a record consists of: offset, timestamp, key, value, headers."""


class Stretch(NamedTuple):
    """Where in a payload the fields of some plain records lie: here the first one's."""

    position: int
    size: int
    """Of each record."""
    same: tuple[int, ...]
    """Bytes that must not differ: lengths, the count of headers, the upper part of the delta."""
    time: int
    delta: int
    key: int
    key_size: int
    value: int
    value_size: int
    length: int = 1
    """How many records there are."""

    @property
    def end(self) -> int:
        """The position behind the last record."""
        return self.position + self.length * self.size

    def columns(
        self, payload: bytes, first_offset: int, base_timestamp: int, append_time: int | None
    ) -> tuple[range, Iterable[int], Iterable[bytes | None], Iterable[bytes | None]]:
        """Read offsets, timestamps, keys and values; only the offsets are sure to end."""
        # Not a memoryview: Python before 3.12.2 crashes when its collector clears one that an
        # iterator of `struct` still reads (gh-77894).
        records = payload[self.position : self.end]
        return (
            range(first_offset, first_offset + self.length),
            self._times(payload, base_timestamp) if append_time is None else repeat(append_time),
            self._column(records, self.key, self.key_size),
            self._column(records, self.value, self.value_size),
        )

    def _times(self, payload: bytes, base: int) -> Iterable[int]:
        """Read the times; there are far fewer different ones than records."""
        written: Sequence[int] = payload[self.time : self.end : self.size]
        if self.delta - self.time > 1:
            pairs = bytearray(2 * self.length)
            pairs[0::2] = payload[self.time : self.end : self.size]
            pairs[1::2] = payload[self.time + 1 : self.end : self.size]
            written = unpack(f"<{self.length}H", pairs)
        times = {
            number: base + ((number >> 1 & 0x3F | number >> 8 << 6) ^ -(number & 1))
            for number in set(written)
        }
        return map(times.__getitem__, written)

    def _column(self, records: bytes, start: int, size: int) -> Iterable[bytes | None]:
        if size < 0:
            return repeat(None)
        before = start - self.position
        rows = iter_unpack(f"{before}x{size}s{self.size - before - size}x", records)
        return chain.from_iterable(rows)


def find_stretch(payload: bytes, position: int, delta: int, left: int) -> Stretch | None:
    """Look for records of one shape from a position on, where the first has this offset delta.

    None if the record there is not plain, or hardly any that follow are like it. At most as many
    are found as are left, and as lie in one window.
    """
    left = min(left, (_WINDOW if delta >= _SHORT_DELTAS else _SHORT_DELTAS) - delta % _WINDOW)
    if left < SHORTEST:
        return None
    try:
        alone = _plain_record(payload, position, delta)
    except (IndexError, CorruptRecords):
        return None
    if alone is None:
        return None
    found, looked_at = 1, _FIRST_LOOK
    while found < left:
        found = _count_alike(payload, alone, delta, min(looked_at, left))
        if found < looked_at:
            break
        looked_at *= _LOOK_GROWTH
    return alone._replace(length=found) if found >= SHORTEST else None


def _plain_record(payload: bytes, position: int, delta: int) -> Stretch | None:
    """Find the fields of one record, unless it is not plain or the next one has another length."""
    length, body = read_varint(payload, position)
    end = body + length
    if payload[position:body] != payload[end : end + body - position]:
        return None
    time = body + 1
    delta_start = time + (1 if payload[time] < 0x80 else 2)
    delta_end = delta_start + len(VARINT[delta])
    key_size, key = read_varint(payload, delta_end)
    key_end = key + max(key_size, 0)
    value_size, value = read_varint(payload, key_end)
    if min(key_size, value_size) < -1 or value + max(value_size, 0) + 1 != end or payload[end - 1]:
        return None
    same = (
        *range(position, body),
        *range(delta_start + _VARYING_BYTES, delta_end),
        *range(delta_end, key),
        *range(key_end, value),
        end - 1,
    )
    return Stretch(
        position, end - position, same, time, delta_start, key, key_size, value, value_size
    )


def _count_alike(payload: bytes, first: Stretch, delta: int, count: int) -> int:
    """Count records like the first, itself included, among so many."""
    size = first.size
    stop = first.position + count * size
    for byte in first.same:
        column = payload[byte:stop:size]
        count = min(count, len(column) - len(column.lstrip(column[:1])))
    for byte in range(first.time, first.delta):
        column = payload[byte:stop:size]
        allowed = _LOW if byte == first.delta - 1 else _HIGH
        count = min(count, len(column) - len(column.lstrip(allowed)))
    expected = _WINDOW_BYTES[min(len(VARINT[delta]), len(_WINDOW_BYTES)) - 1]
    start = delta % _WINDOW
    for byte, rising in enumerate(expected, first.delta):
        column, wanted = payload[byte:stop:size][:count], rising[start : start + count]
        if column != wanted:
            count = next(number for number in range(count) if column[number] != wanted[number])
    return count
