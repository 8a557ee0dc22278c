"""Going over the records of a batch where nearly all look alike.

A cleaning looks at every key, and for that at every record. Number by number that takes most of
its time; but a batch as producers write them counts its records one by one, and the numbers before
a key keep their widths from one record to the next. So one `unpack_from` takes them all, and one
comparison tells that it took them rightly. This knows positions, not meanings: whatever looks any
different is left to whoever reads number by number, with nothing done.

The tables behind it are made when they are first asked for: a broker imports this as well, and only
the process that cleans uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from moldau.base.files import Buffer
from moldau.records.varint import read_varint

_ONE_BYTE_END: Final = 1 << 6
"""Lengths and deltas below have one byte, sign included."""

_NO_SIZE: Final = 1 << 32
"""Of a key whose length is negative or has more than one byte: no record is so large."""

_CODES: Final = {1: "B", 2: "H"}
"""By width, how a length or an offset's delta is unpacked."""
_TIMESTAMPS: Final = {
    1: ("xB", 0x80, 0),
    2: ("xH", 0x8080, 0x80),
    3: ("I", 0x80808000, 0x808000),
    4: ("xI", 0x80808080, 0x808080),
}
"""By width, how a timestamp's delta is unpacked together with the attributes before it, the bits
that tell its width, and what they are then. Four bytes are 37 hours."""


@cache
def _written(width: int) -> Sequence[int]:
    """Numbers of one or of two bytes, 0 to 63 or 64 to 8191, as they are written.

    That is, as the little-endian integers for which `struct` takes them.
    """
    if width == 1:
        return range(0, 0x80, 2)
    highs = range(1, 0x80)
    return tuple(chain.from_iterable(range(high << 8 | 0x80, high + 1 << 8, 2) for high in highs))


@cache
def _record_sizes(width: int) -> Sequence[int]:
    """By the length before a record, as it is written: its size with that; 0 where none has it."""
    sizes = [0] * (1 << 8 * width)
    first_length = 0 if width == 1 else _ONE_BYTE_END
    for size, written in enumerate(_written(width), first_length + width):
        sizes[written] = size
    return sizes


@cache
def _key_sizes() -> Sequence[int]:
    """By the byte before a key."""
    return tuple(byte >> 1 if byte in _written(1) else _NO_SIZE for byte in range(0x100))


class _Shape(NamedTuple):
    """How wide the numbers before a key are."""

    unpack_from: Callable[[Buffer, int], tuple[int, ...]]
    """Yields the record's length, timestamp delta, offset delta, and the key's length."""
    size: int
    """Of all of them together."""
    record_sizes: Sequence[int]
    width_bits: int
    width: int
    deltas: Sequence[int]
    """Of offsets, as they follow each other."""
    key_sizes: Sequence[int]


@cache
def _shape(length_width: int, timestamp_width: int, delta_width: int) -> _Shape | None:
    """Return the shape of these widths; None if it is not plain."""
    if timestamp_width not in _TIMESTAMPS:
        return None
    timestamp, width_bits, width = _TIMESTAMPS[timestamp_width]
    numbers = Struct(f"<{_CODES[length_width]}{timestamp}{_CODES[delta_width]}B")
    return _Shape(
        numbers.unpack_from,
        numbers.size,
        _record_sizes(length_width),
        width_bits,
        width,
        _written(delta_width),
        _key_sizes(),
    )


def plain_keys(data: bytes, position: int, numbers: range) -> tuple[list[bytes], int]:
    """Take the keys of records as long as these are as expected; tell where the last one ends.

    They have these numbers, counted in their batch; the first one says what to expect. IndexError
    or `struct.error` if the data ends before.
    """
    keys: list[bytes] = []
    first = numbers.start
    shape = _shape_at(data, position, first)
    if shape is None:
        return keys, position
    unpack_from, size, record_sizes, width_bits, width, deltas, key_sizes = shape
    take = keys.append
    skipped_count = first if first < _ONE_BYTE_END else first - _ONE_BYTE_END
    for expected in deltas[skipped_count : skipped_count + len(numbers)]:
        length, timestamp, delta, key_length = unpack_from(data, position)
        end = position + record_sizes[length]
        key_start = position + size
        key_end = key_start + key_sizes[key_length]
        if delta != expected or timestamp & width_bits != width or key_end >= end:
            break
        take(data[key_start:key_end])
        position = end
    return keys, position


def _shape_at(data: bytes, position: int, number: int) -> _Shape | None:
    """Tell what the record of this number in its batch looks like; None if it is not plain."""
    length_width = 1 if data[position] < 0x80 else 2
    start = position = position + length_width + 1
    while data[position] >= 0x80:
        position += 1
    return _shape(length_width, position + 1 - start, 1 if number < _ONE_BYTE_END else 2)


def record_starts(data: bytes, position: int, count: int) -> list[int]:
    """Find where each record begins, and where the last one ends.

    IndexError or `struct.error` if the data ends before.
    """
    starts: list[int] = []
    note = starts.append
    width = 1 if data[position : position + 1] < b"\x80" else 2
    sizes = _record_sizes(width)
    unpack_from = Struct(f"<{_CODES[width]}").unpack_from
    for _ in range(count):
        note(position)
        (length,) = unpack_from(data, position)
        position += sizes[length] or _record_size(data, position)
    note(position)
    return starts


def _record_size(data: bytes, position: int) -> int:
    """Read the size of any record, with the length before it."""
    length, behind = read_varint(data, position)
    return behind - position + length
