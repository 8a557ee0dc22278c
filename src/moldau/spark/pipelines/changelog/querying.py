"""The current state of a changelog table as a Spark DataFrame.

from moldau.spark.pipelines.changelog.querying import current_frame

current_frame(spark, "/var/lib/moldau/customers").createOrReplaceTempView("customers")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.base.errors import UserError
from moldau.spark.pipelines.arrow_functions import arrow_function
from moldau.spark.pipelines.changelog.fields import Fields
from moldau.spark.pipelines.changelog.reading import TABLE
from moldau.spark.pipelines.changelog.rows import BATCH, CHANGE, KEY, ORIGIN, RAW, typed
from moldau.spark.pipelines.changelog.store import Store
from moldau.spark.pipelines.changelog.version import Part, Version, widened_names
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.storage import SparkFiles
from moldau.spark.pipelines.tables.appending import read_files

_ORIGIN_COLUMNS: Final = "_partition INT, _offset BIGINT, _timestamp TIMESTAMP"
CHANGE_COLUMNS: Final = f"{KEY} STRING, {RAW} STRING, {_ORIGIN_COLUMNS}, {BATCH} BIGINT"


def current_frame(spark: SparkSession, out: str) -> DataFrame:
    """Return the current table: a row for each key that is not deleted.

    It is the newest version at the time of the call; call again for a newer one. A version can be
    read for ten minutes after it was replaced.
    """
    store = Store(SparkFiles(spark), Places.of(out, desk=".").table(TABLE))
    version = store.newest()
    if version.number < 0:
        raise UserError(f"there is no table in {out}: the pipeline has not had a batch yet")
    return frame_of(spark, store.path, version)


def frame_of(spark: SparkSession, table: str, version: Version) -> DataFrame:
    """Return the rows of a version, by their columns and where they come from."""
    newest = newest_changes(spark, table, version.changes)
    changed = _with_fields(newest.where(F.col(RAW).isNotNull()), version.fields, version.fields)
    if not version.base.names:
        return changed
    from_text = widened_names(version)
    held = {name: kind for name, kind in version.base_fields.items() if name not in from_text}
    columns = f"{KEY} STRING, {_declared(held)}{_ORIGIN_COLUMNS}, {RAW} STRING"
    base = read_files(spark, columns, _paths(table, [version.base]))
    if not version.changes:
        return _with_fields(base, version.fields, from_text)
    kept = base.join(newest.select(KEY), KEY, "left_anti")
    return _with_fields(kept, version.fields, from_text).unionByName(changed)


def newest_changes(spark: SparkSession, table: str, parts: Sequence[Part]) -> DataFrame:
    """Return the last change of each key."""
    if not parts:
        return spark.createDataFrame([], CHANGE_COLUMNS)
    return last_by_key(read_files(spark, CHANGE_COLUMNS, _paths(table, parts)))


def last_by_key(changes: DataFrame) -> DataFrame:
    """Return the last change of each key: of the last batch, and there of the last offset.

    A key lies in one partition. If the topic was given more of them, it may have moved.
    """
    order = F.struct(BATCH, "_partition", "_offset")
    last = F.max_by(F.struct(*CHANGE), order).alias("last")
    return changes.groupBy(KEY).agg(last).select("last.*")


def _with_fields(rows: DataFrame, fields: Fields, read: Fields) -> DataFrame:
    """Return rows with all columns; some of them are read from the text."""

    def convert(texts: pa.Array) -> pa.Array:
        columns = typed(texts, read)
        return pa.StructArray.from_arrays(list(columns.values()), list(columns))

    if read:
        struct = ", ".join(f"{_quoted(name)}: {kind}" for name, kind in read.items())
        rows = rows.withColumn("_read", arrow_function(convert, f"STRUCT<{struct}>")(RAW))
    columns = [_column(rows, name, kind, is_read=name in read) for name, kind in fields.items()]
    return rows.select(KEY, *columns, *ORIGIN, RAW)


def _column(rows: DataFrame, name: str, kind: str, *, is_read: bool) -> Column:
    if is_read:
        return F.col("_read").getField(name).alias(name)
    if name in rows.columns:
        return F.col(_quoted(name))
    return F.lit(None).cast(kind).alias(name)


def _declared(fields: Fields) -> str:
    return "".join(f"{_quoted(name)} {kind}, " for name, kind in fields.items())


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def _paths(table: str, parts: Sequence[Part]) -> list[str]:
    return [f"{table}/{name}" for part in parts for name in part.names]
