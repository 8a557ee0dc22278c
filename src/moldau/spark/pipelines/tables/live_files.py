"""Which files make up a table of any format, for readers on this machine without Spark."""

from __future__ import annotations

from pathlib import Path

from moldau.spark.pipelines.tables.committed import DELTA_LOG, ICEBERG_LOG, TableFile, files_of
from moldau.spark.pipelines.tables.delta_log import delta_files
from moldau.spark.pipelines.tables.iceberg_log import iceberg_files


def live_files(table: Path) -> list[TableFile]:
    """Return the files of a table; none if nothing was appended to it yet.

    FileNotFoundError if something goes away meanwhile: the caller looks again.
    """
    if (table / DELTA_LOG).is_dir():
        return delta_files(table)
    if (table / ICEBERG_LOG).is_dir():
        return iceberg_files(table)
    return files_of(table)
