"""Sessions: what a user does without a long pause, found as windows close.

A session is over once every event that could prolong it would be late: when its last event lies at
least the gap before the end of the closed windows. The ones that are not over are carried on, in a
folder of their own for each closing, which the next one reads: the state says which. It is written
under the number of the closing, so that a batch that is run again writes the same again.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.records.gathering import Chosen, Rows
from moldau.spark.pipelines.storage import Files
from moldau.spark.pipelines.tables.appending import parquet_bytes, read_folder
from moldau.spark.pipelines.windowed.batches import STATES_KEPT
from moldau.spark.pipelines.windowed.closing import State

_NOTE: Final = "sessions"
_COLUMNS: Final = "name STRING, start TIMESTAMP, end TIMESTAMP, first BIGINT, second BIGINT"
_NAMES: Final = {name: name for name in ("name", "start", "end", "first", "second")}
_OVER, _OPEN = "sessions", "open"


class Sessions:
    """Carries open sessions from closing to closing."""

    def __init__(self, spark: SparkSession, files: Files, folder: str, gap_ms: int) -> None:
        self._spark = spark
        self._files = files
        self._folder = folder
        self._gap_ms = gap_ms

    def of(self, state: State, events: DataFrame | None, until_ms: int) -> list[DataFrame]:
        """Return the sessions of a closing, those that are over and those that are not.

        A list of one frame, or of none where nothing is there that could be a session.
        """
        parts = [] if events is None else [_moments(events)]
        if (place := state.notes.get(_NOTE)) is not None:
            carried = read_folder(self._spark, self._files, _COLUMNS, place)
            parts.append(carried.repartition("name"))
        if not parts:
            return []
        whole = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
        is_over = F.unix_micros("end") + 1000 * self._gap_ms <= 1000 * until_ms
        return [
            _joined(whole, self._gap_ms).select(
                F.when(is_over, _OVER).otherwise(_OPEN).alias("what"),
                F.lit(None).cast("string").alias("top"),
                *_NAMES,
                F.lit(0).cast("long").alias("third"),
                F.lit(0).alias("rank"),
            )
        ]

    def carry(self, state: State, rows: Rows) -> State:
        """Keep what is open for the next closing, and return the state that knows of it."""
        place = f"{self._folder}/{state.closings:010d}"
        self._files.remove(f"{self._folder}/{state.closings - STATES_KEPT:010d}")
        chosen = Chosen("what", _OPEN)
        if not rows.count(chosen):
            return state.with_note(_NOTE, None)
        self._files.remove(place)  # a try before may have left files of other names
        part = rows.part(chosen, _NAMES)
        if isinstance(part, pa.Table):
            self._files.write(f"{place}/open.parquet", parquet_bytes(part))
        else:
            part.write.parquet(place)
        return state.with_note(_NOTE, place)


def _moments(events: DataFrame) -> DataFrame:
    """Return each event as a session of its own."""
    is_view = F.col("what") == "pages"
    return events.select(
        F.col("user").alias("name"),
        F.col("time").alias("start"),
        F.col("time").alias("end"),
        is_view.cast("long").alias("first"),
        (~is_view).cast("long").alias("second"),
    )


def _joined(parts: DataFrame, gap_ms: int) -> DataFrame:
    """Join what lies closer together than the gap."""
    by_start = Window.partitionBy("name").orderBy("start", "end")
    before = by_start.rowsBetween(Window.unboundedPreceding, -1)
    last_end = F.max("end").over(before)
    pause_us = F.unix_micros("start") - F.unix_micros(last_end)
    begins = (last_end.isNull() | (pause_us >= 1000 * gap_ms)).cast("int")
    numbered = parts.withColumn("_begins", begins).withColumn(
        "_session", F.sum("_begins").over(by_start)
    )
    return numbered.groupBy("name", "_session").agg(
        F.min("start").alias("start"),
        F.max("end").alias("end"),
        F.sum("first").alias("first"),
        F.sum("second").alias("second"),
    )
