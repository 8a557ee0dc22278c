"""Rows before they are filed, and after: the two ends at which a pipeline's own work begins."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.tables.appending import TableWriter
from moldau.spark.pipelines.windowed.closing import Closing

ORIGIN: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "now")
"""What a parser hands on of a record, beside the columns it adds: its own, `time` (null where it
finds none) and `reason` (what is wrong with the record, null for a good one)."""

RECORD_SIZE_MAX: Final = 1024 * 1024
"""Bytes of a record whose texts have limits of their own, and are far below that: as much as
brokers take unless they are told otherwise. Larger ones are dead letters, and not read."""

TIME_FORM: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?$"
"""ISO 8601; UTC where no zone is named. Spark alone would also take a time without a date, and add
the day on which it happens to read it."""

SPAN: Final = ("window_start", "window_end")


def with_now(records: DataFrame) -> DataFrame:
    """Add `now`, the time that Spark has written down for the batch.

    It is the same when the batch is run again. It is text: Spark compiles its code anew for every
    number that stands in it, and not for texts.
    """
    return records.withColumn("now", F.current_timestamp().cast("string"))


def rows_of(
    spark: SparkSession, table: TableWriter, columns: str, closing: Closing, window_ms: int
) -> DataFrame | None:
    """Return the rows on time of closed windows, with `window_start` and `window_end`.

    None if there are none. `table` is that of rows on time, `columns` are its own, as SQL declares
    them.
    """
    if not closing.paths:
        return None
    rows = table.read(spark, columns, closing.paths)
    rows = rows.where(F.col("time") < moment(closing.until_ms))
    if closing.since_ms is not None:
        rows = rows.where(F.col("time") >= moment(closing.since_ms))
    begin_ms = F.floor(F.unix_millis("time") / window_ms) * window_ms
    start, end = F.timestamp_millis(begin_ms), F.timestamp_millis(begin_ms + window_ms)
    return rows.withColumn(SPAN[0], start).withColumn(SPAN[1], end)


def is_too_old() -> Column:
    """Tell whether the time of a row lies before 1970.

    Clocks that were never set begin there. The form lets years through that Python does not know,
    and a row of such a year would stop every batch that holds it.
    """
    return F.col("time") < moment(0)


def moment(time_ms: int) -> Column:
    """Return a time as Spark has it."""
    return F.timestamp_millis(F.lit(time_ms))
