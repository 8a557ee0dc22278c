"""Rows of files that a log of some format names, on a Spark that does not know the format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from moldau.spark.pipelines.tables.appending import unpatterned
from moldau.spark.pipelines.tables.committed import TableFile, value_of

_FILE: Final = "_file_name"
_DATE: Final = "date"
"""The one column that folders are named for and that is no text."""


def frame_of_files(spark: SparkSession, files: Sequence[TableFile]) -> DataFrame | None:
    """Return the rows of files with the columns that these are filed by; None without files.

    Names of files are used once in a table: which rows belong to which day is found by them, as
    Spark would find it by folders, if all formats had the same.
    """
    if not files:
        return None
    names = list(files[0].keys)
    keys = spark.createDataFrame(
        pa.table({
            _FILE: [file.path.name for file in files],
            **{name: pa.array([value_of(file.keys[name]) for file in files]) for name in names},
        })
    )  # fmt: skip
    reader = unpatterned(spark.read).option("mergeSchema", "true")
    rows = reader.parquet(*(f"file:{file.path}" for file in files)).drop(*names)
    found = rows.withColumn(_FILE, F.col("_metadata.file_name")).join(F.broadcast(keys), _FILE)
    if _DATE in names:
        found = found.withColumn(_DATE, F.col(_DATE).cast(_DATE))
    return found.drop(_FILE)
