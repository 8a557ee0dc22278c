"""Searching a log by timestamp, in short steps.

A search first selects segments by their largest timestamp, then batches by index and headers. Then
it must read the records of a batch, which may be many and may decompress to a thousand times their
size. So a search is a generator. It reads a few uncompressed records itself. For all others it
yields a `Look`, which another process answers with `look_into`. Most searches never yield. Callers
that may block use `finish`, which runs all steps.

The timestamps in a header are not checked when a batch is appended. If a batch has no matching
record in spite of its header, the search continues after it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from moldau.base.errors import CorruptRecords
from moldau.base.ids import Offset
from moldau.base.limits import RECORDS_PER_BATCH
from moldau.records.batch import CODEC_BITS, MAGIC, iter_batches, parse_header
from moldau.records.legacy import read_message, unwrapped
from moldau.records.record import check_count, iter_spans, payload_of
from moldau.storage.scan import StoredBatch
from moldau.storage.segment import Segment

IN_PLACE_COUNT: Final = 1000
"""How many records a search reads on the event loop before it yields: one or two milliseconds."""

_OLD_ATTRIBUTES_POSITION: Final = 17
"""In a message of magic 0 or 1: after offset, size, checksum and magic."""


class TimestampOffset(NamedTuple):
    """A record found by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


class Seen(NamedTuple):
    """The timestamp and offset of a record that a look has found."""

    timestamp: int
    offset: int


class Look(NamedTuple):
    """A search in the records of one batch; it can be pickled."""

    content: bytes
    timestamp: int | None
    """Find the first record at or after it; for None the newest, the first one of several."""
    start_offset: int
    """Ignore records below it."""


Search = Generator[Look, Seen | None, TimestampOffset | None]
"""Yields a `Look`, is sent the result of `look_into`, and returns the record or None."""


class Searched(Protocol):
    """A log as a search sees it."""

    log_start_offset: Offset

    @property
    def segments(self) -> Sequence[Segment]:
        """Oldest first."""
        ...


def search(log: Searched, timestamp: int | None) -> Search:
    """Find the first record at or after a timestamp, or the newest record for None.

    Between two steps the log may grow, or lose its oldest segments, which restarts the search. It
    must not be truncated or closed. A leader's log is neither during its epoch, so the caller must
    stop the search when leadership changes.
    """
    while True:
        attempt = _Attempt(log)
        try:
            since = (yield from attempt.largest()) if timestamp is None else timestamp
            # A log without any timestamp has no newest record.
            unknown = timestamp is None and since < 0
            return None if unknown else (yield from attempt.first_since(since))
        except _Outdated:
            pass


def finish(steps: Search) -> TimestampOffset | None:
    """Run all steps of a search on the calling thread."""
    seen = None
    while True:
        try:
            look = steps.send(seen)
        except StopIteration as end:
            found: TimestampOffset | None = end.value
            return found
        seen = look_into(look)


def look_into(look: Look) -> Seen | None:
    """Find the record that a `Look` asks for, if there is one. For `Executor.compute`."""
    inside = (seen for seen in _times(look.content) if seen.offset >= look.start_offset)
    timestamp = look.timestamp
    if timestamp is None:
        return max(inside, key=attrgetter("timestamp"), default=None)
    return next((seen for seen in inside if seen.timestamp >= timestamp), None)


def _times(content: bytes) -> Iterator[Seen]:
    """Yield the timestamps and offsets of the records of one batch."""
    for span in iter_batches(content):
        if span.magic == MAGIC:
            header = parse_header(content, span.position)
            check_count(header)
            for one in iter_spans(header, payload_of(header, content, span.position)):
                yield Seen(one.timestamp, one.offset)
        else:
            for record in unwrapped(read_message(content, span), count_limit=RECORDS_PER_BATCH):
                yield Seen(record.timestamp, record.offset)


class _Outdated(Exception):  # noqa: N818 - it names the state of the attempt
    """The log has changed since the attempt started."""


class _Attempt:
    """One search of the segments that the log has at this moment."""

    __slots__ = ("_in_place_left", "_log", "_segments", "_start_offset")

    def __init__(self, log: Searched) -> None:
        self._log = log
        self._segments = tuple(log.segments)
        self._start_offset = log.log_start_offset
        self._in_place_left = IN_PLACE_COUNT

    def first_since(self, timestamp: int) -> Search:
        """Find the first record at or after a timestamp."""
        for segment in self._segments:
            if segment.largest().timestamp < timestamp:
                continue
            indexes = segment.indexes()
            known_older = indexes.times.floor(timestamp - 1).offset
            start = indexes.offsets.floor(max(known_older, self._start_offset)).position
            for batch in segment.batches(start):
                if batch.max_timestamp < timestamp or batch.last_offset < self._start_offset:
                    continue
                seen = yield from self._look(segment, batch, timestamp)
                if seen is not None:
                    return TimestampOffset(*seen, batch.leader_epoch)
        return None

    def largest(self) -> Generator[Look, Seen | None, int]:
        """Return the largest timestamp; -1 without any."""
        largest = -1
        for segment in self._segments:
            if self._start_offset <= segment.base_offset:
                largest = max(largest, segment.largest().timestamp)
            else:
                largest = max(largest, (yield from self._largest_since_start(segment)))
        return largest

    def _largest_since_start(self, segment: Segment) -> Generator[Look, Seen | None, int]:
        """Return it for the one segment that also has records below the log start."""
        first = segment.batch_holding(self._start_offset)
        if first is None:
            return -1
        behind = segment.batches(first.end_position)
        largest = max((batch.max_timestamp for batch in behind), default=-1)
        if first.max_timestamp <= largest:
            return largest
        if first.header is not None and first.base_offset >= self._start_offset:
            return first.max_timestamp
        seen = yield from self._look(segment, first, None)
        return largest if seen is None else max(largest, seen.timestamp)

    def _look(
        self, segment: Segment, batch: StoredBatch, timestamp: int | None
    ) -> Generator[Look, Seen | None, Seen | None]:
        """Search the records of a batch: here if they are few, else yield a `Look`."""
        content = segment.handle().read(batch.position, batch.size)
        if len(content) < batch.size:
            raise CorruptRecords(f"only {len(content)} of {batch.size} bytes are there")
        look = Look(content, timestamp, self._start_offset)
        count = _uncompressed_count(batch, content)
        if count is not None and count <= self._in_place_left:
            self._in_place_left -= count
            return look_into(look)
        seen = yield look
        log, segments = self._log, self._segments
        moved = log.log_start_offset != self._start_offset
        if moved or tuple(log.segments[: len(segments)]) != segments:
            raise _Outdated
        self._in_place_left = IN_PLACE_COUNT
        return seen


def _uncompressed_count(batch: StoredBatch, content: bytes) -> int | None:
    """Return the record count in the header; None if the records are compressed."""
    if batch.header is not None:
        return None if batch.header.codec else batch.header.count
    return None if content[_OLD_ATTRIBUTES_POSITION] & CODEC_BITS else 1


def starts_until(segments: Sequence[Segment], timestamp: int) -> list[int]:
    """List the base offsets of segments up to a timestamp; all if it is negative."""
    return [
        segment.base_offset
        for segment in segments
        if timestamp < 0 or segment.newest_ms() <= timestamp
    ]
