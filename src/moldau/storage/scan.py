"""Walking the batches of a `.log` file by their headers.

- `walk` trusts the file and reads only headers, for look-ups;
- `walk_checked` reads every byte and checks CRCs, for recovery;
- `walk_doubting` does the same and continues after a wrong CRC, for the scrub;
- `checked_headers` checks batches that came over the network.

All but the last also read messages of magic 0 and 1 in the folder of an old cluster. Such a message
has one offset, that of the last record inside, which is the one that a search needs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import File
from moldau.records.batch import (
    HEADER_SIZE,
    LENGTH_END,
    MAGIC,
    PEEK_SIZE,
    BatchHeader,
    crc_ok,
    iter_batches,
    parse_header,
    peek,
)
from moldau.records.checksum import crc32c

WALK_CHUNK = 8 * 1024
"""Two index intervals: a search from an index entry usually needs one read."""

CHECK_CHUNK = 1024 * 1024
"""Recovery reads everything; larger reads are not faster."""

_MAGIC_POSITION = 16
_OLD_TIMESTAMP = Struct(">q")
_OLD_TIMESTAMP_POSITION = 18
_CRC = Struct(">I")
_OFFSETS = Struct(">qi4xb6xi").unpack_from
"""Base offset, length, magic and last offset delta of a batch."""
_LENGTH_MIN = HEADER_SIZE - LENGTH_END


class StoredPlace(NamedTuple):
    """Position and size of a batch in a `.log`."""

    position: int
    size: int


class StoredBatch(NamedTuple):
    """One batch, or one message of an old format, in a `.log`."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    header: BatchHeader | None
    """None for the old formats."""

    @property
    def end_position(self) -> int:
        return self.position + self.size

    @property
    def leader_epoch(self) -> int:
        return -1 if self.header is None else self.header.leader_epoch


def walk(file: File, position: int, end_position: int) -> Iterator[StoredBatch]:
    """Yield the batches; stop at an incomplete one, raise CorruptRecords at garbage."""
    window = _Window(file, end_position, WALK_CHUNK)
    while end_position - position >= PEEK_SIZE:
        batch = _describe(window, position)
        if batch.end_position > end_position:
            return
        yield batch
        position = batch.end_position


def find_offset(file: File, position: int, end_position: int, offset: int) -> StoredPlace | None:
    """Find the first batch from a position on that ends at or after an offset.

    Every fetch starts with this. So it does not build the batches that `walk` yields, and it
    unpacks only four fields of a header.
    """
    content, start = b"", position
    while end_position - position >= HEADER_SIZE:
        at = position - start
        if at + HEADER_SIZE > len(content):
            content = file.read(position, min(WALK_CHUNK, end_position - position))
            start, at = position, 0
            if len(content) < HEADER_SIZE:
                break
        base_offset, length, magic, delta = _OFFSETS(content, at)
        if magic != MAGIC or length < _LENGTH_MIN or base_offset < 0 or delta < 0:
            break
        size = LENGTH_END + length
        if size > end_position - position:
            return None
        if base_offset + delta >= offset:
            return StoredPlace(position, size)
        position += size
    # `walk` handles old formats, garbage and the end of the file.
    for batch in walk(file, position, end_position):
        if batch.last_offset >= offset:
            return StoredPlace(batch.position, batch.size)
    return None


def walk_checked(
    file: File, position: int, end_position: int, *, check_from_offset: int
) -> Iterator[StoredBatch]:
    """Yield the batches, and check CRCs from this offset on.

    CorruptRecords describes the first bad batch. An incomplete batch is bad too.
    """
    doubted = walk_doubting(file, position, end_position, check_from_offset=check_from_offset)
    for batch, crc_matches in doubted:
        if not crc_matches:
            raise CorruptRecords("the CRC does not match")
        yield batch


class DoubtedBatch(NamedTuple):
    """A batch, and whether its CRC matches."""

    batch: StoredBatch
    crc_matches: bool


