"""In which forms a pipeline can keep its tables, and what each of them needs.

Parquet needs nothing. Delta and Iceberg are libraries for Spark's virtual machine that a user
brings along, `--conf spark.jars.packages=...`; whether they are there is asked before a pipeline
touches anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from moldau.base.clock import SystemClock
from moldau.base.errors import UserError
from moldau.spark.pipelines.declaration import DELTA, ICEBERG
from moldau.spark.pipelines.storage import Files
from moldau.spark.pipelines.tables.appending import Commits, Table, TableWriter
from moldau.spark.pipelines.tables.delta import DeltaTable
from moldau.spark.pipelines.tables.delta_log import DELTA_PACKAGE
from moldau.spark.pipelines.tables.file_log import FileLog
from moldau.spark.pipelines.tables.iceberg import IcebergCommits
from moldau.spark.pipelines.tables.merging import Layout, Merger

EXTENSIONS: Final = "spark.sql.extensions"
_MADE_FOR: Final = re.compile(r"_(\d+\.\d+)_\d+\.\d+-[^/]*\.jar$")
"""The release of Spark's in the name of a library that reaches into it, as Delta does."""


class Library(NamedTuple):
    """What a format needs."""

    package: str
    """Where it is found, for the Spark of this Moldau."""
    proof: str
    """A class of it."""
    settings: Mapping[str, str] = {}
    """Settings of Spark's with which it works."""


LIBRARIES: Final[Mapping[str, Library]] = {
    DELTA: Library(
        DELTA_PACKAGE,
        "org.apache.spark.sql.delta.DeltaLog",
        {
            EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            # A log of a few hundred files is no work for 50 tasks, which is what Delta starts.
            "spark.databricks.delta.snapshotPartitions": "2",
        },
    ),
    ICEBERG: Library(
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "org.apache.iceberg.hadoop.HadoopTables",
    ),
}


def settings_with(table_format: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Spark's with those that a format needs; what is given is stronger."""
    library = LIBRARIES.get(table_format)
    if library is None:
        return dict(given)
    settings = {**library.settings, **given}
    if EXTENSIONS in given and EXTENSIONS in library.settings:  # of those there may be several
        listed = [*given[EXTENSIONS].split(","), library.settings[EXTENSIONS]]
        settings[EXTENSIONS] = ",".join(dict.fromkeys(listed))
    return settings


def check_library(spark: SparkSession, table_format: str) -> None:
    """Refuse a format whose library is not there."""
    library = LIBRARIES.get(table_format)
    if library is None:
        return
    if not has_library(spark, table_format):
        name, _, version = library.package.partition(":")[2].partition(":")
        check_release(f"{name}-{version}.jar", spark.version)
        raise UserError(
            f"tables of {table_format.title()} need a library that Spark has not: give"
            f" --conf spark.jars.packages={library.package}, or its files with --conf spark.jars"
        )
    source = (
        _classes(spark)
        .classForName(library.proof, False, False)
        .getProtectionDomain()
        .getCodeSource()
    )
    check_release(str(source.getLocation()), spark.version)


def has_library(spark: SparkSession, table_format: str) -> bool:
    """Tell whether the library of a format is there."""
    return bool(_classes(spark).classIsLoadable(LIBRARIES[table_format].proof))


def _classes(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other way to ask
    return jvm.org.apache.spark.util.Utils


def check_release(location: str, running: str) -> None:
    """Refuse a library that is made for another Spark: it would fail in the middle of a batch."""
    made_for = _MADE_FOR.search(location)
    if made_for is not None and not running.startswith(f"{made_for[1]}."):
        raise UserError(
            f"{location.rpartition('/')[2]} is made for Spark {made_for[1]} and this is Spark"
            f" {running}: run with PySpark {made_for[1]}, or give the library for this one with"
            " --conf spark.jars"
        )


def table_writer(
    table_format: str,
    spark: SparkSession,
    files: Files,
    path: str,
    *,
    owner: str,
    partitioned_by: Sequence[str],
    layout: Layout | None,
) -> TableWriter:
    """Return the writer of a table.

    `owner` is the id of the pipeline, `layout` how files look that we have merged.
    """
    if table_format == DELTA:
        return DeltaTable(spark, path, owner, partitioned_by)
    commits: Commits
    if table_format == ICEBERG:
        commits = IcebergCommits(spark, files, path, partitioned_by)
    else:
        commits = FileLog(files, path, Merger(files, path, SystemClock(), layout))
    return Table(files, path, commits, partitioned_by)
