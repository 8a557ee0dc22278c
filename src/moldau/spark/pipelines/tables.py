"""Tables of Parquet files to which a batch is appended exactly once, also by several tries.

A folder of Parquet files alone cannot tell rows that were committed from those of a try that was
killed. Spark's own streaming sink writes a log beside them, `_spark_metadata`, and every Spark that
reads the folder follows it. One batch here feeds several tables, though, and that sink takes one
query each. So this module keeps the same log itself, in the same form:

    _spark_metadata/0 ... 8     the files that the append of that number has added
    _spark_metadata/9.compact   every tenth: all files so far

Appends are numbered by their caller, from 0 on without gaps, and the same rows have the same number
whenever a batch is run again. A number that stands in the log is done, and nothing is written. The
entry is made with one rename after all its files are in their places: this is the commit.

Not for object stores that have no rename of their own: there a table format with its own commits
has its place.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from moldau.base.errors import UserError
from moldau.spark.pipelines.storage import FileEntry, Files

LOG: Final = "_spark_metadata"
STAGING: Final = "_staging"
_COMPACT: Final = ".compact"
_HEAD: Final = "v1"
_NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
"""What Spark writes as `%` and two digits in the names of folders."""

COMPACT_EVERY: Final = 10
"""Spark's default, which its readers take for granted while there is one compact entry only."""
COMPACTS_KEPT: Final = 2
"""From two of them readers find out how far apart they are; and one that has just listed the log
still finds what it saw."""

Tidy = Callable[[str, Sequence[FileEntry]], list[FileEntry]]
"""Called before an entry that holds all files so far, with the prefix of its append's names and
these files; returns the files that the entry is to name, which hold the same rows."""


class Table:
    """One table, with one writer: this object. Who makes it holds the lock of its folder."""

    def __init__(
        self,
        files: Files,
        path: str,
        partitioned_by: Sequence[str] = ("date",),
        tidy: Tidy | None = None,
    ) -> None:
        self.path = path
        self._files = files
        self._partitioned_by = list(partitioned_by)
        self._tidy = tidy
        self._count: int | None = None
        """How many appends are committed; None before anybody has looked."""

    def append(self, rows: DataFrame | pa.Table, number: int) -> list[str]:
        """Append rows under a number, unless that is done; return the paths of their files.

        Those of a DataFrame are written by Spark's tasks, those of an Arrow table here and now.
        """
        committed = self._committed()
        if number < committed:
            return self._files_of(number)
        if number > committed:
            raise UserError(
                f"{self.path} has {committed} appends and is to get number {number}: part of the"
                " table is missing, or it belongs to another checkpoint"
            )
        write = self._write if isinstance(rows, pa.Table) else self._have_written
        entries = write(rows, number)
        self._log(number, entries)
        self._count = number + 1
        return [entry.path for entry in entries]

    def _committed(self) -> int:
        """Return how many appends are committed; the first look also clears up after a crash."""
        if self._count is None:
            self._count = 1 + max(self._numbers(), default=-1)
            self._files.remove(f"{self.path}/{STAGING}")
            deep = "/".join("*" for _ in self._partitioned_by)
            for orphan in self._files.matching(self.path, f"{deep}/*{_prefix(self._count)}*"):
                self._files.remove(orphan.path)
        return self._count

    def _numbers(self) -> Iterable[int]:
        for name in self._files.names(f"{self.path}/{LOG}"):
            number = name.removesuffix(_COMPACT)
            if number.isdigit():
                yield int(number)

    def _write(self, rows: pa.Table, number: int) -> list[FileEntry]:
        """Write rows to where they belong; as no log names the files yet, nobody reads them."""
        keys = rows.select(self._partitioned_by)
        placed = []
        for place, key in enumerate(keys.group_by(self._partitioned_by).aggregate([]).to_pylist()):
            part = rows.filter(_equal(keys, key)).drop_columns(self._partitioned_by)
            folder = "/".join(_folder(name, value) for name, value in key.items())
            target = f"{self.path}/{folder}/{_prefix(number)}{place}.parquet"
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
            target = f"{self.path}/{folder}/{_prefix(number)}{place}.parquet"
            self._files.move(f"{root}/{folder}/{name}", target)
            placed.append(self._files.entry(target))
        self._files.remove(staging)
        return placed

    # The log

    def _log(self, number: int, entries: list[FileEntry]) -> None:
        lines = [_line(entry) for entry in entries]
        if not _is_compact(number):
            self._files.write(f"{self.path}/{LOG}/{number}", "\n".join([_HEAD, *lines]))
            return
        first = number + 1 - COMPACT_EVERY
        earlier = [line for one in range(max(first - 1, 0), number) for line in self._lines(one)]
        lines = [*earlier, *lines]
        if self._tidy is not None:
            lines = [_line(one) for one in self._tidy(_prefix(number), [*map(_entry, lines)])]
        name = f"{number}{_COMPACT}"
        self._files.write(f"{self.path}/{LOG}/{name}", "\n".join([_HEAD, *lines]))
        self._forget(number + 1 - COMPACTS_KEPT * COMPACT_EVERY)

    def _forget(self, before: int) -> None:
        """Remove entries that a compact one holds; readers may still hold the ones after it."""
        for number in set(self._numbers()):
            if number < before - 1:
                self._files.remove(self._place_of(number))

    def _place_of(self, number: int) -> str:
        name = f"{number}{_COMPACT}" if _is_compact(number) else str(number)
        return f"{self.path}/{LOG}/{name}"

    def _lines(self, number: int) -> list[str]:
        text = self._files.read(self._place_of(number))
        if text is None:
            raise UserError(f"{self._place_of(number)} is missing: the table cannot go on")
        head, *lines = text.split("\n")
        if head != _HEAD:
            raise UserError(f"{self._place_of(number)} has the form {head!r}, not {_HEAD!r}")
        return [line for line in lines if line]

    def _files_of(self, number: int) -> list[str]:
        """Return the paths that an append has added; its entry may hold those of others."""
        holder = number
        while not self._files.exists(self._place_of(holder)) and not _is_compact(holder):
            holder += 1
        paths = [unquote(json.loads(line)["path"]) for line in self._lines(holder)]
        return [path for path in paths if path.rpartition("/")[2].startswith(_prefix(number))]


def parquet_bytes(rows: pa.Table) -> bytes:
    """Return rows as a file holds them."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return bytes(sink.getvalue())


def log_text(entries: Iterable[FileEntry]) -> str:
    """Return an entry of the log that names these files."""
    return "\n".join([_HEAD, *map(_line, entries)])


def _is_compact(number: int) -> bool:
    return (number + 1) % COMPACT_EVERY == 0


def _prefix(number: int) -> str:
    """Return how the names of an append's files begin."""
    return f"part-{number:010d}-"


def _line(entry: FileEntry) -> str:
    """Write a file down as Spark's own sink does."""
    return json.dumps({
        "path": entry.uri,
        "size": entry.size,
        "isDir": False,
        "modificationTime": entry.modified_ms,
        "blockReplication": entry.replication,
        "blockSize": entry.block_size,
        "action": "add",
    }, separators=(",", ":"))  # fmt: skip


def _entry(line: str) -> FileEntry:
    """Read what was written down."""
    told = json.loads(line)
    return FileEntry(
        # Hadoop writes the files of this machine down as `file:///`, and names them `file:/`.
        unquote(told["path"]).replace("file:///", "file:/", 1),
        told["path"],
        told["size"],
        told["modificationTime"],
        told["blockSize"],
        told["blockReplication"],
    )


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
