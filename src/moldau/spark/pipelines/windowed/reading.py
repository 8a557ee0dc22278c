"""Rows that were filed, read again when their windows are over."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.tables.appending import TableWriter
from moldau.spark.pipelines.windowed.closing import Closing

SPAN: Final = ("window_start", "window_end")


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
