"""What has been committed to tables, read without Spark; who writes them is not disturbed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq

from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.reading import current
from moldau.spark.pipelines.tables.committed import files_of


class Table(Protocol):
    """Something with rows."""

    def row_count(self) -> int:
        """Return how many rows there are now."""


class AppendedTable:
    """A table to which rows are appended; a file never changes, so each is counted once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[Path, int] = {}

    def row_count(self) -> int:
        """Count what is new, and add up."""
        try:
            paths = [one.path for one in files_of(self._folder)]
            self._rows = {path: self._count(path) for path in paths}
        except FileNotFoundError:
            pass  # it was merged into another one while we looked: the next look is better
        return sum(self._rows.values())

    def _count(self, path: Path) -> int:
        known = self._rows.get(path)
        return int(pq.read_metadata(path).num_rows) if known is None else known


class KeyedTable:
    """A table that holds one row for each key of a compacted topic."""

    def __init__(self, out: Path) -> None:
        self._out = str(out)

    def row_count(self) -> int:
        """Count the keys that are not deleted."""
        try:
            return int(current(self._out, columns=()).num_rows)
        except UserError:
            return 0  # the pipeline has not had a batch yet


def table_of(out: Path, name: str) -> Table:
    """Return a table of the pipeline in a folder."""
    return KeyedTable(out) if name == "table" else AppendedTable(out / name)


def newest_rows(folder: Path, time: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the last append whose `time` is the newest."""
    paths = sorted((one.path for one in files_of(folder)), key=lambda path: path.name)
    for path in reversed(paths):
        rows = pq.read_table(path, columns=[time, *columns], partitioning=None).to_pylist()
        if rows:
            newest = max(row[time] for row in rows)
            return [row for row in rows if row[time] == newest]
    return []
