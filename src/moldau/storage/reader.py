"""Reading a log: which region of which file a fetch returns.

`Log` owns the segments and calls these functions, which change nothing. A read stays within one
segment, as in Kafka; the next fetch continues. A region is a part of a file that is not read here,
so that `sendfile` can send it without a copy through Python.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.base.files import FileRegion
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.segment import Segment
from moldau.storage.segments import Segments


class ReadResult(NamedTuple):
    """The result of a read: nothing, or one region that starts at the batch with the offset."""

    regions: tuple[FileRegion, ...]
    size: int
    first_batch_cut: bool
    """The first batch is incomplete: it exceeds the limit, and `at_least_one` was false."""
    segment_base_offset: int


def read_segments(
    segments: Segments,
    offset: int,
    max_bytes: int,
    end_offset: int,
    log_end_offset: int,
    *,
    at_least_one: bool,
) -> ReadResult:
    """Return the region from the batch with an offset, below `end_offset`; see `Log.read`."""
    number = segments.number_of(offset)
    while offset < end_offset and number < len(segments.all):
        segment = segments.all[number]
        position = segment.position_of(offset)
        if position is not None:
            end_position = _end_position(segments, number, end_offset, log_end_offset)
            return _read_segment(
                segment, position, end_position, max_bytes, at_least_one=at_least_one
            )
        # Compaction may have removed all batches from the offset to the end of the segment.
        number += 1
    return ReadResult((), 0, False, segments.all[-1].base_offset)


def _end_position(segments: Segments, number: int, end_offset: int, log_end_offset: int) -> int:
    """Return where the batch with `end_offset` starts, else the end of the segment."""
    segment = segments.all[number]
    if end_offset >= segments.end_of(number, log_end_offset):
        return segment.size
    position = segment.position_of(end_offset)
    return segment.size if position is None else position


def _read_segment(
    segment: Segment, position: int, end_position: int, max_bytes: int, *, at_least_one: bool
) -> ReadResult:
    """Return the region from a batch up to the limits; the last batch may be incomplete.

    The size of the first batch is read only if the region exceeds the limit.
    """
    size = end_position - position
    cut = False
    if size > max_bytes:
        first_size = segment.batch_size(position)
        cut = max_bytes < first_size and not at_least_one
        size = max_bytes if max_bytes >= first_size or cut else first_size
    if size <= 0:
        return ReadResult((), 0, cut, segment.base_offset)
    region = FileRegion(segment.handle(), position, size)
    return ReadResult((region,), size, cut, segment.base_offset)


def aborted_in(
    segments: Segments, offset: int, read: ReadResult, log_end_offset: int
) -> tuple[AbortedTransaction, ...]:
    """List the aborted transactions with records in the result of a read from an offset."""
    base_offset = read.segment_base_offset
    if not read.regions or not segments.has_aborted_from(base_offset):
        return ()
    number = segments.number_of(base_offset)
    end_offset = _offset_behind(segments.all[number], read.regions[0])
    if end_offset is None:
        end_offset = segments.end_of(number, log_end_offset)
    return _aborted_between(segments, base_offset, offset, end_offset, log_end_offset)


def _aborted_between(
    segments: Segments, base_offset: int, start_offset: int, end_offset: int, log_end_offset: int
) -> tuple[AbortedTransaction, ...]:
    """List the aborted transactions with records in [start, end).

    A marker comes after its records, so the search starts in the segment of the start offset. It
    ends at the first entry whose last stable offset is at or above the end: later entries have no
    records below it.
    """
    found = []
    for number in segments.aborting_from(base_offset):
        aborted = segments.all[number].aborted(segments.end_of(number, log_end_offset))
        for entry in aborted.ending_from(start_offset):
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return tuple(found)
    return tuple(found)


def _offset_behind(segment: Segment, region: FileRegion) -> int | None:
    """Return an offset at or after the end of a region; None if the index has none."""
    return segment.indexes().offsets.ceiling(region.position + region.size)
