"""Fast parsing of record keys, for batches whose records have the same layout.

A cleaning must find the key of every record. Parsing varint by varint would take most of its time.
But producers number the records of a batch one by one, and the fields before the key usually have
the same widths in all records. So one `unpack_from` reads them all, and a few comparisons check
that the widths were right. A record with another layout stops this parser, and `keys.note_keys`
continues varint by varint.

The tables are built at first use: the broker imports this module, but only the cleaning process
uses it.
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
"""Lengths and deltas below it are varints of one byte (zigzag)."""

_NO_SIZE: Final = 1 << 32
"""Stands for a key whose length is negative or longer than one byte: no record is so large, so the
check of the key's end fails."""

_CODES: Final = {1: "B", 2: "H"}
"""By width: the struct code for a length or an offset delta."""
_TIMESTAMPS: Final = {
    1: ("xB", 0x80, 0),
    2: ("xH", 0x8080, 0x80),
    3: ("I", 0x80808000, 0x808000),
    4: ("xI", 0x80808080, 0x808080),
}
"""By width: the struct code for the attributes and the timestamp delta, a mask of the varint
continuation bits, and their expected value. Four bytes are 37 hours."""


@cache
def _written(width: int) -> Sequence[int]:
    """The varints of one or two bytes (0 to 63, or 64 to 8191) as little-endian integers.

    This is the form in which `struct` reads them.
    """
    if width == 1:
        return range(0, 0x80, 2)
    highs = range(1, 0x80)
    return tuple(chain.from_iterable(range(high << 8 | 0x80, high + 1 << 8, 2) for high in highs))


@cache
def _record_sizes(width: int) -> Sequence[int]:
    """By the encoded length of a record: its size with the length field; 0 if invalid."""
    sizes = [0] * (1 << 8 * width)
    first_length = 0 if width == 1 else _ONE_BYTE_END
    for size, written in enumerate(_written(width), first_length + width):
        sizes[written] = size
    return sizes


@cache
def _key_sizes() -> Sequence[int]:
    """By the encoded length of a key: its size, or `_NO_SIZE`."""
    return tuple(byte >> 1 if byte in _written(1) else _NO_SIZE for byte in range(0x100))


class _Shape(NamedTuple):
    """The widths of the fields before a key."""

    unpack_from: Callable[[Buffer, int], tuple[int, ...]]
    """Returns the record length, timestamp delta, offset delta and key length, all encoded."""
    size: int
    """The bytes of all these fields."""
    record_sizes: Sequence[int]
    width_bits: int
    width: int
    deltas: Sequence[int]
    """The encoded offset deltas in ascending order."""
    key_sizes: Sequence[int]


@cache
def _shape(length_width: int, timestamp_width: int, delta_width: int) -> _Shape | None:
    """Return the shape with these widths; None if there is no fast way to parse it."""
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
    """Return the keys of records while their layout is the same, and where the last one ends.

    `numbers` are the indexes of the records in their batch. The first record determines the
    layout. IndexError or `struct.error` if the data is incomplete.
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
    """Return the shape of the record at a position; None if there is no fast way to parse it."""
    length_width = 1 if data[position] < 0x80 else 2
    start = position = position + length_width + 1
    while data[position] >= 0x80:
        position += 1
    return _shape(length_width, position + 1 - start, 1 if number < _ONE_BYTE_END else 2)


def record_starts(data: bytes, position: int, count: int) -> list[int]:
    """Return where each record starts, and where the last one ends.

    IndexError or `struct.error` if the data is incomplete.
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
    """Return the size of any record, with its length field."""
    length, behind = read_varint(data, position)
    return behind - position + length
