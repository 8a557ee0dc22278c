"""The newest offset of every key in the dirty part: the first of the two passes of a cleaning.

The map has the keys, not hashes of them: a hash would take as much memory as most keys, and keys
never collide. Memory is limited: when the map is full, the cleaning ends with that batch, and the
next cleaning continues after it.

A cleaning spends most of its time here: in look-ups, which miss the processor's caches, and in
parsing records. So there are two parsers. `scan.plain_keys` handles records with a regular layout
in two thirds of the time of `note_keys`, which handles all, and adds its keys with one call.
"""

from __future__ import annotations

from itertools import islice
from struct import error as StructError  # noqa: N812 - a class, whatever its name
from typing import Final

from moldau.base.errors import CorruptRecords
from moldau.records.varint import read_varint
from moldau.storage.compaction.scan import plain_keys

ENTRY_OVERHEAD: Final = 140
"""Bytes per entry besides the key: two object headers and a part of the table, 100 to 130 bytes as
measured, and the offset once more in the sorted array."""

SLOW_STRETCH: Final = 32
"""How many records `note_keys` parses before `plain_keys` is tried again. A failed try costs as
much as three or four records, and in some batches no two records are alike."""

NULL: Final = 1
"""The length of a null key or value (-1), as a varint of one byte."""


class KeyOffsets:
    """The newest offset of every key so far, limited in bytes."""

    __slots__ = ("_capacity_bytes", "newest", "size")

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self.newest: dict[bytes, int] = {}
        self.size = 0
        """Estimated memory in bytes."""

    @property
    def full(self) -> bool:
        return self.size >= self._capacity_bytes

    def note_records(
        self, data: bytes, position: int, end: int, count: int, base_offset: int
    ) -> None:
        """Add the keys of a batch's uncompressed records.

        A batch is always added whole, so that a cleaning makes progress even if one batch fills
        the map.
        """
        newest = self.newest
        known_count = len(newest)
        try:
            behind = _note_keys(newest, data, position, count, base_offset)
        except (IndexError, StructError):
            behind = -1
        if behind != end:
            raise CorruptRecords(f"the records of the batch at offset {base_offset} are cut")
        self._grown(known_count)

    def note(self, key: bytes, offset: int) -> None:
        """Add one key."""
        known_count = len(self.newest)
        self.newest[key] = offset
        self._grown(known_count)

    def _grown(self, known_count: int) -> None:
        """Count the new keys; a dict keeps insertion order, so they are the last ones."""
        new_count = len(self.newest) - known_count
        if new_count:
            added = islice(reversed(self.newest), new_count)
            self.size += new_count * ENTRY_OVERHEAD + sum(map(len, added))


def _note_keys(
    newest: dict[bytes, int], data: bytes, position: int, count: int, base_offset: int
) -> int:
    """Add all keys with the parser that fits; return where the last record ends."""
    number = 0
    while number < count:
        keys, position = plain_keys(data, position, range(number, count))
        newest.update(zip(keys, range(base_offset + number, base_offset + count), strict=False))
        number += len(keys)
        if len(keys) < SLOW_STRETCH and number < count:
            slow_count = min(SLOW_STRETCH, count - number)
            position = note_keys(newest, data, position, slow_count, base_offset)
            number += slow_count
    return position


def note_keys(
    newest: dict[bytes, int], data: bytes, position: int, count: int, base_offset: int
) -> int:
    """Add the offset of each record under its key; return where the last record ends.

    IndexError if the data is incomplete, CorruptRecords if a key does not fit into its record.
    """
    for _ in range(count):
        byte = data[position]
        if byte < 0x80:
            position += 1
            end = position + (byte >> 1)
        elif (second := data[position + 1]) < 0x80:
            position += 2
            end = position + ((byte & 0x7F | second << 7) >> 1)
        else:
            length, position = read_varint(data, position)
            end = position + length
        position += 1
        while data[position] >= 0x80:
            position += 1
        byte = data[position + 1]
        if byte < 0x80:
            delta = byte >> 1
            position += 2
        elif (second := data[position + 2]) < 0x80:
            delta = (byte & 0x7F | second << 7) >> 1
            position += 3
        else:
            delta, position = read_varint(data, position + 1)
        byte = data[position]
        if byte == NULL:
            position = end
            continue
        if byte < 0x80:
            position += 1
            key_end = position + (byte >> 1)
        else:
            length, position = read_varint(data, position)
            key_end = position + length
        if not position <= key_end < end:
            raise CorruptRecords(f"a key ends at {key_end} in a record that ends at {end}")
        newest[data[position:key_end]] = base_offset + delta
        position = end
    return position
