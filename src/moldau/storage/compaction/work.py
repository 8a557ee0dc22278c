"""A whole cleaning: two passes over files, in a worker process.

The first pass reads the dirty part and collects the newest offset of every key. It ends with the
dirty part, or when the memory for keys is full. The second pass reads the log from its start up to
that offset. For each group of segments it writes one new segment with the records to keep.

A cleaning runs in steps, so that the broker can throttle it, call it off, and swap in each group as
soon as it is complete. So at most one group is on the disk twice.

Between two steps the worker keeps the state under a token. If the worker dies, the broker starts
again. Cleaning a segment twice is harmless.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords, MoldauError
from moldau.base.files import Files
from moldau.records.batch import BatchHeader, crc_ok
from moldau.records.legacy import message_set, read_message, unwrapped
from moldau.storage.compaction.batches import (
    NO_OFFSET,
    Kept,
    Source,
    clean_control,
    clean_data,
    emptied,
    inflated,
)
from moldau.storage.compaction.choice import group_segments
from moldau.storage.compaction.keys import KeyOffsets
from moldau.storage.compaction.output import CleanedSegment
from moldau.storage.compaction.source import OldMessages, SegmentFiles, SegmentReader
from moldau.storage.compaction.transactions import CleanedTransactions
from moldau.storage.indexes import NO_TIMESTAMP

UNDER_WAY_MAX: Final = 8
"""At most so many cleanings are kept between steps. A broker has one. A simulation has several
brokers, and a killed one does not call `give_up`."""


class CleaningLost(MoldauError):  # noqa: N818 - it names the event
    """The worker has lost this cleaning; it may be started again."""


class LastBatch(NamedTuple):
    """The last batch of a producer; it must stay, so that a replay finds its sequence."""

    offset: int
    """Of its last record; -1 if it has no batch in its current epoch."""
    epoch: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The input of a cleaning; it can be pickled."""

    files: Files
    token: str
    segments: tuple[SegmentFiles, ...]
    """All segments, with the active one: an ABORT marker may be far after its records."""
    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that must not be touched."""
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: Mapping[int, LastBatch]
    key_bytes: int
    """The memory for keys."""
    chunk_bytes: int
    """How much to read at a time."""


@dataclass(slots=True)
class CleaningOutcome:
    """The result of a cleaning."""

    end_offset: int
    """Everything below it is clean."""
    key_count: int
    key_bytes_used: int
    indexed_bytes: int = 0
    read_bytes: int = 0
    read_records: int = 0
    written_bytes: int = 0
    written_records: int = 0


class CleanedGroup(NamedTuple):
    """A new segment that is ready for the swap, and the segments that it replaces."""

    base_offsets: tuple[int, ...]
    size: int
    has_aborted: bool
    """Whether it has a `.txnindex`."""


class Step(NamedTuple):
    """The result of one step."""

    moved_bytes: int
    """Bytes read and written, for the throttle."""
    group: CleanedGroup | None = None
    """The broker must swap it in before the next step."""
    outcome: CleaningOutcome | None = None
    """Set in the last step."""


# Called by the broker, run in the worker

_under_way: dict[str, Iterator[Step]] = {}


def begin(plan: CleaningPlan, budget_bytes: int) -> Step:
    """Start a cleaning and run its first step. For `Executor.compute`."""
    while len(_under_way) >= UNDER_WAY_MAX:
        del _under_way[next(iter(_under_way))]
    _under_way[plan.token] = _Cleaning(plan).steps()
    return go_on(plan.token, budget_bytes)


def go_on(token: str, budget_bytes: int) -> Step:
    """Continue until the budget is used, a group is complete, or the cleaning ends."""
    steps = _under_way.pop(token, None)
    if steps is None:
        raise CleaningLost("the worker that cleaned was lost")
    moved_bytes = 0
    while True:
        step = next(steps)
        moved_bytes += step.moved_bytes
        if step.outcome is not None:
            return step._replace(moved_bytes=moved_bytes)
        if step.group is not None or moved_bytes >= budget_bytes:
            _under_way[token] = steps
            return step._replace(moved_bytes=moved_bytes)


def give_up(token: str) -> None:
    """Drop a cleaning and the memory of its keys."""
    _under_way.pop(token, None)


class _Cleaning:
    """One cleaning of one log."""

    def __init__(self, plan: CleaningPlan) -> None:
        self._plan = plan
        self._reader = SegmentReader(plan.files, plan.segments, plan.chunk_bytes)
        self._keys = KeyOffsets(plan.key_bytes)
        self._newest_offsets = array("q")
        """The offsets of the newest records in the dirty part, sorted."""
        self._transactions = CleanedTransactions(self._reader.aborted())
        self._moved_bytes = 0
        self._group_end = 0
        """Where the current group ends and the next segment starts."""
        self._outcome = CleaningOutcome(plan.first_dirty_offset, 0, 0)
        bases = [segment.base_offset for segment in plan.segments]
        self._behind = dict(pairwise(bases))
        """The base offset of the next segment, by base offset."""

    def steps(self) -> Iterator[Step]:
        """Run both passes, with a pause about every chunk."""
        yield from self._index()
        outcome, newest = self._outcome, self._keys.newest
        outcome.key_count, outcome.key_bytes_used = len(newest), self._keys.size
        self._newest_offsets = array("q", sorted(newest.values()))
        # Only below the end of the first pass is the newest offset of every key known.
        segments = [one for one in self._plan.segments if one.base_offset < outcome.end_offset]
        groups = group_segments(
            self._plan.files,
            segments,
            self._plan.end_offset,
            segment_bytes=self._plan.segment_bytes,
            index_bytes=self._plan.segment_index_bytes,
        )
        for group in groups:
            yield from self._clean(group)
        yield Step(self._take_moved(), outcome=outcome)

    def _paused(self, size: int) -> bool:
        """Count moved bytes; return whether it is time for a pause."""
        self._moved_bytes += size
        return self._moved_bytes >= self._plan.chunk_bytes

    def _take_moved(self) -> int:
        moved, self._moved_bytes = self._moved_bytes, 0
        return moved

    # The first pass

    def _index(self) -> Iterator[Step]:
        """Collect the keys of the dirty part, and set the end offset of the cleaning."""
        start, end = self._plan.first_dirty_offset, self._plan.end_offset
        transactions = CleanedTransactions(self._reader.aborted(start))
        for segment in self._plan.segments:
            if segment.base_offset >= end:
                return
            behind = self._behind[segment.base_offset]
            if behind <= start:
                continue
            for source in self._reader.batches(segment, start):
                size, next_offset = self._index_source(source, transactions)
                self._outcome.indexed_bytes += size
                self._outcome.end_offset = next_offset
                if self._keys.full:
                    return
                if self._paused(size):
                    yield Step(self._take_moved())
            self._outcome.end_offset = behind

    def _index_source(
        self, source: Source | OldMessages, transactions: CleanedTransactions
    ) -> tuple[int, int]:
        """Add the keys of a batch; return its size and the offset after it."""
        if isinstance(source, OldMessages):
            for record in unwrapped(read_message(source.data, source.span)):
                if record.key is not None:
                    self._keys.note(record.key, record.offset)
            return source.span.size, source.span.base_offset + 1
        header = source.header
        if not crc_ok(source.data, source.position, header.size):
            raise CorruptRecords(f"the batch at offset {header.base_offset} does not match its CRC")
        if header.control:
            transactions.pass_control(header, source.content)
        elif not transactions.pass_data(header):
            payload, position, end = inflated(source)
            self._keys.note_records(payload, position, end, header.count, header.base_offset)
        return header.size, header.next_offset

    # The second pass

    def _clean(self, group: list[SegmentFiles]) -> Iterator[Step]:
        """Write the records to keep of a group of segments into one segment."""
        plan, outcome = self._plan, self._outcome
        first = group[0]
        cleaned = CleanedSegment(
            plan.files, first.folder, first.base_offset, plan.index_interval_bytes
        )
        self._group_end = self._behind[group[-1].base_offset]
        for segment in group:
            for source in self._reader.batches(segment):
                written_bytes = cleaned.size
                if isinstance(source, Source):
                    size = source.header.size
                    self._clean_batch(source, cleaned)
                else:
                    size = source.span.size
                    self._clean_old(source, cleaned)
                outcome.read_bytes += size
                if self._paused(size + cleaned.size - written_bytes):
                    yield Step(self._take_moved())
        aborted = self._transactions.take_kept()
        cleaned.finish(aborted)
        outcome.written_bytes += cleaned.size
        bases = tuple(one.base_offset for one in group)
        done = CleanedGroup(bases, cleaned.size, has_aborted=aborted.size > 0)
        yield Step(self._take_moved(), done)

    def _clean_batch(self, source: Source, cleaned: CleanedSegment) -> None:
        header = source.header
        kept = self._kept_of(source)
        if kept is None and self._must_stay(header):
            kept = emptied(source)
        self._outcome.read_records += header.count
        if kept is not None:
            self._outcome.written_records += kept.record_count
            cleaned.add(kept.header, kept.content)

    def _kept_of(self, source: Source) -> Kept | None:
        header, plan = source.header, self._plan
        if header.control:
            discardable = self._transactions.pass_control(header, source.content)
            return clean_control(
                source, plan.now_ms, plan.delete_retention_ms, discardable=discardable
            )
        if self._transactions.pass_data(header):
            return None
        if header.base_offset >= self._outcome.end_offset:
            return Kept(header, source.content, header.count)
        staying = None
        if header.base_offset >= plan.first_dirty_offset:
            staying = self._newest_in(header)
            if not staying:
                return None
        return clean_data(
            source, self._keys.newest, plan.now_ms, plan.delete_retention_ms, staying=staying
        )

    def _newest_in(self, header: BatchHeader) -> array[int]:
        """Return the newest offsets in a dirty batch: most batches need not be parsed again."""
        offsets = self._newest_offsets
        first = bisect_left(offsets, header.base_offset)
        return offsets[first : bisect_left(offsets, header.next_offset, first)]

    def _must_stay(self, header: BatchHeader) -> bool:
        """Return whether a batch must stay even without records.

        The last batch of a producer has its sequence and epoch. The last batch of a group shows
        that the segment is complete up to the next one: without it, recovery could not tell a
        cleaned segment from one that lost its end in a power cut. Kafka does not check for such
        gaps, and keeps only the last batch of the last group.
        """
        if header.next_offset == self._group_end:
            return True
        last = self._plan.producers.get(header.producer_id)
        if last is None or header.producer_id < 0:
            return False
        if last.offset != NO_OFFSET:
            return header.last_offset == last.offset
        return header.control and header.producer_epoch == last.epoch

    def _clean_old(self, source: OldMessages, cleaned: CleanedSegment) -> None:
        """Keep the newest records of an old message in their format.

        Tombstones stay: these formats have no field for a delete horizon.
        """
        newest = self._keys.newest
        message = read_message(source.data, source.span)
        records = unwrapped(message)
        kept = [
            record
            for record in records
            if record.key is not None and newest.get(record.key, NO_OFFSET) <= record.offset
        ]
        self._outcome.read_records += len(records)
        self._outcome.written_records += len(kept)
        if not kept:
            return
        content = source.content
        if len(kept) < len(records):
            content = message_set(
                kept, message.magic, message.codec, timestamp_type=message.timestamp_type
            )
        last_offset = kept[-1].offset
        newest_ms = max(record.timestamp for record in kept) if message.magic else NO_TIMESTAMP
        cleaned.add_span(last_offset, last_offset, newest_ms, content)
