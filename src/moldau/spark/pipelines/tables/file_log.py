"""Which files are a table: the log that Spark's own streaming sink keeps, written by us.

A folder of Parquet files alone cannot tell rows that were committed from those of a try that was
killed. Spark's sink writes a log beside them, and every Spark that reads the folder follows it. One
batch here feeds several tables, though, and that sink takes one query each. So the same log is kept
here, in the same form:

    _spark_metadata/0 ... 8     the files that the append of that number has added
    _spark_metadata/9.compact   every tenth: all files so far

An entry is made with one rename after all its files are in their places: this is the commit. Before
an entry that holds all others small files may be merged, see `merging`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final
from urllib.parse import unquote

from moldau.base.errors import UserError
from moldau.spark.pipelines.storage import FileEntry, Files
from moldau.spark.pipelines.tables.appending import Append, prefix_of
from moldau.spark.pipelines.tables.committed import COMPACT, HEAD, LOG

_ADVICE: Final = "put a copy back, or begin with a new --out"

COMPACT_EVERY: Final = 10
"""Spark's default, which its readers take for granted while there is one compact entry only."""
COMPACTS_KEPT: Final = 2
"""From two of them readers find out how far apart they are; and one that has just listed the log
still finds what it saw."""

Tidy = Callable[[str, Sequence[FileEntry]], list[FileEntry]]
"""Called before an entry that holds all files, with the prefix of its append's names and files of
earlier appends; returns files that hold the same rows, to be named instead."""


class FileLog:
    """The log of one table."""

    def __init__(self, files: Files, table: str, tidy: Tidy | None = None) -> None:
        self._files = files
        self._table = table
        self._tidy = tidy

    def count(self) -> int:
        """Return how many appends are committed; UserError if the newest entry cannot be read.

        A machine that loses its power may leave it empty, and nobody could read the table from
        there on.
        """
        newest = max(self._numbers(), default=-1)
        if newest >= 0:
            self._entries(newest)
        return newest + 1

    def commit(self, append: Append, wanted: Collection[str]) -> None:
        """Name the files of an append, which is the next one.

        Neither they nor those of earlier ones that are wanted are merged: somebody is to read them
        by their names.
        """
        number, entries = append.number, append.entries
        if not _is_compact(number):
            self._files.write(self._place_of(number), log_text(entries))
            return
        first = number + 1 - COMPACT_EVERY
        earlier = [file for one in range(max(first - 1, 0), number) for file in self._entries(one)]
        held = self._tidied(number, earlier, wanted)
        self._files.write(self._place_of(number), log_text([*held, *entries]))
        self._forget(number + 1 - COMPACTS_KEPT * COMPACT_EVERY)

    def _tidied(
        self, number: int, entries: list[FileEntry], wanted: Collection[str]
    ) -> list[FileEntry]:
        if self._tidy is None:
            return entries
        kept = [entry for entry in entries if entry.path in wanted]
        others = [entry for entry in entries if entry.path not in wanted]
        return [*kept, *self._tidy(prefix_of(number), others)]

    def files_of(self, number: int) -> list[str]:
        """Return the paths of the files of the last append, whose number this is."""
        paths = [entry.path for entry in self._entries(number)]
        own = re.compile(rf"/{prefix_of(number)}\d+\.parquet$")
        return [path for path in paths if own.search(path)]

    def _numbers(self) -> Iterable[int]:
        for name in self._files.names(f"{self._table}/{LOG}"):
            number = name.removesuffix(COMPACT)
            if number.isdecimal():
                yield int(number)

    def _forget(self, before: int) -> None:
        """Remove entries that a compact one holds; readers may still hold the ones after it."""
        for number in set(self._numbers()):
            if number < before - 1:
                self._files.remove(self._place_of(number))

    def _place_of(self, number: int) -> str:
        name = f"{number}{COMPACT}" if _is_compact(number) else str(number)
        return f"{self._table}/{LOG}/{name}"

    def _entries(self, number: int) -> list[FileEntry]:
        place = self._place_of(number)
        text = self._files.read(place)
        if text is None:
            raise UserError(f"{place} is missing: {_ADVICE}")
        head, *lines = text.split("\n")
        if head != HEAD and head.startswith("v"):
            raise UserError(f"{place} has the form {head[:20]!r}, not {HEAD!r}")
        try:
            if head != HEAD:
                raise ValueError(head)
            return [_entry(line) for line in lines if line]
        except (KeyError, TypeError, ValueError):
            raise UserError(f"{place} cannot be read: {_ADVICE}") from None


def log_text(entries: Iterable[FileEntry]) -> str:
    """Return an entry of the log that names these files."""
    return "\n".join([HEAD, *map(_line, entries)])


def _is_compact(number: int) -> bool:
    return (number + 1) % COMPACT_EVERY == 0


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
