"""Reading segments for a cleaning: batch by batch, in large chunks, by path.

The log of these files is in use in another process. Closed segments do not change, but they may be
deleted: an OSError follows, and the broker has called the cleaning off by then. The `.txnindex` of
the active segment still grows, and its last entry may be incomplete. That is harmless: every
transaction that matters here was complete before the cleaning started.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import File, Files
from moldau.records.batch import HEADER_SIZE, MAGIC, PEEK_SIZE, BatchSpan, parse_header, peek
from moldau.storage.compaction.batches import Source
from moldau.storage.indexes import ABORTED_ENTRY_SIZE, AbortedIndex, AbortedTransaction
from moldau.storage.segment import LOG_SUFFIX, file_stem
from moldau.storage.topic_config import LONG_MAX
from moldau.storage.transaction_index import (
    EMPTY,
    TRANSACTION_INDEX_SUFFIX,
    DamagedTransactionIndex,
)

ABORTED_CHUNK: Final = 4096 * ABORTED_ENTRY_SIZE
"""Bytes of a `.txnindex` to read at a time; the file may be large."""

_MAGIC_POSITION: Final = PEEK_SIZE - 1


class OldMessages(NamedTuple):
    """A message of magic 0 or 1 in the bytes that were read; if compressed, it wraps others."""

    data: bytes
    span: BatchSpan

    @property
    def content(self) -> bytes:
        """A copy of the bytes of this message."""
        return self.data[self.span.position : self.span.position + self.span.size]


class SegmentFiles(NamedTuple):
    """A segment by its files; it can be pickled."""

    folder: str
    base_offset: int
    size: int
    has_aborted: bool = False
    """Whether there is a `.txnindex`."""

    @property
    def stem(self) -> str:
        return f"{self.folder}/{file_stem(self.base_offset)}"


class SegmentReader:
    """Reads the segments of one log."""

    def __init__(self, files: Files, segments: Sequence[SegmentFiles], chunk_size: int) -> None:
        self._files = files
        self._segments = segments
        self._chunk_size = max(chunk_size, HEADER_SIZE)

    def batches(
        self, segment: SegmentFiles, start_offset: int = 0
    ) -> Iterator[Source | OldMessages]:
        """Yield the batches that end at or after an offset."""
        with closing(self._files.open(segment.stem + LOG_SUFFIX)) as file:
            for source in _walk(file, segment.size, self._chunk_size):
                last = (
                    source.header.last_offset
                    if isinstance(source, Source)
                    else source.span.base_offset
                )
                if last >= start_offset:
                    yield source

    def aborted(self, start_offset: int = 0) -> Iterator[AbortedTransaction]:
        """Yield the aborted transactions that end at or after an offset, in marker order.

        Earlier ones must be left out: a reader that starts at the offset never meets their
        markers, and would take the next batches of these producers for aborted ones.
        """
        for segment, following in zip_longest(self._segments, self._segments[1:]):
            if not segment.has_aborted or (following and following.base_offset <= start_offset):
                continue
            path = segment.stem + TRANSACTION_INDEX_SUFFIX
            end_offset = None if following is None else following.base_offset
            with closing(self._files.open(path)) as file:
                try:
                    for chunk in _aborted_chunks(file, segment.base_offset, end_offset):
                        yield from chunk.ending_from(start_offset)
                except CorruptRecords as error:
                    raise DamagedTransactionIndex(path, segment.base_offset, str(error)) from error


def _aborted_chunks(file: File, base_offset: int, end_offset: int | None) -> Iterator[AbortedIndex]:
    """Read and check a `.txnindex` in chunks.

    Without `end_offset` the segment is the active one, and the last entry may be incomplete.
    """
    if end_offset is not None and not file.size():
        raise CorruptRecords(EMPTY)
    position = 0
    while content := file.read(position, ABORTED_CHUNK):
        half = len(content) % ABORTED_ENTRY_SIZE
        if half and end_offset is None:
            content = content[:-half]
        index = AbortedIndex.decode(content)
        index.check(base_offset, LONG_MAX if end_offset is None else end_offset)
        yield index
        if half:
            return
        position += len(content)
        base_offset = index[len(index) - 1].last_offset + 1


def _walk(file: File, end_position: int, chunk_size: int) -> Iterator[Source | OldMessages]:
    """Yield the batches; one that is larger than a chunk is read in one piece."""
    position, wanted = 0, chunk_size
    while position < end_position:
        left = end_position - position
        data = file.read(position, min(wanted, left))
        source, size = _source_at(data, 0)
        if source is None and (size > left or len(data) < min(wanted, left)):
            raise CorruptRecords(f"{file.path}: no whole batch at {position}")
        at = 0
        while source is not None:
            yield source
            at += size
            source, size = _source_at(data, at)
        # Read the header after a large batch too: it has the size of the next one.
        wanted = max(size + HEADER_SIZE, chunk_size)
        position += at


def _source_at(data: bytes, at: int) -> tuple[Source | OldMessages | None, int]:
    """Return the batch at an index, None if it is incomplete, and its size."""
    left = len(data) - at
    if left < HEADER_SIZE:
        if left < PEEK_SIZE:
            return None, HEADER_SIZE
    elif data[at + _MAGIC_POSITION] == MAGIC:
        header = parse_header(data, at)
        if header.last_offset_delta < 0 or header.base_offset < 0:
            raise CorruptRecords(f"no batch goes from {header.base_offset} to less")
        return Source(data, at, header) if header.size <= left else None, header.size
    offset, size, magic = peek(data, at)
    whole = size <= left and magic != MAGIC
    return OldMessages(data, BatchSpan(at, size, offset, magic)) if whole else None, size
