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
import uuid
from collections.abc import Iterable
from typing import Final

from pyspark.sql import DataFrame

from moldau.base.errors import UserError
from moldau.spark.pipelines.storage import FileEntry, SparkFiles

LOG: Final = "_spark_metadata"
STAGING: Final = "_staging"
_COMPACT: Final = ".compact"
_HEAD: Final = "v1"

COMPACT_EVERY: Final = 10
"""Spark's default, which its readers take for granted while there is one compact entry only."""
COMPACTS_KEPT: Final = 2
"""From two of them readers find out how far apart they are; and one that has just listed the log
still finds what it saw."""


class Table:
    """One table, with one writer: this object. Who makes it holds the lock of its folder."""

    def __init__(self, files: SparkFiles, path: str, partitioned_by: str = "date") -> None:
        self.path = path
        self._files = files
        self._partitioned_by = partitioned_by
        self._count: int | None = None
        """How many appends are committed; None before anybody has looked."""

    def append(self, frame: DataFrame, number: int) -> list[str]:
        """Append rows under a number, unless that is done; return the paths of their files."""
        committed = self._committed()
        if number < committed:
            return self._files_of(number)
        if number > committed:
            raise UserError(
                f"{self.path} has {committed} appends and is to get number {number}: part of the"
                " table is missing, or it belongs to another checkpoint"
            )
        entries = self._place(frame, number)
        self._log(number, entries)
        self._count = number + 1
        return [entry.path for entry in entries]

    def _committed(self) -> int:
        """Return how many appends are committed; the first look also clears up after a crash."""
        if self._count is None:
            self._count = 1 + max(self._numbers(), default=-1)
            self._files.remove(f"{self.path}/{STAGING}")
            for orphan in self._files.matching(f"{self.path}/*/{_prefix(self._count)}*"):
                self._files.remove(orphan.path)
        return self._count

    def _numbers(self) -> Iterable[int]:
        for name in self._files.names(f"{self.path}/{LOG}"):
            number = name.removesuffix(_COMPACT)
            if number.isdigit():
                yield int(number)

    def _place(self, frame: DataFrame, number: int) -> list[FileEntry]:
        """Write rows aside, and move the files to where they belong."""
        staging = f"{self.path}/{STAGING}/{uuid.uuid4().hex}"
        frame.write.partitionBy(self._partitioned_by).parquet(staging)
        root = self._files.whole(staging)
        placed = []
        for place, staged in enumerate(self._files.below(staging)):
            if not staged.name.endswith(".parquet"):
                continue
            folder = staged.path.rpartition("/")[0].rpartition("/")[2]
            if "=" not in folder:
                continue
            target = f"{self.path}/{folder}/{_prefix(number)}{place}.parquet"
            self._files.move(f"{root}/{folder}/{staged.name}", target)
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
        name = f"{number}{_COMPACT}"
        self._files.write(f"{self.path}/{LOG}/{name}", "\n".join([_HEAD, *earlier, *lines]))
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
        paths = [str(json.loads(line)["path"]) for line in self._lines(holder)]
        return [path for path in paths if path.rpartition("/")[2].startswith(_prefix(number))]


def _is_compact(number: int) -> bool:
    return (number + 1) % COMPACT_EVERY == 0


def _prefix(number: int) -> str:
    """Return how the names of an append's files begin."""
    return f"part-{number:010d}-"


def _line(entry: FileEntry) -> str:
    """Write a file down as Spark's own sink does."""
    return json.dumps({
        "path": entry.path,
        "size": entry.size,
        "isDir": False,
        "modificationTime": entry.modified_ms,
        "blockReplication": entry.replication,
        "blockSize": entry.block_size,
        "action": "add",
    }, separators=(",", ":"))  # fmt: skip
