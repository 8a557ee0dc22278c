"""Reading a log: which region of which file answers a fetch.

`Log` owns the segments and asks these functions; they change nothing. A read stays within one
segment, as in Kafka: what follows is asked for with the next fetch. Regions are bytes of a file
not yet read, so that they can go to a socket without passing through Python.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.base.files import FileRegion
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.segment import Segment
from moldau.storage.segments import Segments


class ReadResult(NamedTuple):
    """What a read found: nothing, or one region that starts at the batch with the offset."""

    regions: tuple[FileRegion, ...]
    size: int
    first_batch_cut: bool
    """The limit was too small for one batch and the caller did not ask for a whole one."""
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
    """Make the region from the batch that holds an offset, below `end_offset`; see `Log.read`."""
    number = segments.number_of(offset)
    while offset < end_offset and number < len(segments.all):
        segment = segments.all[number]
        position = segment.position_of(offset)
        if position is not None:
            end_position = _end_position(segments, number, end_offset, log_end_offset)
            return _read_segment(
                segment, position, end_position, max_bytes, at_least_one=at_least_one
            )
        # Compaction may leave nothing between an offset and its segment's end.
        number += 1
    return ReadResult((), 0, False, segments.all[-1].base_offset)


def _end_position(segments: Segments, number: int, end_offset: int, log_end_offset: int) -> int:
    """Find where the batch at `end_offset` starts, if it is in this segment."""
    segment = segments.all[number]
    if end_offset >= segments.end_of(number, log_end_offset):
        return segment.size
    position = segment.position_of(end_offset)
    return segment.size if position is None else position


def _read_segment(
    segment: Segment, position: int, end_position: int, max_bytes: int, *, at_least_one: bool
) -> ReadResult:
    """Make the region from a batch's start up to the limits; the last batch may be cut.

    The first batch's size is looked up only if the limit might fall into it.
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
    """List the aborted transactions with records in what was read from an offset on."""
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
    """List the aborted transactions that have records in [start, end).

    A marker comes after its records, so the search begins in the segment of the start and may
    end as soon as an entry shows that everything before the end was decided.
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
    """Name an offset not before the end of what was read; None if only the segment's end is."""
    return segment.indexes().offsets.ceiling(region.position + region.size)
