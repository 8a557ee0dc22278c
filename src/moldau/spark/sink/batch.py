"""The sink of a batch query, as Spark sees it.

By default rows are written as they come. With `exactly.once=true` they appear all together or not
at all; and with `exactly.once.id` too, a query that is run again under the same id, because nobody
knew how the first run ended, writes nothing. Who writes again and again numbers the writes of one
id: then one marker does for all of them, and one transactional id.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moldau.base.errors import UserError
from moldau.client.errors import ClientError
from moldau.spark.sink.columns import check_types
from moldau.spark.sink.helping_topics import delete_staging_topic
from moldau.spark.sink.messages import RowsStaged, RowsWritten, staged_rows
from moldau.spark.sink.options import SinkOptions
from moldau.spark.sink.plain import write_plain
from moldau.spark.sink.publication import Publisher, Writer
from moldau.spark.sink.staging import Share, stage

logger = logging.getLogger(__name__)


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """Return the writer for a query; what the options or the columns cannot be is refused."""
    if overwrite:
        raise UserError('a topic cannot be overwritten, only added to: use .mode("append")')
    read = SinkOptions.from_options(options)
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    check_types(types, read.topic)
    return OnceBatchWriter(read) if read.exactly_once else PlainBatchWriter(read)


class PlainBatchWriter(DataSourceArrowWriter):
    """Writes as rows come; there is nothing left to commit."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of a task."""
        return RowsWritten(write_plain(self._options, iterator))


class OnceBatchWriter(DataSourceArrowWriter):
    """Stages in tasks and publishes on the driver.

    Tasks and driver are given pickles of one writer, so that they agree on the id made here.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._attempt = str(uuid.uuid4())
        """Names this run of the query: its topic for staging is nobody else's."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        context = TaskContext.get()
        if context is None:
            raise UserError("rows can only be staged in a task of Spark's")
        task, attempt = context.partitionId(), context.taskAttemptId()
        share = Share(self._attempt, self._options.once_number, task, attempt)
        return RowsStaged(stage(self._options, share, iterator, passing=True))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish what the tasks have staged."""
        staged = staged_rows(messages)
        writer = Writer.of_write(self._attempt, self._options.once_id)
        publisher = Publisher(self._options, writer)
        try:
            publisher.publish(self._options.once_number, staged)
        finally:
            publisher.give_up()
        if any(one.located for one in staged):  # small writes are many: they pay for no question
            self._clean()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete what was staged; whatever was published stays.

        Spark calls this also after a commit that failed. The topic may be there though no message
        names it: those of tasks that failed have not come.
        """
        del messages
        self._clean()

    def _clean(self) -> None:
        topic = self._options.staging_topic(self._attempt)
        try:
            delete_staging_topic(self._options, topic)
        except ClientError as error:
            logger.warning("%s may be left behind, delete it: %s", topic, error)
