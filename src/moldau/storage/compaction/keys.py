"""Where each key was written last, in a part of a log: the first of the two passes of a cleaning.

Keys are kept as they are, not as hashes: a number would take as much memory as most keys do, and so
two keys never get in each other's way. Memory is bounded all the same: the cleaning ends with the
batch at which the map is full, and the next one goes on behind it.

This is where a cleaning spends most of its time: in looking keys up, which lie where no cache holds
them, and before that in finding them. Hence two readers: `scan.plain_keys` takes a record in two
thirds of the time of `note_keys`, which takes any, and its keys come into the map by one call.
"""

from __future__ import annotations

from itertools import islice
from struct import error as StructError  # noqa: N812 - a class, whatever its name
from typing import Final

from moldau.base.errors import CorruptRecords
from moldau.records.varint import read_varint
from moldau.storage.compaction.scan import plain_keys

ENTRY_OVERHEAD: Final = 140
"""Bytes an entry costs besides its key's: the heads of two objects and its part of the table, which
together were measured at 100 to 130, and its offset once more when they are put in order."""

SLOW_STRETCH: Final = 32
"""Records read number by number where plain ones end. Expecting them to begin again costs as much
as three or four, and in some batches no two are alike."""

NULL: Final = 1
"""The length of a key or value that is not there, as one byte of varint."""


class KeyOffsets:
    """The newest offset of every key seen, bounded by bytes."""

    __slots__ = ("_capacity_bytes", "newest", "size")

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self.newest: dict[bytes, int] = {}
        self.size = 0
        """Bytes this takes, as good as can be told."""

    @property
    def full(self) -> bool:
        return self.size >= self._capacity_bytes

    def note_records(
        self, data: bytes, position: int, end: int, count: int, base_offset: int
    ) -> None:
        """Take the keys of a batch's uncompressed records.

        A batch is taken whole, so that a cleaning gets on even with one that fills the map alone.
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
        """Take one key."""
        known_count = len(self.newest)
        self.newest[key] = offset
        self._grown(known_count)

    def _grown(self, known_count: int) -> None:
        """Account for the keys that were not known before; they are the last in the table."""
        new_count = len(self.newest) - known_count
        if new_count:
            added = islice(reversed(self.newest), new_count)
            self.size += new_count * ENTRY_OVERHEAD + sum(map(len, added))


def _note_keys(
    newest: dict[bytes, int], data: bytes, position: int, count: int, base_offset: int
) -> int:
    """Note all keys, by whichever way fits; return where the last record ends."""
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
    """Write down the offset of each record under its key; return where the last one ends.

    IndexError if the data ends before, CorruptRecords if a key does not fit into its record.
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
