"""Reads a file of batches from start to end, in bounded memory, and checks each batch.

Journal segments and snapshots are such files. Every batch that is yielded is whole and has a valid
checksum. At the first other one the walk ends with `DamagedBatch`, which has the position. The
owner of the file then decides whether this is a torn tail or damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import File
from moldau.records.batch import HEADER_SIZE, BatchHeader, crc_ok, parse_header

_CHUNK_SIZE: Final = 1 << 20
"""Metadata batches are small: one read has thousands of them."""

BATCH_SIZE_MAX: Final = 64 << 20
"""Kafka's controller writes at most 8 MiB. A length far above is damaged."""


class DamagedBatch(CorruptRecords):
    """There is no whole batch at this position."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"no whole batch at position {position}: {reason}")
        self.position = position


_OFFSETS: Final = struct.Struct(">qi11xi")
"""Of a header: base offset, length, last offset delta."""

_LENGTH_END: Final = 12
"""A batch's length counts from here."""


class StoredBatch(NamedTuple):
    """One intact batch of a file."""

    position: int
    header: BatchHeader
    data: bytes


class BatchOffsets(NamedTuple):
    """The size of a batch, and its offsets."""

    size: int
    base_offset: int
    next_offset: int


def walk(file: File) -> Iterator[StoredBatch]:
    """Yield the batches of a file in order; DamagedBatch where they stop before its end."""
    size = file.size()
    chunk, chunk_position, position = b"", 0, 0
    while position < size:
        wanted = HEADER_SIZE
        while True:
            if position + wanted > size:
                raise DamagedBatch(position, f"{wanted} bytes needed, {size - position} left")
            if position + wanted > chunk_position + len(chunk):
                chunk, chunk_position = file.read(position, max(wanted, _CHUNK_SIZE)), position
            header = _header(chunk, position - chunk_position, position)
            if wanted >= header.size:
                break
            wanted = header.size
        start = position - chunk_position
        if not crc_ok(chunk, start, header.size):
            raise DamagedBatch(position, "its checksum differs")
        yield StoredBatch(position, header, chunk[start : start + header.size])
        position += header.size


def _header(chunk: bytes, start: int, position: int) -> BatchHeader:
    try:
        header = parse_header(chunk, start)
    except CorruptRecords as error:
        raise DamagedBatch(position, str(error)) from error
    if header.size > BATCH_SIZE_MAX:
        raise DamagedBatch(position, f"a length of {header.size} bytes")
    return header


def walk_offsets(file: File) -> Iterator[BatchOffsets]:
    """Yield the sizes and offsets of a file's batches, unchecked; DamagedBatch at a cut one."""
    size = file.size()
    chunk, chunk_position, position = b"", 0, 0
    while position < size:
        if position + HEADER_SIZE > size:
            raise DamagedBatch(position, f"{size - position} bytes left")
        if position + HEADER_SIZE > chunk_position + len(chunk):
            chunk, chunk_position = file.read(position, _CHUNK_SIZE), position
        base_offset, length, last_delta = _OFFSETS.unpack_from(chunk, position - chunk_position)
        batch_size = _LENGTH_END + length
        if batch_size < HEADER_SIZE or position + batch_size > size or last_delta < 0:
            raise DamagedBatch(position, f"a length of {batch_size} bytes")
        yield BatchOffsets(batch_size, base_offset, base_offset + last_delta + 1)
        position += batch_size


def intact_batch_follows(file: File, damage: DamagedBatch) -> bool:
    """Tell whether the batch after a damaged one is whole.

    If so, the damaged one was not cut off by a crash: it was on the disk and is damaged since.
    """
    head = file.read(damage.position, HEADER_SIZE)
    try:
        damaged = parse_header(head)
        position = damage.position + damaged.size
        following = parse_header(file.read(position, HEADER_SIZE))
        data = file.read(position, min(following.size, BATCH_SIZE_MAX))
        return len(data) == following.size and crc_ok(data, 0, following.size)
    except CorruptRecords:
        return False
