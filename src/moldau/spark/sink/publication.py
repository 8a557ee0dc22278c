"""The driver's half of exactly once: everything that the tasks staged, in one transaction.

    take the query's transactional id      whoever had it is fenced, what it left open is aborted
    read the marker                        the batch is there: done; a later one is: refused
    copy what was staged                   each batch as it is, under a number of this producer's
    write the marker                       in the same transaction
    commit                                 rows and marker appear together, or neither does
    delete what was staged

A driver may die, or be taken for dead and come back, between any two of these steps, and the batch
may come again, spread over tasks and batches in another way: the marker decides, and only one
driver at a time can write. Nothing is undone after a commit whose outcome is not known, because the
marker will tell. Why transactions of the tasks' own cannot do this is in docs/adr/0009-spark.md.

As long as a driver's process lives it holds the transactional id and remembers the marker; if
somebody else has written since, the id was taken away, and the next transaction fails. A driver has
several processes that publish where several streams run in it, and Spark asks whichever is free. So
one that has not published the batch before, in the same run of the query, takes the id anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

from moldau.base.clock import Clock, SystemClock
from moldau.base.errors import UserError
from moldau.client.admin import Admin
from moldau.client.batch_producer import BatchProducer
from moldau.client.consumer import Consumer
from moldau.client.errors import (
    ClientError,
    InvalidProducerEpoch,
    ProducerFenced,
)
from moldau.client.records import TopicPartition
from moldau.spark.sink.held import told
from moldau.spark.sink.helping_topics import MARKER_PARTITIONS, ensure_marker_topic
from moldau.spark.sink.markers import Marker, Verdict, decide, marker_place, read_marker
from moldau.spark.sink.options import ONCE_ID, SinkOptions
from moldau.spark.sink.rows import Outgoing
from moldau.spark.sink.staged_batches import StagedBatches, checked
from moldau.spark.sink.staging import StagedRows

logger = logging.getLogger(__name__)

_COMMIT_ATTEMPTS: Final = 3
"""How often the coordinator is asked to commit, for `max.block.ms` each, before it is left to the
next start of the query to find out."""


_READ_AT_ONCE: Final = 8
"""Staged batches that are handed over at a time: some megabytes."""
_READ_SIZE: Final = 8 * 1024 * 1024
"""What one partition may send at once: enough to keep the driver busy until the next answer."""


class Step(Enum):
    """What has been done of a publication; tests stop at each."""

    TAKEN = auto()
    MARKER_READ = auto()
    BEGUN = auto()
    COPIED_ONE = auto()
    COPIED = auto()
    MARKED = auto()
    COMMITTED = auto()
    CLEANED = auto()


class PublicationOutcome(Enum):
    """What became of a batch."""

    PUBLISHED = auto()
    DONE_BEFORE = auto()
    EMPTY = auto()


class Writer(NamedTuple):
    """Who publishes."""

    name: str
    """Under which tasks stage."""
    marker_key: str | None
    """Under which markers are kept; None if what is written cannot come again."""
    once_id: str | None = None
    """Of a batch query: the user's name for what is written."""

    @classmethod
    def of_query(cls, query_id: str) -> Writer:
        """Name a stream: its id stays with its checkpoint."""
        return cls(query_id, f"query/{query_id}")

    @classmethod
    def of_write(cls, attempt: str, once_id: str | None) -> Writer:
        """Name one run of a batch query, and what it is a run of if the user says so."""
        return cls(attempt, None if once_id is None else f"write/{once_id}", once_id)

    @property
    def transactional_id(self) -> str:
        """Shared by all who may publish the same, so that only one of them can at a time."""
        return f"moldau-spark/{self.marker_key or self.name}"

    def repetition(self, last: Marker, row_count: int) -> str:
        """Return what to say of a batch, now with so many rows, that was published before."""
        counts = f"{last.row_count} rows then, {row_count} now"
        if self.once_id is not None:
            return (
                f"write {last.batch_id} of {self.once_id} is there already and was not written"
                f" again ({counts})"
            )
        return (
            f"batch {last.batch_id} of query {self.name} is there already and was not written again"
            f" ({counts}): the last run ended before Spark noted it, or the checkpoint is older"
            " than that run. If Spark has planned the batch anew since, rows are left out that the"
            " first did not have"
        )

    def refusal(self, batch_id: int, last: int) -> UserError:
        """Return what to say of a batch that comes after a later one."""
        if self.once_id is not None:
            return UserError(
                f"write {batch_id} of {self.once_id} was refused, because {last} has been written"
                " already: what writes was taken back to an older state. Write to another topic,"
                f" or under another {ONCE_ID}"
            )
        return UserError(
            f"batch {batch_id} of query {self.name} was refused, because batch {last} of it has"
            " been written already: the checkpoint was taken back to an older state. Start with a"
            " new checkpoint, from the offsets that were read last"
        )


