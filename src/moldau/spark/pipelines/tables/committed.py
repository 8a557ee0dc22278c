"""Which files make up a table of plain Parquet, by its log: for readers here without Spark.

The log, `_spark_metadata`, has an entry for every append and, every tenth, one that holds all
before. Folders hold files of appends that are not committed too, and ones that were merged into
others; only what the log names counts. While somebody writes, old entries go: who finds one gone
looks again.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

from moldau.base.errors import UserError

LOG: Final = "_spark_metadata"
COMPACT: Final = ".compact"
"""How the names of entries end that hold all before them."""
HEAD: Final = "v1"
"""The first line of an entry: its form."""
DELTA_LOG: Final = "_delta_log"
ICEBERG_LOG: Final = "metadata"
_OTHER_LOGS: Final = {DELTA_LOG: "Delta", ICEBERG_LOG: "Iceberg"}
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_TRIES: Final = 5
"""Entries go every ten appends; nobody is so slow as to meet that five times."""


class TableFile(NamedTuple):
    """A file of a table."""

    path: Path
    keys: dict[str, str]
    """The values that its rows have in columns that it has not, `date` first: as folders are named
    for them, see `value_of`."""


@contextmanager
def understanding(place: Path) -> Iterator[None]:
    """Name the file of a log whose text is not what it should be."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UserError(f"{place} cannot be read: it names the files of the table") from None


def key_of(value: str | None) -> str:
    """Return a value as a folder is named for it."""
    return _NO_VALUE if value is None else quote(value)


def value_of(key: str) -> str | None:
    """Return the value that a folder is named for."""
    return None if key == _NO_VALUE else unquote(key)


def files_of(table: Path) -> list[TableFile]:
    """Return the files of a table; none if nothing was appended to it yet."""
    for folder, name in _OTHER_LOGS.items():
        if (table / folder).is_dir():
            raise UserError(f"{table} is a table of {name}: this reads tables of Parquet only")
    gone = ""
    for _ in range(_TRIES):
        try:
            return [_file(table, path) for name in _entries(table) for path in _paths(table, name)]
        except FileNotFoundError as error:
            gone = str(error.filename)
    raise UserError(f"the log of {table} cannot be followed: {gone} is missing")


def _entries(table: Path) -> list[str]:
    """Return the names of the entries that count, in order; FileNotFoundError if one is gone."""
    log = table / LOG
    if not log.is_dir():
        return []
    names = {path.name for path in log.iterdir()}
    compacts = [name.removesuffix(COMPACT) for name in names if name.endswith(COMPACT)]
    first = max((int(number) for number in compacts if number.isdecimal()), default=-1)
    later = sorted(int(name) for name in names if name.isdecimal() and int(name) > first)
    for number, found in enumerate(later, first + 1):
        if found != number:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(log / f"{number}"))
    return [*([f"{first}{COMPACT}"] if first >= 0 else []), *map(str, later)]


def _paths(table: Path, name: str) -> list[str]:
    place = table / LOG / name
    head, *lines = place.read_text(encoding="utf-8").split("\n")
    if head != HEAD:
        raise UserError(f"{place} has the form {head!r}, not {HEAD!r}")
    with understanding(place):
        return [str(json.loads(line)["path"]) for line in lines if line]


def _file(table: Path, path: str) -> TableFile:
    """Find a file by the folders that are named for values, wherever the table is now."""
    *folders, name = path.split("/")
    keyed = list(reversed([*takewhile(lambda folder: "=" in folder, reversed(folders))]))
    values = [folder.partition("=") for folder in keyed]
    return TableFile(table.joinpath(*keyed, name), {key: value for key, _, value in values})
