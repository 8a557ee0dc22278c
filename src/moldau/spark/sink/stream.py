"""The sink of a stream, as Spark sees it.

Spark makes a writer before every batch and for every commit, on the driver and from its pickle in
each task: they hold options and nothing else. In a task Spark tells which query and which batch it
is for; on the driver only the number of the batch, so that the messages of tasks bring the query
along.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moldau.base.errors import ConfigError, UserError
from moldau.spark.sink.columns import check_types
from moldau.spark.sink.held import Kept
from moldau.spark.sink.messages import RowsStaged, RowsWritten, staged_rows
from moldau.spark.sink.options import ONCE_ID, SinkOptions
from moldau.spark.sink.plain import write_plain
from moldau.spark.sink.publication import PublicationOutcome, Publisher, Writer
from moldau.spark.sink.staging import Share, stage

logger = logging.getLogger(__name__)

QUERY_PROPERTY: Final = "sql.streaming.queryId"
BATCH_PROPERTY: Final = "streaming.sql.batchId"
RUN_PROPERTY: Final = "spark.jobGroup.id"
"""Spark's own names for what it tells its tasks; a test looks at them in every version."""

_PUBLISHERS_MAX: Final = 8
"""Queries of one driver that keep their transactional id between batches in one process."""

_publishers: Final[Kept[tuple[str, str], Publisher]] = Kept(_PUBLISHERS_MAX)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """Return the writer for a stream; what the options or the columns cannot be is refused.

    `overwrite` is how Spark says that every batch holds the whole result (output mode `complete`).
    A topic takes it as what it is, one more state of the result.
    """
    del overwrite
    read = SinkOptions.from_options(options)
    if read.once_id is not None:
        raise ConfigError(
            f"{ONCE_ID} is for batch queries: a stream has an id of its own, in its checkpoint"
        )
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    check_types(types, read.topic)
    return OnceStreamWriter(read) if read.exactly_once else PlainStreamWriter(read)


class PlainStreamWriter(DataSourceStreamArrowWriter):
    """Writes as rows come; there is nothing left to commit."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return RowsWritten(write_plain(self._options, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: the rows are there."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: what was written stays, and comes again."""


class OnceStreamWriter(DataSourceStreamArrowWriter):
    """Stages in tasks and publishes on the driver."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return RowsStaged(stage(self._options, _share(), iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Publish what the tasks have staged."""
        staged = staged_rows(messages)
        if not staged:
            return
        writer = Writer.of_query(staged[0].share.writer)
        key = (writer.name, repr(self._options))
        publisher = _publishers.get(key) or _publishers.put(key, Publisher(self._options, writer))
        if publisher.publish(batch_id, staged) is PublicationOutcome.PUBLISHED:
            publisher.clean(staged)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Undo nothing: Spark calls this also after a commit that may have succeeded.

        What was staged is deleted with the next batch, or after its retention time.
        """
        logger.info("batch %d was given up by Spark: %d tasks staged", batch_id, len(messages))


def _share() -> Share:
    """Ask Spark for whom this task works."""
    context = TaskContext.get()
    if context is None:
        raise UserError("rows can only be staged in a task of Spark's")
    query = context.getLocalProperty(QUERY_PROPERTY)
    batch = context.getLocalProperty(BATCH_PROPERTY)
    run = context.getLocalProperty(RUN_PROPERTY)
    if query is None or batch is None or run is None:
        raise UserError(
            "this Spark does not tell a task its query, run and batch, which exactly.once=true"
            " needs: use PySpark 4.2 or 4.3"
        )
    return Share(query, int(batch), context.partitionId(), context.taskAttemptId(), run)