def walk_doubting(
    file: File, position: int, end_position: int, *, check_from_offset: int = 0
) -> Iterator[DoubtedBatch]:
    """Yield the batches with their CRC checks; CorruptRecords at garbage or an incomplete one."""
    window = _Window(file, end_position, CHECK_CHUNK)
    while position < end_position:
        if end_position - position < PEEK_SIZE:
            raise CorruptRecords(f"{end_position - position} bytes are no batch")
        batch = _describe(window, position)
        if batch.end_position > end_position:
            raise CorruptRecords(f"only {end_position - position} of {batch.size} bytes are there")
        trusted = batch.last_offset < check_from_offset
        yield DoubtedBatch(batch, trusted or _crc_matches(window, batch))
        position = batch.end_position


def checked_headers(view: memoryview, next_offset: int, latest_epoch: int) -> list[BatchHeader]:
    """Parse and check the headers of batches from a leader; CorruptRecords if one is bad.

    Each must match its CRC and start at or above the end of the one before; compaction may leave
    gaps. Leader epochs must not go down: a replica finds by them where two logs part. An incomplete
    last batch is ignored: a leader limits its answer by bytes.
    """
    headers = []
    for span in iter_batches(view, allow_cut=True):
        header = parse_header(view, span.position)
        if not crc_ok(view, span.position, span.size):
            raise CorruptRecords(f"the CRC at offset {header.base_offset} does not match")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise CorruptRecords(f"offset {header.base_offset} where {next_offset} is next")
        if header.leader_epoch < latest_epoch:
            raise CorruptRecords(
                f"leader epoch {header.leader_epoch} at offset {header.base_offset},"
                f" after epoch {latest_epoch}"
            )
        headers.append(header)
        next_offset, latest_epoch = header.next_offset, header.leader_epoch
    return headers


class _Window:
    """A part of a file in memory that moves along with the walk."""

    __slots__ = ("_chunk_size", "_end_position", "_file", "_start", "content")

    def __init__(self, file: File, end_position: int, chunk_size: int) -> None:
        self._file = file
        self._end_position = end_position
        self._chunk_size = chunk_size
        self._start = 0
        self.content = b""

    def seek(self, position: int, size: int) -> int:
        """Return the index of a position in `content`, with this many bytes loaded after it.

        Fewer bytes are loaded at the end of the file.
        """
        at = position - self._start
        if at + size > len(self.content):
            wanted = min(max(size, self._chunk_size), self._end_position - position)
            self.content = self._file.read(position, wanted)
            self._start = position
            at = 0
        return at

    def pieces(self, position: int, end_position: int) -> Iterator[memoryview]:
        """Yield a range in pieces, none larger than a chunk."""
        while position < end_position:
            at = self.seek(position, 1)
            piece = memoryview(self.content)[at : at + end_position - position]
            if not piece:
                raise CorruptRecords("the file became shorter while it was read")
            yield piece
            position += len(piece)


def _describe(window: _Window, position: int) -> StoredBatch:
    at = window.seek(position, HEADER_SIZE)
    content = window.content
    if len(content) - at > _MAGIC_POSITION and content[at + _MAGIC_POSITION] == MAGIC:
        header = parse_header(content, at)
        last_offset = header.last_offset
        if header.base_offset < 0 or header.last_offset_delta < 0:
            raise CorruptRecords(f"offsets {header.base_offset} to {last_offset} in one batch")
        return StoredBatch(
            position, header.size, header.base_offset, last_offset, header.max_timestamp, header
        )
    offset, size, magic = peek(content, at)
    timestamp = -1
    if magic == 1 and len(content) - at >= _OLD_TIMESTAMP_POSITION + _OLD_TIMESTAMP.size:
        (timestamp,) = _OLD_TIMESTAMP.unpack_from(content, at + _OLD_TIMESTAMP_POSITION)
    return StoredBatch(position, size, offset, offset, timestamp, None)


def _crc_matches(window: _Window, batch: StoredBatch) -> bool:
    """Check the CRC piece by piece: a wrong length must not allocate all memory."""
    if batch.header is not None:
        stored, checked_from = batch.header.crc, 21
        update: Callable[[memoryview, int], int] = crc32c
    else:
        at = window.seek(batch.position, PEEK_SIZE)
        (stored,) = _CRC.unpack_from(window.content, at + 12)
        checked_from = 16
        update = zlib.crc32
    computed = 0
    for piece in window.pieces(batch.position + checked_from, batch.end_position):
        computed = update(piece, computed)
    return bool(computed == stored)
