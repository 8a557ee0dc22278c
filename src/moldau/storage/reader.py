"""Reading a log: which region of which file answers a fetch.

`Log` owns the segments and asks these functions; they change nothing. A read stays within one
segment, as in Kafka: what follows is asked for with the next fetch. Regions are bytes of a file
not yet read, so that they can go to a socket without passing through Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from moldau.base.files import FileRegion
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.segment import Segment


class HoldsAborted(Protocol):
    """A segment, as far as its aborted transactions are concerned."""

    def aborted(self) -> list[AbortedTransaction]:
        """List those whose markers lie here."""
        ...


class ReadResult(NamedTuple):
    """What a read found: nothing, or one region that starts at the batch with the offset."""

    regions: tuple[FileRegion, ...]
    size: int
    first_batch_cut: bool
    """The limit was too small for one batch and the caller did not ask for a whole one."""
    segment_base_offset: int


def read_segment(
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


def aborted_between(
    segments: Iterable[HoldsAborted], start_offset: int, end_offset: int
) -> tuple[AbortedTransaction, ...]:
    """List the aborted transactions that have records in [start, end).

    A marker comes after its records, so the search begins in the segment of the start and may
    end as soon as an entry shows that everything before the end was decided.
    """
    found = []
    for segment in segments:
        for entry in segment.aborted():
            if entry.last_offset >= start_offset and entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return tuple(found)
    return tuple(found)


def aborted_in(
    segments: Sequence[Segment], offset: int, read: ReadResult, log_end_offset: int
) -> tuple[AbortedTransaction, ...]:
    """List the aborted transactions with records in what was read; its segment is the first."""
    if not any(segment.aborted() for segment in segments):
        return ()
    end_offset = _offset_behind(segments[0], read)
    if end_offset is None:
        end_offset = segments[1].base_offset if len(segments) > 1 else log_end_offset
    return aborted_between(segments, offset, end_offset)


def _offset_behind(segment: Segment, read: ReadResult) -> int | None:
    """Name an offset not before the end of what was read; None if only the segment's end is."""
    if not read.regions:
        return segment.base_offset
    region = read.regions[0]
    return segment.indexes().offsets.ceiling(region.position + region.size)
