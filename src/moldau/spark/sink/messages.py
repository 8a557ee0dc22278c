"""What tasks tell the driver, in the form that Spark carries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from moldau.spark.sink.staging import StagedRows


@dataclass
class RowsWritten(WriterCommitMessage):
    """A task has written its rows."""

    row_count: int


@dataclass
class RowsStaged(WriterCommitMessage):
    """A task has put its rows aside."""

    rows: StagedRows


def staged_rows(messages: Iterable[WriterCommitMessage | None]) -> list[StagedRows]:
    """Return what tasks have put aside; a task that was given no rows may have sent nothing."""
    return [message.rows for message in messages if isinstance(message, RowsStaged)]
