"""Tables of Parquet files to which a batch is appended exactly once, also by several tries.

Appends are numbered by their caller, from 0 on without gaps, and the same rows have the same number
whenever a batch is run again. A number that is committed is done, and nothing is written. `Table`
writes the files of an append to their places, where nobody reads them yet, and then commits them;
what that is, its `Commits` know: `file_log` for plain Parquet, `iceberg` for Iceberg. Delta
has a way of its own, in `delta`.

Not for object stores that have no rename of their own: there a table format with its own commits
has its place.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from moldau.base.errors import UserError
from moldau.spark.pipelines.storage import FileEntry, Files

STAGING: Final = "_staging"
ROWS_PER_FILE: Final = 500_000
"""What a file holds at least, if there is as much: files that are too small make tables slow."""
_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""What Spark writes as `%` and two digits in the names of folders."""

_PATTERNS: Final = "__globPaths__"
"""Spark's own option for readers that have found their files themselves."""
_BELOW: Final = "recursiveFileLookup"


class TableWriter(Protocol):
    """One table, with one writer: this object. Who makes it holds the lock of its folder."""

    path: str

    def append(
        self, rows: DataFrame | pa.Table, number: int, wanted: Collection[str] = ()
    ) -> list[str]:
        """Append rows under a number, unless that is done; return names to read them by.

        `wanted` are such names of earlier appends: until they are not, `read` finds their rows.
        """

    def read(self, spark: SparkSession, columns: str, names: Sequence[str]) -> DataFrame:
        """Return the rows of appends that gave these names, and perhaps others of the table.

        `columns` are those of the table, as SQL declares them.
        """


class Append(NamedTuple):
    """An append whose files are in their places."""

    number: int
    columns: pa.Schema
    """Those of the table, with the ones its folders are named for."""
    entries: Sequence[FileEntry]


class Commits(Protocol):
    """What says which files are a table."""

    def count(self) -> int:
        """Return how many appends are committed."""

    def commit(self, append: Append, wanted: Collection[str]) -> None:
        """Commit an append, which is the next one.

        Neither its files nor those of earlier ones that are wanted are merged with others.
        """

    def files_of(self, number: int) -> list[str]:
        """Return the paths of the files of the last append, whose number this is."""


class Table:
    """A table whose files are written here."""

    def __init__(
        self,
        files: Files,
        path: str,
        commits: Commits,
        partitioned_by: Sequence[str] = ("date",),
    ) -> None:
        self.path = path
        self._files = files
        self._commits = commits
        self._partitioned_by = list(partitioned_by)
        self._count: int | None = None
        """How many appends are committed; None before anybody has looked."""
        self._is_clear = False
        """Whether nothing is left of a crash."""

    def append(
        self, rows: DataFrame | pa.Table, number: int, wanted: Collection[str] = ()
    ) -> list[str]:
        """Append rows under a number, unless that is done; return the paths of their files.

        Those of a DataFrame are written by Spark's tasks, those of an Arrow table here and now.
        """
        if check_number(self.path, number, self._committed()):
            return self._commits.files_of(number)
        self._clear_up(number)
        write = self._write if isinstance(rows, pa.Table) else self._have_written
        entries = write(rows, number)
        columns = rows.schema if isinstance(rows, pa.Table) else _columns_of(rows)
        self._commits.commit(Append(number, columns, entries), wanted)
        self._count = number + 1
        return [entry.path for entry in entries]

    def read(self, spark: SparkSession, columns: str, names: Sequence[str]) -> DataFrame:
        """Return the rows of files."""
        return read_files(spark, columns, names)

    def _committed(self) -> int:
        if self._count is None:
            self._count = self._commits.count()
        return self._count

    def _clear_up(self, number: int) -> None:
        """Remove what a crash has left of the next append; once, as only another writer has.

        Not before it is known to be the next: where part of the log is gone, what looks like the
        files of a crash are rows, and a log that is put back has to find them.
        """
        if self._is_clear:
            return
        self._files.remove(f"{self.path}/{STAGING}")
        deep = "/".join("*" for _ in self._partitioned_by)
        for orphan in self._files.matching(self.path, f"{deep}/*{prefix_of(number)}*"):
            self._files.remove(orphan.path)
        self._is_clear = True

    def _write(self, rows: pa.Table, number: int) -> list[FileEntry]:
        """Write rows to where they belong; as no log names the files yet, nobody reads them."""
        keys = rows.select(self._partitioned_by)
        placed = []
        for place, key in enumerate(keys.group_by(self._partitioned_by).aggregate([]).to_pylist()):
            part = rows.filter(_equal(keys, key)).drop_columns(self._partitioned_by)
            folder = "/".join(_folder(name, value) for name, value in key.items())
            target = f"{self.path}/{folder}/{prefix_of(number)}{place}.parquet"
            self._files.write(target, parquet_bytes(part))
            placed.append(self._files.entry(target))
        return placed

    def _have_written(self, frame: DataFrame, number: int) -> list[FileEntry]:
        """Have Spark write rows aside, and move the files to where they belong."""
        staging = f"{self.path}/{STAGING}/{uuid.uuid4().hex}"
        frame.write.partitionBy(*self._partitioned_by).parquet(staging)
        root = self._files.whole(staging)
        placed = []
        for place, staged in enumerate(self._files.below(staging)):
            folder, _, name = staged.path.removeprefix(f"{root}/").rpartition("/")
            if not folder or not name.endswith(".parquet"):
                continue
            target = f"{self.path}/{folder}/{prefix_of(number)}{place}.parquet"
            self._files.move(f"{root}/{folder}/{name}", target)
            placed.append(self._files.entry(target))
        self._files.remove(staging)
        return placed


