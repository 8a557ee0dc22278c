"""Sessions: what a user does without a long pause, found as windows close.

A session is over once every event that could prolong it would be late: when its last event lies at
least the gap before the end of the closed windows. The ones that are not over are carried on, in a
small table of their own for each closing, which the next one reads. It is written whole and under
the number of the closing, so that a batch that is run again writes the same again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.activity.events import SEARCH, VIEW
from moldau.spark.pipelines.storage import SparkFiles

_COLUMNS: Final = (
    "user STRING, start TIMESTAMP, end TIMESTAMP, views BIGINT, searches BIGINT"
)  # fmt: skip

CARRIED_KEPT: Final = 3
"""Of how many closings the open sessions are kept: a batch is run again from the one before it."""


class Sessions:
    """Carries open sessions from closing to closing."""

    def __init__(self, spark: SparkSession, files: SparkFiles, folder: str, gap_ms: int) -> None:
        self._spark = spark
        self._files = files
        self._folder = folder
        self._gap_ms = gap_ms

    @contextmanager
    def ended(
        self, events: DataFrame | None, closing_number: int, until_ms: int
    ) -> Iterator[DataFrame | None]:
        """Give the sessions that have ended with a closing, None if there are none.

        Those that have not are carried on before.
        """
        parts = [*([] if events is None else [_moments(events)]), *self._carried(closing_number)]
        if not parts:
            yield None
            return
        whole = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
        is_over = F.unix_millis("end") + self._gap_ms <= until_ms
        sessions = _joined(whole, self._gap_ms).withColumn("is_over", is_over)
        sessions.persist()
        try:
            self._carry(sessions.where(~F.col("is_over")).drop("is_over"), closing_number + 1)
            over = sessions.where("is_over").drop("is_over")
            yield None if over.isEmpty() else over.withColumn("date", F.to_date("start"))
        finally:
            sessions.unpersist()

    def _carry(self, sessions: DataFrame, closing_number: int) -> None:
        sessions.coalesce(1).write.mode("overwrite").parquet(self._place(closing_number))
        self._files.remove(self._place(closing_number - CARRIED_KEPT))

    def _carried(self, closing_number: int) -> list[DataFrame]:
        place = self._place(closing_number)
        if not self._files.exists(f"{place}/_SUCCESS"):
            return []
        return [self._spark.read.schema(_COLUMNS).parquet(place)]

    def _place(self, closing_number: int) -> str:
        return f"{self._folder}/{closing_number:010d}"


def _moments(events: DataFrame) -> DataFrame:
    """Return each event as a session of its own."""
    return events.select(
        "user",
        F.col("time").alias("start"),
        F.col("time").alias("end"),
        (F.col("kind") == VIEW).cast("long").alias("views"),
        (F.col("kind") == SEARCH).cast("long").alias("searches"),
    )


def _joined(parts: DataFrame, gap_ms: int) -> DataFrame:
    """Join what lies closer together than the gap."""
    by_start = Window.partitionBy("user").orderBy("start", "end")
    before = by_start.rowsBetween(Window.unboundedPreceding, -1)
    last_end = F.max("end").over(before)
    pause_ms = F.unix_millis("start") - F.unix_millis(last_end)
    begins = (last_end.isNull() | (pause_ms >= gap_ms)).cast("int")
    numbered = parts.withColumn("_begins", begins).withColumn(
        "_session", F.sum("_begins").over(by_start)
    )
    return (
        numbered.groupBy("user", "_session")
        .agg(
            F.min("start").alias("start"),
            F.max("end").alias("end"),
            F.sum("views").alias("views"),
            F.sum("searches").alias("searches"),
        )
        .drop("_session")
    )
