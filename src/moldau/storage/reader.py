"""Reading a log: which region of which file answers a fetch, and look-ups by time.

`Log` owns the segments and asks these functions; they change nothing. A read stays within one
segment, as in Kafka: what follows is asked for with the next fetch. Regions are bytes of a file
not yet read, so that they can go to a socket without passing through Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from moldau.base.files import FileRegion
from moldau.records.batch import iter_batches
from moldau.records.legacy import read_message, unwrapped
from moldau.records.record import Record, read_records
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.scan import StoredBatch
from moldau.storage.segment import Segment


class ReadResult(NamedTuple):
    """What a read found: nothing, or one region that starts at the batch with the offset."""

    regions: tuple[FileRegion, ...]
    size: int
    first_batch_cut: bool
    """The limit was too small for one batch and the caller did not ask for a whole one."""
    segment_base_offset: int


class TimestampOffset(NamedTuple):
    """A record found by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


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


def first_since(
    segments: Iterable[Segment], timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """Find the first record at or behind an offset that is not older than this timestamp.

    First the segment by its largest timestamp, then the batch by index and headers, and only
    then the records of that one batch.
    """
    for segment in segments:
        if segment.largest().timestamp < timestamp:
            continue
        indexes = segment.indexes()
        known_older = indexes.times.floor(timestamp - 1).offset
        start = indexes.offsets.floor(max(known_older, start_offset)).position
        for batch in segment.batches(start):
            if batch.max_timestamp < timestamp or batch.last_offset < start_offset:
                continue
            for record in _records(segment, batch):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return TimestampOffset(record.timestamp, record.offset, batch.leader_epoch)
    return None


def newest(segments: Sequence[Segment], start_offset: int) -> TimestampOffset | None:
    """Find the record with the largest timestamp of all, the first of them if there are several.

    None when the log is empty, or no record has a timestamp.
    """
    largest = max((_largest_since(segment, start_offset) for segment in segments), default=-1)
    return first_since(segments, largest, start_offset) if largest >= 0 else None


def _largest_since(segment: Segment, start_offset: int) -> int:
    """Say what the largest timestamp is from an offset on; only the first segment holds others."""
    if start_offset <= segment.base_offset:
        return segment.largest().timestamp
    largest = -1
    first = segment.batch_holding(start_offset)
    for batch in () if first is None else segment.batches(first.position):
        if batch.base_offset < start_offset and batch.max_timestamp > largest:
            records = _records(segment, batch)
            stamps = [record.timestamp for record in records if record.offset >= start_offset]
            largest = max(largest, *stamps)
        else:
            largest = max(largest, batch.max_timestamp)
    return largest


def aborted_between(
    segments: Iterable[Segment], start_offset: int, end_offset: int
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


def offset_behind(segment: Segment, read: ReadResult) -> int | None:
    """Name an offset not before the end of what was read; None if only the segment's end is."""
    if not read.regions:
        return segment.base_offset
    region = read.regions[0]
    return segment.indexes().offsets.ceiling(region.position + region.size)


def _records(segment: Segment, batch: StoredBatch) -> Iterable[Record]:
    content = segment.handle().read(batch.position, batch.size)
    if batch.header is not None:
        return read_records(content)
    return unwrapped(read_message(content, next(iter_batches(content))))
