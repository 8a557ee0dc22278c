"""The rows of a table that batches are appended to, for people, without Spark: the first, the last.

Files are merged as time goes by, so their order says little. Each row has something that only grows
from append to append: the number of its batch, or the end of its window or session. Least and
greatest values of files say which of them have to be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from moldau.base.errors import UserError
from moldau.spark.pipelines.tables.arrow_files import reading
from moldau.spark.pipelines.tables.committed import TableFile, value_of
from moldau.spark.pipelines.tables.live_files import live_files

ORDERS: Final = ("batch", "window_end", "end")
"""What grows from append to append; a table has one of them."""
_TIES: Final = ("partition", "offset", "rank")
_TRIES: Final = 5
"""Files that were merged stay for an hour; nobody is so slow as to meet that five times."""

Found = TypeVar("Found")


class _Bounded(NamedTuple):
    """A file, and between which values its rows lie."""

    file: TableFile
    least: float
    greatest: float


class AppendedTable:
    """A table on this machine, of any format."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def count(self) -> int:
        """Return how many rows there are."""

        def look() -> int:
            return sum(int(_metadata(one).num_rows) for one in live_files(self._folder))

        return _again(look, self._folder)

    def first(self, count: int, columns: Sequence[str] = ()) -> pa.Table | None:
        """Return the rows that were appended first, with all columns or some; None without rows."""
        return _again(lambda: self._some(count, columns, is_last=False), self._folder)

    def last(self, count: int, columns: Sequence[str] = ()) -> pa.Table | None:
        """Return the rows that were appended last, in their order."""
        return _again(lambda: self._some(count, columns, is_last=True), self._folder)

    def after(self, place: int, columns: Sequence[str] = ()) -> tuple[pa.Table | None, int]:
        """Return the rows that were appended after a place, and the place after these."""
        return _again(lambda: self._after(place, columns), self._folder)

    def _some(self, count: int, columns: Sequence[str], *, is_last: bool) -> pa.Table | None:
        files = [_bounded(file) for file in live_files(self._folder)]
        if is_last:
            files.sort(key=lambda one: -one.greatest)
        else:
            files.sort(key=lambda one: one.least)
        found: pa.Table | None = None
        for file in files:
            if found is not None and found.num_rows >= count:
                edge = _places(found)[-1]
                if file.greatest < edge if is_last else file.least > edge:
                    break
            rows = _read(file.file)
            whole = rows if found is None else _joined([found, rows])
            found = _sorted(whole, is_last=is_last).slice(0, count)
        if found is None:
            return None
        return _chosen(_sorted(found, is_last=False), columns, self._folder)

    def _after(self, place: int, columns: Sequence[str]) -> tuple[pa.Table | None, int]:
        files = [_bounded(file) for file in live_files(self._folder)]
        newer = [_read(one.file) for one in files if one.greatest > place]
        if not newer:
            return None, place
        rows = _joined(newer)
        rows = rows.filter(pc.greater(_order(rows), place))
        if not rows.num_rows:
            return None, place
        rows = _sorted(rows, is_last=False)
        return _chosen(rows, columns, self._folder), _places(rows)[-1]

    def end(self) -> int:
        """Return the place after all rows there are."""
        return _again(lambda: self._after(-1, ())[1], self._folder)


def _again(look: Callable[[], Found], folder: Path) -> Found:
    """Look until no file goes away meanwhile."""
    gone = ""
    for _ in range(_TRIES):
        try:
            return look()
        except FileNotFoundError as error:
            gone = str(error.filename or error)
    raise UserError(f"{gone} is gone, though the log of {folder} names it: put a copy back")


def _metadata(file: TableFile) -> pq.FileMetaData:
    with reading(file.path), pq.ParquetFile(file.path) as opened:
        return opened.metadata


def _bounded(file: TableFile) -> _Bounded:
    metadata = _metadata(file)
    names = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
    order = next((name for name in ORDERS if name in names), None)
    bounds: list[Any] = []
    for number in range(metadata.num_row_groups):
        column = None if order is None else metadata.row_group(number).column(names.index(order))
        known = None if column is None else column.statistics
        if known is None or not known.has_min_max:
            return _Bounded(file, -math.inf, math.inf)
        bounds += [known.min_raw, known.max_raw]
    return _Bounded(file, min(bounds, default=math.inf), max(bounds, default=-math.inf))


def _read(file: TableFile) -> pa.Table:
    with reading(file.path):
        rows = pq.read_table(file.path, partitioning=None)
    # Delta has what files are filed by in the files, too, and perhaps as another type.
    rows = rows.drop_columns([name for name in file.keys if name in rows.column_names])
    for name, key in file.keys.items():
        rows = rows.append_column(name, pa.array([value_of(key)] * rows.num_rows, pa.string()))
    return rows


def _joined(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="default")


def _order(rows: pa.Table) -> pa.ChunkedArray:
    """Return what grows from append to append, as numbers."""
    name = next(name for name in ORDERS if name in rows.column_names)
    column = rows.column(name)
    is_time = pa.types.is_timestamp(column.type)
    return (column.cast(pa.timestamp("us", column.type.tz)) if is_time else column).cast(pa.int64())


def _places(rows: pa.Table) -> list[int]:
    places: list[int] = _order(rows).to_pylist()
    return places


def _sorted(rows: pa.Table, *, is_last: bool) -> pa.Table:
    direction = "descending" if is_last else "ascending"
    names = [name for name in (*ORDERS, *_TIES) if name in rows.column_names]
    keys = rows.select(names)
    return rows.take(pc.sort_indices(keys, [(name, direction) for name in names]))


def _chosen(rows: pa.Table, columns: Sequence[str], folder: Path) -> pa.Table:
    if unknown := set(columns) - set(rows.column_names):
        raise UserError(f"the table {folder.name} has no column {min(unknown)}")
    return rows.select(list(dict.fromkeys(columns))) if columns else rows