class _Clients(NamedTuple):
    """What a publisher works with, from its first batch to its last."""

    producer: BatchProducer
    consumer: Consumer[bytes, bytes]
    """Reads markers and what was staged: never more than it is assigned."""
    admin: Admin

    @classmethod
    def of(cls, options: SinkOptions, writer: Writer) -> _Clients:
        """Make them; nothing is connected."""
        reading = {
            **options.consumer(),
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
            "max_poll_records": _READ_AT_ONCE,
            "max_partition_fetch_bytes": _READ_SIZE,
        }
        producer = BatchProducer(**options.publisher(writer.transactional_id))
        return cls(producer, Consumer(**reading), Admin(**options.connection.admin()))


class Publisher:
    """Publishes for one query, or for one write. One thread uses it at a time."""

    def __init__(
        self,
        options: SinkOptions,
        writer: Writer,
        *,
        clock: Clock | None = None,
        after: Callable[[Step], None] = lambda _: None,
    ) -> None:
        """Take what is needed; nothing is connected. `after` is told of every step."""
        self._options = options
        self._writer = writer
        self._clock = clock or SystemClock()
        self._after = after
        self._clients: _Clients | None = None
        self._last: Marker | None = None
        self._run = ""

    def publish(self, batch_id: int, staged: Iterable[StagedRows]) -> PublicationOutcome:
        """Have the rows of a batch in their topics, once; UserError says why they are not.

        After an error the publisher begins anew with the next call.
        """
        shares = [one for one in staged if not one.is_empty]
        self._check_shares(batch_id, shares)
        if not shares:
            return PublicationOutcome.EMPTY
        try:
            with told(f"batch {batch_id} of {self._writer.name} could not be published"):
                return self._publish(batch_id, shares)
        except BaseException as error:
            self.give_up()
            if _is_of_fencing(error):
                raise UserError(
                    f"batch {batch_id} of {self._writer.name} was not published here: another run"
                    " of the query has begun since. End one of them"
                ) from error
            raise

    def _check_shares(self, batch_id: int, shares: Sequence[StagedRows]) -> None:
        for share, *_ in shares:
            if (share.writer, share.batch_id) != (self._writer.name, batch_id):
                raise UserError(
                    f"rows staged for batch {share.batch_id} of {share.writer} were handed in for"
                    f" batch {batch_id} of {self._writer.name}: nothing was published"
                )

    def _publish(self, batch_id: int, shares: Sequence[StagedRows]) -> PublicationOutcome:
        if self._may_be_fenced(batch_id, shares[0].share.run):
            self.give_up()
        clients = self._taken()
        marker = Marker(batch_id, sum(one.row_count for one in shares))
        verdict = decide(self._last, batch_id)
        if verdict is not Verdict.PUBLISH:
            assert self._last is not None
            if verdict is Verdict.REFUSE:
                raise self._writer.refusal(batch_id, self._last.batch_id)
            logger.warning("%s", self._writer.repetition(self._last, marker.row_count))
            return PublicationOutcome.DONE_BEFORE
        self._write(clients, marker, shares)
        self._last = marker if self._writer.marker_key is not None else None
        return PublicationOutcome.PUBLISHED

    # Taking over

    def _may_be_fenced(self, batch_id: int, run: str) -> bool:
        """Tell whether another process may have published since, and remember the run.

        One has if there was a batch in between, unless that had no rows. In a new run also without
        that: the batch may be one that was published before, and not by this process.
        """
        before, self._run = self._run, run
        behind = self._last is not None and batch_id > self._last.batch_id + 1
        return behind or run != before

    def _taken(self) -> _Clients:
        """Take the transactional id, and learn what was published under it."""
        if self._clients is not None:
            return self._clients
        self._clients = clients = _Clients.of(self._options, self._writer)
        producer, consumer, admin = clients
        consumer.start()
        admin.start()
        key = self._writer.marker_key
        if key is not None:
            ensure_marker_topic(admin, self._options.marker_topic)
        producer.start()
        self._after(Step.TAKEN)
        if key is not None:
            patience_s = 2 * producer.settings.transaction_timeout_ms / 1000
            place = self._marker_place(producer, key)
            self._last = read_marker(admin, consumer, place, key, self._clock, patience_s)
        self._after(Step.MARKER_READ)
        return clients

    def _marker_place(self, producer: BatchProducer, key: str) -> TopicPartition:
        topic = self._options.marker_topic
        # Not more than it was made with: partitions that are added later move no marker.
        count = min(producer.partition_count(topic), MARKER_PARTITIONS)
        return marker_place(topic, key, count)

    # The transaction

    def _write(self, clients: _Clients, marker: Marker, shares: Sequence[StagedRows]) -> None:
        producer = clients.producer
        producer.begin_transaction()
        self._after(Step.BEGUN)
        try:
            for topic, partition, batch in self._staged(clients.consumer, shares):
                producer.send_batch(topic, partition, *batch)
                self._after(Step.COPIED_ONE)
            self._after(Step.COPIED)
            self._mark(producer, marker)
            self._after(Step.MARKED)
        except Exception:
            self._abort(producer)
            raise
        self._commit(producer, marker.batch_id)
        self._after(Step.COMMITTED)

    def _mark(self, producer: BatchProducer, marker: Marker) -> None:
        key = self._writer.marker_key
        if key is not None:
            topic, partition = self._marker_place(producer, key)
            producer.send(topic, marker.written(), key.encode(), partition=partition)

    def _abort(self, producer: BatchProducer) -> None:
        """Make an end of it, so that readers need not wait; who comes next would do it, too."""
        try:
            producer.abort_transaction()
        except ClientError as error:
            logger.warning("a transaction of %s could not be aborted: %s", self._writer.name, error)

    def _commit(self, producer: BatchProducer, batch_id: int) -> None:
        for attempt in range(_COMMIT_ATTEMPTS):
            try:
                producer.commit_transaction()
            except ClientError as error:
                if producer.in_transaction:
                    self._abort(producer)
                    raise
                if not error.retriable or attempt == _COMMIT_ATTEMPTS - 1:
                    raise
                logger.warning("batch %d of %s: %s", batch_id, self._writer.name, error)
            else:
                return

    # What was staged

    def _staged(
        self, consumer: Consumer[bytes, bytes], shares: Sequence[StagedRows]
    ) -> Iterator[Outgoing]:
        """Yield every batch that was staged, from messages and from topics."""
        for share in shares:
            for one in share.inline:
                yield Outgoing(
                    one.topic, one.partition, checked(one.content, one.plain_size, share)
                )
        located = [share for share in shares if share.located]
        if located:
            yield from StagedBatches(consumer, located, self._clock).batches()

    def clean(self, staged: Iterable[StagedRows]) -> None:
        """Delete what was published just now, and what attempts that lost have left before it.

        Safe after a publication of one's own, because nobody stages for the next batch before this
        one is done. Not after DONE_BEFORE: then another driver may be at the next batch already.
        """
        ends: dict[tuple[str, int], int] = {}
        for share in staged:
            if share.located:
                place = share.staging_topic, share.staging_partition
                ends[place] = max(ends.get(place, 0), share.located[-1].staging_offset + 1)
        if ends and self._clients is not None:
            try:
                self._clients.admin.delete_records(ends).or_raise()
            except ClientError as error:
                logger.warning("staged rows are left to their retention time: %s", error)
        self._after(Step.CLEANED)

    def give_up(self) -> None:
        """End at once; an open transaction is aborted by whoever comes next, or times out."""
        clients, self._clients, self._last = self._clients, None, None
        if clients is not None:
            clients.producer.give_up()
            clients.consumer.close()
            clients.admin.close()


def _is_of_fencing(error: BaseException) -> bool:
    """Tell whether an error comes of somebody else's having taken the transactional id.

    The client's is its cause; one that says that the transaction is broken has a cause in turn.
    """
    cause = error.__cause__
    causes = (cause, None if cause is None else cause.__cause__)
    return any(isinstance(one, (ProducerFenced, InvalidProducerEpoch)) for one in causes)
