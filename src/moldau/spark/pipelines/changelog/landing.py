"""The first step of a batch: each record becomes a change, a delete or a dead letter.

A dead letter leaves the row of its key as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.arrow_functions import arrow_function
from moldau.spark.pipelines.changelog.fields import Fields, joined, widened
from moldau.spark.pipelines.changelog.querying import last_by_key
from moldau.spark.pipelines.changelog.rows import (
    BATCH,
    KEY,
    RAW,
    newest_by_key,
    sorted_out,
)
from moldau.spark.pipelines.changelog.store import Store
from moldau.spark.pipelines.changelog.version import Totals, Version, with_batch
from moldau.spark.pipelines.records.gathering import Chosen, Rows, gathered
from moldau.spark.pipelines.records.reasons import check_ratio, too_large
from moldau.spark.pipelines.tables.appending import TableWriter, file_count

RECORD_SIZE_MAX: Final = 16 * 1024 * 1024
"""Bytes of a record: those of a row that still fits many times into the memory of a task. Larger
ones are dead letters, and not read."""

_CHANGE: Final = "change"
_DELETE: Final = "delete"
_DEAD: Final = "dead"
_FATE: Final = "fate"
_SORTED_OUT: Final = "key: STRING, raw: STRING, reason: STRING, seen: STRING"
_COLUMNS: Final = {
    KEY: "change_key", RAW: "raw", "_partition": "partition", "_offset": "offset",
    "_timestamp": "timestamp", BATCH: "batch",
}  # fmt: skip
_DEAD_COLUMNS: Final = (
    "key", "value", "reason", "topic", "partition", "offset", "timestamp", "batch", "date",
)  # fmt: skip


class Landing:
    """Writes what batches bring; the version it returns is yet to be committed."""

    def __init__(self, store: Store, dead_letters: TableWriter, bad_ratio: float | None) -> None:
        self._store = store
        self._dead_letters = dead_letters
        self._bad_ratio = bad_ratio

    def land(self, version: Version, records: DataFrame) -> Version:
        """Write the changes and dead letters of a batch, and return the version after it."""
        with gathered(_sorted_out(records, version.batch + 1)) as rows:
            totals = Totals(
                *(rows.count(Chosen(_FATE, fate)) for fate in (_CHANGE, _DELETE, _DEAD))
            )
            check_ratio(totals.dead, sum(totals), self._bad_ratio)
            if totals.dead:
                dead = rows.part(Chosen(_FATE, _DEAD), {name: name for name in _DEAD_COLUMNS})
                if isinstance(dead, DataFrame):
                    dead = dead.coalesce(file_count(totals.dead))
                self._dead_letters.append(dead, version.dead_appends)
            part, count = None, totals.changes + totals.deletes
            if count:
                part = self._store.write_changes(version, _changes(rows), count)
            return with_batch(version, widened(version.fields, _seen(rows)), part, totals)


def _sorted_out(records: DataFrame, number: int) -> DataFrame:
    sort_out = arrow_function(sorted_out, f"STRUCT<{_SORTED_OUT}>")
    is_large, size = too_large(RECORD_SIZE_MAX)
    key, value = (F.when(~is_large, F.col(name)) for name in ("key", "value"))
    found = records.withColumn("found", sort_out(key, value))
    reason = F.when(is_large, size).otherwise(F.col("found.reason"))
    raw = F.col("found.raw")
    is_dead = reason.isNotNull()
    fate = F.when(is_dead, _DEAD).when(raw.isNull(), _DELETE).otherwise(_CHANGE)
    return found.select(
        # The bytes of good records are not wanted any more.
        F.when(is_dead, F.col("key")).alias("key"),
        F.when(is_dead, F.col("value")).alias("value"),
        "topic",
        "partition",
        "offset",
        "timestamp",
        F.col("found.key").alias("change_key"),
        raw.alias("raw"),
        reason.alias("reason"),
        F.col("found.seen").alias("seen"),
        fate.alias(_FATE),
        F.lit(number).cast("long").alias("batch"),
        F.to_date(F.col("now").cast("timestamp")).alias("date"),
    )


def _changes(rows: Rows) -> pa.Table | DataFrame:
    """Return the last change of each key; the driver's are sorted, as those of files are."""
    part = rows.part(None, _COLUMNS)
    if isinstance(part, DataFrame):
        return last_by_key(part.where(F.col(KEY).isNotNull()))
    return newest_by_key(part.filter(part.column(KEY).is_valid())).sort_by(KEY)


def _seen(rows: Rows) -> Fields:
    """Return the types of all fields of the batch."""
    seen: dict[str, str] = {}
    for text in _texts(rows):
        for name, kind in json.loads(text).items():
            seen[name] = joined(seen.get(name, kind), kind)
    return seen


def _texts(rows: Rows) -> Iterable[str]:
    if rows.small is None:
        found = rows.frame.where(F.col("seen").isNotNull()).select("seen").distinct()
        return [row.seen for row in found.collect()]
    texts: list[str] = pc.unique(rows.small.column("seen").drop_null()).to_pylist()
    return texts