def read_files(spark: SparkSession, columns: str, paths: Sequence[str]) -> DataFrame:
    """Return the rows of files, or of all in a folder."""
    return unpatterned(spark.read.schema(columns)).parquet(*paths)


def unpatterned(reader: DataFrameReader) -> DataFrameReader:
    """Have a reader take paths as they are.

    Spark would look for others that fit where one has a `*`, and for none of its own name where it
    has a `[`. Of several files in such a folder it would still read each as often as there are
    files, unless it is to look below folders: only then it lists every file once.
    """
    return reader.option(_PATTERNS, "false").option(_BELOW, "true")


def read_folder(spark: SparkSession, files: Files, columns: str, folder: str) -> DataFrame:
    """Return the rows of a folder in which there are some files; UserError if there are none.

    To Spark a folder without files is one without rows.
    """
    if not any(name.endswith(".parquet") for name in files.names(folder)):
        raise UserError(
            f"{folder} is missing or empty, and holds what goes on from window to window: restore"
            " it, or begin with a new --out"
        )
    return read_files(spark, columns, [folder])


def _columns_of(frame: DataFrame) -> pa.Schema:
    return to_arrow_schema(frame.schema, timezone="UTC")


def prefix_of(number: int) -> str:
    """Return how the names of an append's files begin."""
    return f"part-{number:010d}-"


def file_count(rows_max: int) -> int:
    """Return by how many of Spark's tasks, each of which makes a file, so many rows are written."""
    return max(1, rows_max // ROWS_PER_FILE)


def check_number(path: str, number: int, committed: int) -> bool:
    """Tell whether an append is done; UserError if it is neither the last one nor the next."""
    if number > committed:
        raise UserError(
            f"{path} has {committed} appends and is to get number {number}: part of the"
            " table is missing, or it belongs to another checkpoint"
        )
    if number < committed - 1:
        raise UserError(
            f"{path} has {committed} appends and is to get number {number} again: the state or the"
            " checkpoint is an older copy; begin anew with another --out"
        )
    return number < committed


def parquet_bytes(rows: pa.Table) -> bytes:
    """Return rows as a file holds them."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return bytes(sink.getvalue())


def _equal(keys: pa.Table, key: dict[str, Any]) -> pa.ChunkedArray:
    """Tell which rows have this key."""
    found = None
    for name, value in key.items():
        column = keys.column(name)
        same = column.is_null() if value is None else pc.equal(column, pa.scalar(value))
        found = same if found is None else pc.and_kleene(found, same)
    return found


def _folder(name: str, value: object) -> str:
    """Name the folder of rows with a value, as Spark does."""
    if value is None:
        return f"{name}={_NULL_FOLDER}"
    text = _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", str(value))
    return f"{name}={text}"
