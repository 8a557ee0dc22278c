"""A fetch answer as Arrow record batches, without a Python object per record.

It decodes as many batches of the log at a time as make a record batch worth its while, however
small they are by themselves.
Needs the extra `arrow`; imported only when somebody asks for record batches.

Nothing here trusts the bytes. Good batches before a bad one are handed out first; then the error
is raised, again and again, until somebody seeks past it.

Pure: bytes in, record batches out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.base.errors import CorruptRecords
from moldau.base.files import Buffer
from moldau.engine.arrow_batches import ArrowForm, RecordBatch, from_columns, from_records
from moldau.engine.errors import CorruptAnswer
from moldau.engine.fetched_batches import BatchWalk, VisibleBatch
from moldau.engine.partitions import TimestampType, TopicPartition
from moldau.records.batch import CODEC_BITS, HEADER_SIZE
from moldau.records.column_types import Columns, Part
from moldau.records.columns import read_columns
from moldau.records.legacy import read_message, unwrapped
from moldau.records.record import Record, payload_of

RECORDS_PER_BATCH: Final = 65_536
"""Enough that what a record batch costs by itself is not seen; Arrow's own readers make as many."""
BYTES_PER_BATCH: Final = 16 * 1024 * 1024
"""Ends a record batch of large records; one batch of the log is taken however large it is."""
_POSITION_MAX: Final = 2**31 - 1
"""Arrow's positions have 32 bits. So have Kafka's sizes, so that one answer is always within them,
but what several batches are inflated to may not be."""


class TakenBatch(NamedTuple):
    """Some records of one partition, and where the consumer is once they are done with."""

    batch: RecordBatch
    next_offset: int
    leader_epoch: int


class _Gathered(NamedTuple):
    """A batch, and its records if they had to be inflated."""

    batch: VisibleBatch
    inflated: bytes | None


class ArrowAnswer:
    """What one answer brought of one partition, and how much of it was handed out."""

    def __init__(
        self, partition: TopicPartition, view: memoryview, walk: BatchWalk, form: ArrowForm
    ) -> None:
        self._partition = partition
        self._view = view
        self._walk = walk
        self._form = form
        self._waiting: _Gathered | None = None
        """A batch that did not fit to those before it."""
        self._finished = False
        """Whether no batch is left: then the position is behind those that nobody sees, too."""
        self._error: CorruptAnswer | None = None
        self.next_offset = walk.next_offset
        """Where the consumer is, once what was taken is done with."""

    def take(
        self, count: int = RECORDS_PER_BATCH, size: int = BYTES_PER_BATCH
    ) -> TakenBatch | None:
        """Decode batches until there are this many records, or no more bytes; None at the end.

        A record batch without rows means that something was passed over. CorruptAnswer for bytes
        that are wrong.
        """
        gathered = self._gather(count, min(size, _POSITION_MAX))
        while gathered:
            try:
                batch = self._decoded(gathered)
            except CorruptRecords as error:
                gathered = self._readable(gathered, error)
            else:
                whole = self._finished and self._error is None
                return self._taken(batch, self._walk if whole else gathered[-1].batch)
        if self._error is not None:
            raise self._error
        if self.next_offset == self._walk.next_offset:
            return None
        return self._taken(from_records((), (), self._partition, self._form), self._walk)

    def _taken(self, batch: RecordBatch, behind: VisibleBatch | BatchWalk) -> TakenBatch:
        self.next_offset = behind.next_offset
        return TakenBatch(batch, behind.next_offset, behind.leader_epoch)

    def _gather(self, count: int, size: int) -> list[_Gathered]:
        """Collect batches of one kind, up to the first that cannot be read."""
        gathered: list[_Gathered] = []
        are_messages = False
        while count > 0 and self._error is None:
            one = self._next()
            if one is None:
                break
            batch, inflated = one
            header = batch.header
            size -= batch.span.size if inflated is None else len(inflated)
            if not gathered:
                are_messages = header is None
            elif size < 0 or (header is None) is not are_messages:
                self._waiting = one
                break
            gathered.append(one)
            count -= 1 if header is None else header.count
        return gathered

    def _next(self) -> _Gathered | None:
        """Return the next batch, inflated; None at the end, or if there is an error."""
        one, self._waiting = self._waiting, None
        if one is not None:
            return one
        batch = None
        try:
            batch = self._walk.next()
            if batch is None:
                self._finished = True
                return None
            return _Gathered(batch, self._inflated(batch))
        except CorruptRecords as error:
            self._fail(error, self._walk.next_offset if batch is None else batch.first_wanted)
            return None

    def _inflated(self, batch: VisibleBatch) -> bytes | None:
        if batch.header is None or not batch.header.attributes & CODEC_BITS:
            return None
        return payload_of(batch.header, self._view, batch.span.position)

    def _decoded(self, gathered: Sequence[_Gathered]) -> RecordBatch:
        if gathered[0].batch.header is None:
            return self._decoded_messages(gathered)
        return from_columns(self._columns(gathered), self._partition, self._form)

    def _columns(self, gathered: Sequence[_Gathered]) -> Columns:
        """Read batches where they lie, or side by side in one place if some were inflated."""
        if all(inflated is None for _, inflated in gathered):
            return read_columns(
                self._view,
                [_part(batch, batch.span.position + HEADER_SIZE) for batch, _ in gathered],
            )
        contents: list[Buffer] = []
        parts: list[Part] = []
        position = 0
        for batch, inflated in gathered:
            span = batch.span
            start, end = span.position + HEADER_SIZE, span.position + span.size
            contents.append(self._view[start:end] if inflated is None else inflated)
            parts.append(_part(batch, position, len(contents[-1])))
            position += len(contents[-1])
        return read_columns(b"".join(contents), parts)

    def _decoded_messages(self, gathered: Sequence[_Gathered]) -> RecordBatch:
        """Read messages of the formats before batches, one by one: only ancient logs have them."""
        records: list[Record] = []
        types: list[TimestampType] = []
        for batch, _ in gathered:
            message = read_message(self._view, batch.span)
            type_ = TimestampType.NO_TIMESTAMP
            if batch.span.magic > 0:
                type_ = TimestampType(message.timestamp_type)
            wanted = [each for each in unwrapped(message) if each.offset >= batch.first_wanted]
            records += wanted
            types += [type_] * len(wanted)
        return from_records(records, types, self._partition, self._form)

    def _readable(self, gathered: list[_Gathered], error: CorruptRecords) -> list[_Gathered]:
        """Keep the batches before the first that cannot be decoded by itself."""
        for number, one in enumerate(gathered):
            try:
                self._decoded((one,))
            except CorruptRecords as its_own:
                self._fail(its_own, one.batch.first_wanted)
                return gathered[:number]
        self._fail(error, gathered[0].batch.first_wanted)
        return []

    def _fail(self, error: CorruptRecords, offset: int) -> None:
        self._error = CorruptAnswer(
            f"{self._partition} cannot be read at offset {offset}: {error}",
            advice=f"Seek past offset {offset} to go on behind the bad records.",
        )


def _part(batch: VisibleBatch, start: int, size: int | None = None) -> Part:
    assert batch.header is not None
    if size is None:
        size = batch.span.size - HEADER_SIZE
    return Part(batch.header, start, start + size, batch.first_wanted)
