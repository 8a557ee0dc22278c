"""Counts of windows that are still open, sent to a topic as they grow.

A query of its own, in Spark's update mode: each trigger sends the counts of the pages and searches
whose windows have changed. The key is the window and what was viewed or searched for, so that the
last record of a key is what counts, and sending one twice changes nothing; a compacted topic keeps
just these. Users are counted approximately, and what is late is for Spark's own watermark to say:
the tables are exact, this is quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it
from pyspark.sql.streaming.readwriter import DataStreamWriter

from moldau.spark.pipelines.activity.events import VIEW
from moldau.spark.pipelines.windowed.reading import is_too_old

_STAMP: Final = "yyyy-MM-dd'T'HH:mm:ss'Z'"
_YEAR_MAX: Final = 9999
"""An event can be of the year after it, by its zone."""


def live_counts(
    events: DataFrame, sink: Mapping[str, str], *, window_ms: int, delay_ms: int, skew_ms: int
) -> DataStreamWriter:
    """Return what writes the counts of open windows."""
    latest = F.col("now").cast("timestamp") + F.make_dt_interval(secs=F.lit(skew_ms / 1000))
    # Compared as texts, as Spark compiles its code anew for every number that stands in it. Texts
    # of years with five digits begin with a plus, and would come first.
    is_later = F.date_format("time", _STAMP) > F.date_format(latest, _STAMP)
    is_future = is_later | (F.year("time") > _YEAR_MAX)
    told = events.where(F.col("reason").isNull() & ~is_future & ~is_too_old())
    name = F.when(F.col("kind") == VIEW, F.col("page")).otherwise(F.col("query"))
    counts = (
        told.withColumn("name", name)
        .withWatermark("time", f"{delay_ms} milliseconds")
        .groupBy(F.window("time", f"{window_ms} milliseconds"), "kind", "name")
        .agg(F.count("*").alias("count"), F.approx_count_distinct("user").alias("users"))
    )
    records = counts.select(
        F.concat_ws(" ", F.date_format("window.start", _STAMP), "kind", "name").alias("key"),
        F.to_json(_message()).alias("value"),
    )

    def send(changed: DataFrame, number: int) -> None:
        """Send the counts of a batch; Spark lets no format in Python take updates by itself."""
        del number
        changed.write.format("moldau").options(**sink).mode("append").save()

    return records.writeStream.outputMode("update").foreachBatch(send)


def _message() -> Column:
    """Return what is sent of a count, under the names of the tables; JSON leaves out nulls."""

    def of(is_kind: Column, **columns: str) -> list[Column]:
        return [F.when(is_kind, F.col(name)).alias(called) for called, name in columns.items()]

    is_view = F.col("kind") == VIEW
    return F.struct(
        F.date_format("window.start", _STAMP).alias("window_start"),
        F.date_format("window.end", _STAMP).alias("window_end"),
        *of(is_view, page="name", pv="count", uv_approx="users"),
        *of(~is_view, query="name", searches="count", users_approx="users"),
    )
