"""Loading the indexes of a segment from their files, or rebuilding them from its batches.

In steps, because both take long: a segment of a gigabyte has five megabytes of indexes, or a
million headers to rebuild them from. A look-up in a closed segment runs all steps at once; a
truncation, which makes a closed segment the active one again, is prepared in steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import Final, Protocol, TypeVar

from moldau.base.errors import CorruptRecords
from moldau.base.files import Files
from moldau.storage.index_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from moldau.storage.indexes import OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE, OffsetIndex, TimeIndex
from moldau.storage.scan import StoredBatch
from moldau.storage.tail import Tail
from moldau.storage.topic_config import LogConfig

T = TypeVar("T")

PIECE_BYTES: Final = OFFSET_ENTRY_SIZE * TIME_ENTRY_SIZE * 2048
"""Read from an index file in one step, 192 KiB: whole entries of either kind."""

BATCHES_PER_STEP: Final = 250
"""Headers that are read in one step: a millisecond or two."""


class IndexedSegment(Protocol):
    """A segment as far as its indexes depend on it."""

    @property
    def stem(self) -> str: ...

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def config(self) -> LogConfig: ...

    def batches(self) -> Iterator[StoredBatch]: ...


def load_tail(files: Files, segment: IndexedSegment) -> Generator[None, None, Tail]:
    """Load the indexes, or rebuild them if their files are missing or damaged."""
    tail = yield from stored_tail(files, segment)
    return tail if tail is not None else (yield from rebuilt_tail(segment))


def stored_tail(files: Files, segment: IndexedSegment) -> Generator[None, None, Tail | None]:
    """Load the index files; None if they are missing or do not fit the `.log`."""
    offsets, times = OffsetIndex(segment.base_offset), TimeIndex(segment.base_offset)
    try:
        for piece in _pieces(files, segment.stem + INDEX_SUFFIX):
            offsets.extend(piece)
            yield
        offsets.check(segment.size)
        for piece in _pieces(files, segment.stem + TIME_INDEX_SUFFIX):
            times.extend(piece)
            yield
        times.check()
    except (FileNotFoundError, CorruptRecords):
        return None
    # Index files are created empty and filled when the segment closes. An empty one beside a
    # filled `.log` was never stored, except in the rare logs without any timestamp.
    lost = segment.size and not len(times)
    lost = lost or (segment.size > segment.config.index_interval_bytes and not len(offsets))
    return None if lost else Tail(offsets, times)


def rebuilt_tail(segment: IndexedSegment) -> Generator[None, None, Tail]:
    """Rebuild the indexes from the batch headers, up to the first damaged one."""
    tail = Tail.empty(segment.base_offset)
    interval = segment.config.index_interval_bytes
    with contextlib.suppress(CorruptRecords):
        for count, batch in enumerate(segment.batches(), 1):
            tail.note(
                batch.position, batch.base_offset, batch.last_offset, batch.max_timestamp, interval
            )
            if not count % BATCHES_PER_STEP:
                yield
    return tail


def at_once(steps: Generator[None, None, T]) -> T:
    """Take all steps here and now; return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


def _pieces(files: Files, path: str) -> Iterator[bytes]:
    file = files.open(path)
    try:
        for position in range(0, file.size(), PIECE_BYTES):
            yield file.read(position, PIECE_BYTES)
    finally:
        file.close()
