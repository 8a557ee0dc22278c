"""The task's half of exactly once: encode rows, put the batches aside, tell the driver where.

What a task stages counts for nothing until the driver publishes it, so a task may fail, be run
twice at once or come back from the dead: whoever's message the driver is given counts, and nobody
else's. Small shares travel in the message itself. Larger ones are written to a topic of the query's
own, each batch as the value of one record, so that the broker never mixes them up with anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from moldau.base.clock import Clock, SystemClock, system_random
from moldau.client.batch_producer import BatchProducer, BatchResult
from moldau.records.batch import HEADER_SIZE, pack_batch
from moldau.records.builder import BatchBuilder
from moldau.spark.errors import WriteInterrupted
from moldau.spark.sink.encoding import EncodedBatch
from moldau.spark.sink.held import producer_for
from moldau.spark.sink.helping_topics import ensure_staging_topic
from moldau.spark.sink.options import SinkOptions
from moldau.spark.sink.rows import Outgoing, RowEncoder, RowFormat


class Share(NamedTuple):
    """Who stages, and for what."""

    writer: str
    """The query's id, or that of one write."""
    batch_id: int
    task: int
    attempt: int
    run: str = ""
    """From one start of a query to its end; Spark has only one at a time in a driver."""

    @property
    def label(self) -> bytes:
        """The key of what is staged: nobody reads it but people who wonder what it is."""
        return f"{self.writer}/{self.batch_id}/{self.task}/{self.attempt}".encode()


class Inline(NamedTuple):
    """A batch that travels in the message."""

    topic: str
    partition: int
    plain_size: int
    content: bytes


class Located(NamedTuple):
    """A batch that waits in the topic for staging."""

    topic: str
    partition: int
    plain_size: int
    staging_offset: int


class StagedRows(NamedTuple):
    """What a task has put aside."""

    share: Share
    row_count: int
    inline: tuple[Inline, ...] = ()
    staging_topic: str = ""
    staging_partition: int = 0
    located: tuple[Located, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.inline and not self.located


def stage(
    options: SinkOptions,
    share: Share,
    arriving: Iterable[Any],
    *,
    passing: bool = False,
) -> StagedRows:
    """Put the rows of one task aside, given as `pyarrow.RecordBatch`es.

    `passing` says that the topic for staging is deleted once they are published.
    """
    clock = SystemClock()
    with producer_for(options) as producer:
        form = RowFormat.of(producer.settings, options.topic)
        encoder = RowEncoder(form, producer, clock, system_random())
        batches = encoder.batches(arriving)
        inline, more = _inline(batches, options.inline_size_max)
        if not more:
            return StagedRows(share, encoder.row_count, tuple(inline))
        staged = _staged(options, producer, share, _chained(inline, more, batches), clock)
        if passing:
            producer.forget(staged.staging_topic)
        return staged._replace(row_count=encoder.row_count)


def _inline(batches: Iterator[Outgoing], room: int) -> tuple[list[Inline], list[Inline]]:
    """Take batches until they need more room than a message has; return those, and the next."""
    taken: list[Inline] = []
    size = 0
    for outgoing in batches:
        one = _packed(outgoing)
        size += len(one.content)
        if size > room:
            return taken, [one]
        taken.append(one)
    return taken, []


def _packed(outgoing: Outgoing) -> Inline:
    topic, partition, (header, records, plain_size) = outgoing
    return Inline(topic, partition, plain_size, pack_batch(header, records))


def _chained(
    inline: list[Inline], more: list[Inline], rest: Iterator[Outgoing]
) -> Iterator[Inline]:
    yield from inline
    yield from more
    yield from map(_packed, rest)


def _staged(
    options: SinkOptions,
    producer: BatchProducer,
    share: Share,
    batches: Iterable[Inline],
    clock: Clock,
) -> StagedRows:
    """Write batches to the topic for staging; all of a task's go to one partition of it."""
    topic = options.staging_topic(share.writer)
    if not producer.knows(topic):
        ensure_staging_topic(options, topic)
    partition = share.task % producer.partition_count(topic)
    sent: list[tuple[Inline, BatchResult]] = []
    for one in batches:
        wrapped = _wrapped(share.label, one.content, clock.wall_ms())
        batch_result = producer.send_batch(topic, partition, *wrapped)
        sent.append((one._replace(content=b""), batch_result))
    producer.flush_batches()
    if any(batch_result.base_offset < 0 for _, batch_result in sent):
        raise WriteInterrupted(
            f"the broker did not tell where it put rows staged in {topic}-{partition}: a further"
            " attempt of the task stages them again"
        )
    located = (
        Located(one.topic, one.partition, one.plain_size, batch_result.base_offset)
        for one, batch_result in sent
    )
    return StagedRows(share, 0, (), topic, partition, tuple(located))


def _wrapped(label: bytes, content: bytes, now_ms: int) -> EncodedBatch:
    """Make a batch the only record of another."""
    builder = BatchBuilder()
    builder.append(now_ms, label, content)
    header, sealed = builder.seal()
    return EncodedBatch(header, memoryview(sealed)[HEADER_SIZE:], len(sealed))
