"""From the bytes of a fetch answer to records, a handful at a time.

`Fetched` is what one answer brought of one partition. It is read only as far as the user asks:
batches are split off by their headers when the answer arrives (so that the next fetch can be sent
before anything is decoded), and decoded when their turn comes. What is left out on the way: offsets
below the position (batches come whole), control batches, and with `read_committed` the batches of
aborted transactions.

Nothing here trusts the bytes. Good records before bad bytes are handed out first; then the error
is raised, again and again, until somebody seeks past it.

Pure: bytes in, records out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, Final

from moldau.base.errors import CorruptRecords
from moldau.base.tuples import NamedTuple
from moldau.client.consuming.positions import PartitionState
from moldau.client.errors import ClientError, CorruptAnswer, SerializationFailed
from moldau.client.records import Record, TimestampType, TopicPartition
from moldau.client.serdes import Deserialize
from moldau.engine.fetched_batches import BatchWalk, Split, VisibleBatch
from moldau.engine.metadata import NO_EPOCH
from moldau.protocol.messages.data import AbortedTransaction
from moldau.records.record import FieldColumns, iter_field_columns, payload_of
from moldau.records.record import Record as StoredRecord

if TYPE_CHECKING:
    from moldau.engine.arrow_answer import ArrowAnswer, TakenBatch
    from moldau.engine.arrow_batches import ArrowForm

_NEW: Final = tuple.__new__


class DecodingRules(NamedTuple):
    """How this consumer wants its records."""

    check_crcs: bool = True
    committed_only: bool = False
    key: Deserialize | None = None
    value: Deserialize | None = None


class Taken(NamedTuple):
    """Some records of one partition, and where the consumer is once they are done with."""

    records: list[Record[Any, Any]]
    next_offset: int
    leader_epoch: int


class Fetched:
    """What one answer brought of one partition, and how much of it was handed out."""

    __slots__ = (
        "_aborted",
        "_batch",
        "_columns",
        "_error",
        "_failure",
        "_reading",
        "_returned",
        "_rules",
        "_spans",
        "_view",
        "_walk",
        "leader_epoch",
        "next_offset",
        "partition",
        "revision",
        "size",
        "state",
    )

    def __init__(
        self,
        state: PartitionState,
        view: memoryview,
        found: Split,
        aborted: Sequence[AbortedTransaction] | None,
        rules: DecodingRules,
    ) -> None:
        self.state = state
        self.revision = state.revision
        self.partition: TopicPartition = state.partition
        self.size = found.size
        self.next_offset = state.fetch_offset
        """Where the consumer is, once what was taken is done with."""
        self.leader_epoch = NO_EPOCH
        """The term in which the record before that offset was written."""
        self._view = view
        self._spans = found.spans
        self._aborted = aborted or () if rules.committed_only else ()
        self._rules = rules
        self._returned: Taken | None = None
        self._error: ClientError | None = None
        self._columns: ArrowAnswer | None = None
        self._begin()

    def _begin(self) -> None:
        """Read from `next_offset` on."""
        self._walk = BatchWalk(
            self._view,
            self._spans,
            self.next_offset,
            self._aborted,
            check_crcs=self._rules.check_crcs,
        )
        self._batch: VisibleBatch | None = None
        self._reading: Iterator[Record[Any, Any]] = iter(())
        """The records of that batch which were not taken yet, up to the first that is bad."""
        self._failure: CorruptRecords | None = None
        """What is wrong with that one, once the records before it were read."""

    @property
    def stale(self) -> bool:
        """Tell whether a seek, a reset or a rebalance has made this worthless."""
        return self.revision != self.state.revision

    def put_back(self, taken: Taken) -> None:
        """Take records back that were not handed out after all; they come first next time."""
        behind = self._returned
        if behind is not None:
            taken = behind._replace(records=taken.records + behind.records)
        self._returned = taken
        self.next_offset = taken.records[0].offset

    def take_columns(self, form: ArrowForm) -> TakenBatch | None:
        """Decode records into a record batch instead; None at the end.

        One without rows means that something was passed over. ClientError for bytes that are wrong.
        """
        if self._columns is None:
            from moldau.engine.arrow_answer import ArrowAnswer  # noqa: PLC0415 - an extra

            self._returned = self._error = None
            self._begin()
            self._columns = ArrowAnswer(self.partition, self._view, self._walk, form)
        taken = self._columns.take()
        if taken is not None:
            self.next_offset, self.leader_epoch = taken.next_offset, taken.leader_epoch
        return taken

    def take(self, count: int) -> Taken | None:
        """Decode up to this many records; None at the end.

        An empty list means that something was passed over. ClientError for bytes that are wrong,
        once the good records before them have been taken.
        """
        if self._columns is not None:
            self._columns = None
            self._begin()
        taken = self._take_some(count)
        if taken is None:
            return None
        records = taken.records
        while len(records) < count and self._error is None:
            try:
                more = self._take_some(count - len(records))
            except ClientError:
                break  # the next call raises it
            if more is None:
                break
            records += more.records
        return Taken(records, self.next_offset, self.leader_epoch)

    def _take_some(self, count: int) -> Taken | None:
        """Take records that were put back, or of one batch; None at the end."""
        if self._returned is not None:
            return self._take_returned(count)
        if self._error is not None:
            raise self._error
        try:
            if self._batch is None and not self._next_batch():
                return self._pass_to_end()
            return self._take_batch(count)
        except CorruptRecords as error:
            raise self._corrupt(error) from error

    def _take_returned(self, count: int) -> Taken:
        assert self._returned is not None
        records, next_offset, epoch = self._returned
        self._returned = None
        if len(records) > count:
            self.put_back(Taken(records[count:], next_offset, epoch))
            told = records[count - 1].leader_epoch  # what is left may be of a later leader
            epoch = NO_EPOCH if told is None else told
            records, next_offset = records[:count], records[count].offset
        else:
            records = records[:]  # the list is in the hands of whoever put it back
        self.next_offset, self.leader_epoch = next_offset, epoch
        return Taken(records, next_offset, epoch)

    def _pass_to_end(self) -> Taken | None:
        """Move behind batches that nobody may see, if the answer ends with some."""
        if self._walk.next_offset == self.next_offset:
            return None
        self.next_offset, self.leader_epoch = self._walk.next_offset, self._walk.leader_epoch
        return Taken([], self.next_offset, self.leader_epoch)

    def _take_batch(self, count: int) -> Taken:
        """Take from the batch that is being read; good records before bad bytes come first."""
        batch = self._batch
        assert batch is not None
        wanted, self.leader_epoch = max(self.next_offset, batch.first_wanted), batch.leader_epoch
        records = list(islice(self._reading, min(count, sys.maxsize)))
        failure, self._failure = self._failure, None
        if records and (failure is not None or len(records) == count):
            self.next_offset = max(wanted, records[-1].offset + 1)
        elif failure is None:
            self._batch = None
            self.next_offset = batch.next_offset
        if failure is not None:
            named = self._corrupt(failure)
            if not records:
                raise named from failure
        if records and records[0].offset < wanted:
            records = [record for record in records if record.offset >= wanted]
        if self._rules.key is not None or self._rules.value is not None:
            records = self._deserialized(records)
        return Taken(records, self.next_offset, self.leader_epoch)

    def _deserialized(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        """Read keys and values; what cannot be read is kept for the next call, if others can."""
        read_key, read_value = self._rules.key, self._rules.value
        made: list[Record[Any, Any]] = []
        try:
            for record in records:
                topic, partition, offset, timestamp, type_, key, value, headers, epoch = record
                if read_key is not None:
                    key = read_key(topic, key)
                if read_value is not None:
                    value = read_value(topic, value)
                made.append(
                    _NEW(
                        Record,
                        (topic, partition, offset, timestamp, type_, key, value, headers, epoch),
                    )
                )
        except SerializationFailed as error:
            offset = records[len(made)].offset
            self._error = _not_deserialized(self.partition, offset, error)
            self.next_offset = offset
            if not made:
                raise self._error from error.__cause__
        return made

    def _next_batch(self) -> bool:
        """Begin with the next batch that has something for the user."""
        batch = self._batch = self._walk.next()
        if batch is None:
            return False
        columns: Iterator[FieldColumns]
        if batch.header is None:
            from moldau.records import legacy  # noqa: PLC0415 - only logs from before 0.11 need it

            message = legacy.read_message(self._view, batch.span)
            columns = map(_column_of_one, legacy.unwrapped(message))
            type_ = (
                TimestampType(message.timestamp_type)
                if batch.span.magic > 0
                else TimestampType.NO_TIMESTAMP
            )
        else:
            payload = payload_of(batch.header, self._view, batch.span.position)
            columns = iter_field_columns(batch.header, payload)
            type_ = TimestampType(batch.header.timestamp_type)
        epoch = None if batch.leader_epoch == NO_EPOCH else batch.leader_epoch
        self._reading = _records_of(self._good(columns), self.partition, type_, epoch)
        return True

    def _good(self, columns: Iterable[FieldColumns]) -> Iterator[FieldColumns]:
        """End before what is wrong: a compiled `list.extend` forgets what came before an error."""
        try:
            yield from columns
        except CorruptRecords as error:
            self._failure = error

    def _corrupt(self, error: CorruptRecords) -> ClientError:
        topic, partition = self.partition
        self._error = CorruptAnswer(
            f"{topic}-{partition} cannot be read at offset {self.next_offset}: {error}",
            advice=f"Seek past offset {self.next_offset} to go on behind the bad records.",
        )
        return self._error


def _records_of(
    columns: Iterable[FieldColumns],
    partition: TopicPartition,
    timestamp_type: TimestampType,
    leader_epoch: int | None,
) -> Iterator[Record[Any, Any]]:
    """Make the user's records: a consumer spends most of its time here, so no Python runs for one.

    `Record` itself would be called through Python, and `map` would make one more tuple for each.
    """
    topic, number = partition

    def fields_of(some: FieldColumns) -> Iterator[tuple[Any, ...]]:
        offsets, timestamps, keys, values, headers = some
        return zip(
            repeat(topic), repeat(number), offsets, timestamps, repeat(timestamp_type),
            keys, values, headers, repeat(leader_epoch), strict=False,
        )  # fmt: skip

    return map(_NEW, repeat(Record), chain.from_iterable(map(fields_of, columns)))


def _column_of_one(record: StoredRecord) -> FieldColumns:
    offset, timestamp, key, value, headers = record
    return FieldColumns((offset,), (timestamp,), (key,), (value,), (headers,))


def _not_deserialized(
    partition: TopicPartition, offset: int, error: SerializationFailed
) -> ClientError:
    named = SerializationFailed(
        f"{partition} offset {offset}: {error.what}",
        advice=f"Seek to offset {offset + 1} to go on behind the record.",
    )
    named.__cause__ = error.__cause__
    return named
