"""A cleaning, from first to last: two passes over files, in a process that does nothing else.

The first pass goes over the dirty part and remembers where each key was written last; it ends with
that part, or when there is no more room for keys. The second goes over the log from its start up to
there, group by group, and writes for each group of segments one that holds what is still the
newest. The work is done in steps, so that the broker can throttle it, call it off, and swap each
group in as soon as it is there: no more than one group lies on the disk twice.

Between two steps the work stays here, under its token. A worker that was lost loses it, and the
broker begins again; nothing that was swapped in meanwhile is the worse for being cleaned twice.
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
"""Cleanings kept between their steps. A broker has one; a simulation has several brokers, and those
that were killed do not say that they give up."""


class CleaningLost(MoldauError):  # noqa: N818 - it names the event
    """The worker does not know this cleaning any more; it may be begun again."""


class LastBatch(NamedTuple):
    """The end of what a log knows of a producer: that much of it must stay."""

    offset: int
    """Of its last record; -1 if it has written nothing since its last marker."""
    epoch: int


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """All that a cleaning has to know; it pickles."""

    files: Files
    token: str
    segments: tuple[SegmentFiles, ...]
    """All of the log, the one being written too: an abort may stand far behind its records."""
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
    """Memory for keys."""
    chunk_bytes: int
    """How much is read at a time."""


@dataclass(slots=True)
class CleaningOutcome:
    """What a cleaning came to."""

    end_offset: int
    """Everything below was cleaned."""
    key_count: int
    key_bytes_used: int
    indexed_bytes: int = 0
    read_bytes: int = 0
    read_records: int = 0
    written_bytes: int = 0
    written_records: int = 0


class CleanedGroup(NamedTuple):
    """A new segment that lies ready, and those it stands for."""

    base_offsets: tuple[int, ...]
    size: int
    has_aborted: bool
    """Whether it has a `.txnindex`."""


class Step(NamedTuple):
    """Some way further."""

    moved_bytes: int
    """Read and written, for the throttle."""
    group: CleanedGroup | None = None
    """To be swapped in before the next step."""
    outcome: CleaningOutcome | None = None
    """There is no next step."""


# What the broker calls, in the worker

_under_way: dict[str, Iterator[Step]] = {}


def begin(plan: CleaningPlan, budget_bytes: int) -> Step:
    """Begin a cleaning, and go as far as the budget goes. Made for `Executor.compute`."""
    while len(_under_way) >= UNDER_WAY_MAX:
        del _under_way[next(iter(_under_way))]
    _under_way[plan.token] = _Cleaning(plan).steps()
    return go_on(plan.token, budget_bytes)


def go_on(token: str, budget_bytes: int) -> Step:
    """Go on until the budget is used up, or there is something to tell."""
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
    """Forget a cleaning and the keys it holds."""
    _under_way.pop(token, None)


class _Cleaning:
    """One cleaning of one log."""

    def __init__(self, plan: CleaningPlan) -> None:
        self._plan = plan
        self._reader = SegmentReader(plan.files, plan.segments, plan.chunk_bytes)
        self._keys = KeyOffsets(plan.key_bytes)
        self._newest_offsets = array("q")
        """Where in the dirty part the newest records are, in order."""
        self._transactions = CleanedTransactions(self._reader.aborted())
        self._moved_bytes = 0
        self._group_end = 0
        """Where the group ends that is being cleaned, and the next segment begins."""
        self._outcome = CleaningOutcome(plan.first_dirty_offset, 0, 0)
        bases = [segment.base_offset for segment in plan.segments]
        self._behind = dict(pairwise(bases))
        """By a segment's base offset, that of the next."""

    def steps(self) -> Iterator[Step]:
        """Do everything, with a pause about every chunk."""
        yield from self._index()
        outcome, newest = self._outcome, self._keys.newest
        outcome.key_count, outcome.key_bytes_used = len(newest), self._keys.size
        self._newest_offsets = array("q", sorted(newest.values()))
        # What lies below the end of the index is what can be cleaned.
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
        """Count what was moved; tell whether it is time for a pause."""
        self._moved_bytes += size
        return self._moved_bytes >= self._plan.chunk_bytes

    def _take_moved(self) -> int:
        moved, self._moved_bytes = self._moved_bytes, 0
        return moved

    # The first pass

    def _index(self) -> Iterator[Step]:
        """Remember the keys of the dirty part, and how far that went."""
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
        """Take the keys of a batch; return its size and the offset behind it."""
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
        """Write what stays of a group of segments into one."""
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
        """Tell which offsets of a dirty batch stay: of most, nothing need be looked at."""
        offsets = self._newest_offsets
        first = bisect_left(offsets, header.base_offset)
        return offsets[first : bisect_left(offsets, header.next_offset, first)]

    def _must_stay(self, header: BatchHeader) -> bool:
        """Tell whether a batch is needed without its records.

        The last one of a producer says which sequence and which epoch come next. The last one of a
        group says that nothing is missing up to the next segment: without it, recovery could not
        tell what was cleaned away from the end of a file that a power cut has taken. Kafka, which
        does not look for such gaps, keeps only that of the last group.
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
        """Keep the newest of a message, or of those it wraps, in the form they have.

        Tombstones stay: these formats have no place for a delete horizon.
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
