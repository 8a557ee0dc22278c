"""One task: the records of a range of offsets, from the leader of its partition to Arrow's columns.

While a record batch is decoded and handed to Spark, the next answer is on its way: one answer is
fetched ahead (`fetching`), never beyond the end of the range. No object is made per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np
from pyspark.sql.datasource import InputPartition

from moldau.client.records import TopicPartition
from moldau.engine.arrow_answer import BYTES_PER_BATCH, RECORDS_PER_BATCH, ArrowAnswer
from moldau.engine.arrow_batches import RecordBatch
from moldau.engine.fetched_batches import BatchWalk
from moldau.spark.source.columns import arrow_form, as_spark_has_it
from moldau.spark.source.connections import connection_to
from moldau.spark.source.fetching import Answer, Fetching
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.ranges import OffsetRange
from moldau.spark.source.value_options import ValueFormat


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, partition: TopicPartition, topic_id: str, start: int, end: int) -> None:
        super().__init__(None)
        self.topic, self.partition = partition
        self.topic_id = topic_id
        """In hexadecimal digits; empty if the broker did not tell."""
        self.start = start
        self.end = end

    @property
    def offsets(self) -> OffsetRange:
        """What is read, without whose it is."""
        return OffsetRange(TopicPartition(self.topic, self.partition), self.start, self.end)

    def __repr__(self) -> str:
        return f"RangePartition({self.topic}-{self.partition}, {self.start} to {self.end})"


class Pace(NamedTuple):
    """How much is done at a time; what each part of it is worth is what `bench.spark` measures."""

    rows: int = RECORDS_PER_BATCH
    """How many a record batch has at most, but for a single batch of the log that has more."""
    ahead: int = 1
    """How many answers are asked for before the last one has been handed over: one, or none."""


USUAL_PACE: Final = Pace()


def read_range(
    options: SourceOptions, wanted: RangePartition, pace: Pace = USUAL_PACE
) -> Iterator[RecordBatch]:
    """Read the records of a range, as record batches in the order of their offsets."""
    # The driver has reached the brokers: a process that is new to them waits as any other task.
    connection = connection_to(options.connection, options.poll_timeout_ms)
    finish = _finishing(options)
    fetching = Fetching(connection.cluster, options, wanted.offsets, wanted.topic_id)
    coming = connection.begin(fetching.next())
    try:
        while (answer := coming.result()) is not None:
            if pace.ahead:
                coming = connection.begin(fetching.next())
            for batch in _decoded(answer, options, wanted, pace):
                if (rows := finish(batch, options)).num_rows:
                    yield rows
            if not pace.ahead:
                coming = connection.begin(fetching.next())
    finally:
        coming.cancel()


def _finishing(options: SourceOptions) -> Callable[[RecordBatch, SourceOptions], RecordBatch]:
    """Return what is done to record batches last.

    What reads values is large, and a query that takes them as bytes starts sooner without it: every
    stream has Spark start a process that imports this module.
    """
    if options.values.format is ValueFormat.BINARY and options.max_record_size is None:
        return lambda batch, _: batch
    if options.values.format is ValueFormat.BINARY:
        from moldau.spark.source.cutting import cut  # noqa: PLC0415 - only where it is needed

        return cut
    from moldau.spark.source.finishing import finished  # noqa: PLC0415 - only where it is needed

    return finished


def _decoded(
    answer: Answer, options: SourceOptions, wanted: RangePartition, pace: Pace
) -> Iterator[RecordBatch]:
    walk = BatchWalk(
        answer.view,
        answer.spans,
        answer.fetch_offset,
        answer.aborted,
        check_crcs=options.check_crcs,
    )
    columns = ArrowAnswer(
        wanted.offsets.partition,
        answer.view,
        walk,
        arrow_form(include_headers=options.needs_headers),
    )
    while (taken := columns.take(pace.rows, BYTES_PER_BATCH)) is not None:
        batch = as_spark_has_it(taken.batch)
        if taken.next_offset > wanted.end:
            offsets = batch.column("offset").to_numpy()
            batch = batch.slice(0, int(np.searchsorted(offsets, wanted.end)))
        if batch.num_rows:
            yield batch
