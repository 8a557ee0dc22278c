"""Which files make up a table of Delta, by its log: for readers on this machine without Spark.

The log, `_delta_log`, has an entry for every commit, which adds and removes files, and now and then
a checkpoint with all files so far. How far a reader has to understand a table stands in the log
too: what this one does not know of, it refuses.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq

from moldau.base.errors import UserError
from moldau.spark.pipelines.tables.arrow_files import reading
from moldau.spark.pipelines.tables.committed import DELTA_LOG, TableFile, key_of, understanding

DELTA_PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"
"""Where Delta's own library for Spark is found."""
_ADVICE: Final = f"moldau table sql does, with --conf spark.jars.packages={DELTA_PACKAGE}"

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_CHECKPOINT_COLUMNS: Final = (
    "add.path", "add.partitionValues", "add.deletionVector.storageType",
    "metaData.configuration", "protocol",
)  # fmt: skip

_FEATURES_FROM: Final = 3
"""From this reader version on a table names what its readers have to understand."""
_UNDERSTOOD: Final = frozenset({"deletionVectors", "timestampNtz", "vacuumProtocolCheck"})
"""Deletion vectors as far as no file has one."""
_COLUMN_MAPPING: Final = "columnMapping"
_MAPPING_MODE: Final = "delta.columnMapping.mode"

Action = Mapping[str, Any]


def delta_files(table: Path) -> list[TableFile]:
    """Return the files of a table; FileNotFoundError if one of its log goes away meanwhile."""
    names = [path.name for path in (table / DELTA_LOG).iterdir()]
    last, parts = _newest_checkpoint(names)
    commits = sorted(int(one[1]) for name in names if (one := _COMMIT.fullmatch(name)))
    later = [number for number in commits if number > last]
    for number, found in enumerate(later, last + 1):
        if found != number:
            place = table / DELTA_LOG / _entry(number)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(place))
    files: dict[str, Action] = {}
    for name in (*parts, *map(_entry, later)):
        place = table / DELTA_LOG / name
        with understanding(place):
            _apply(_checkpointed(place) if name in parts else _committed(place), files, table)
    with understanding(table / DELTA_LOG):
        return [TableFile(_place(table, path), _keys(add)) for path, add in files.items()]


def _entry(number: int) -> str:
    return f"{number:020d}.json"


def _newest_checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """Return the number of the newest whole checkpoint, and its files; -1 if there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in sorted(names):
        if one := _CHECKPOINT.fullmatch(name):
            found.setdefault((int(one[1]), int(one[3] or 1)), []).append(name)
    whole = {number: parts for (number, count), parts in found.items() if len(parts) == count}
    last = max(whole, default=-1)
    return last, whole.get(last, [])


def _checkpointed(place: Path) -> list[Action]:
    with reading(place):
        rows = pq.ParquetFile(place).read(columns=list(_CHECKPOINT_COLUMNS))
    return [*rows.to_pylist(maps_as_pydicts="strict")]


def _committed(place: Path) -> list[Action]:
    return [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()]


def _apply(actions: Iterable[Action], files: dict[str, Action], table: Path) -> None:
    for action in actions:
        for kind, told in action.items():
            if told is None:  # a checkpoint has a column for each kind
                continue
            match kind:
                case "add" if told["path"] is not None:
                    files[str(told["path"])] = told
                case "remove":
                    files.pop(told["path"], None)
                case "protocol" | "metaData":
                    _check(kind, told, table)


def _check(kind: str, told: Action, table: Path) -> None:
    """Refuse what a reader would have to understand and this one does not."""
    if kind == "protocol":
        needed = set(told.get("readerFeatures") or ())
        if told["minReaderVersion"] > _FEATURES_FROM:
            needed.add(f"version {told['minReaderVersion']} of readers")
        unknown = needed - _UNDERSTOOD - {_COLUMN_MAPPING}
    else:
        mode = (told.get("configuration") or {}).get(_MAPPING_MODE, "none")
        unknown = set() if mode == "none" else {_COLUMN_MAPPING}
    if unknown:
        raise UserError(
            f"{table} needs {min(unknown)} of Delta's, which this does not read: {_ADVICE}"
        )


def _place(table: Path, path: str) -> Path:
    """Return where a file is, by a path as in a URL, which may begin in the table's folder."""
    if "://" in path and not path.startswith("file://"):
        raise UserError(f"{path} is not on this machine: {_ADVICE}")
    return table / re.sub(r"^file:/+", "/", unquote(path))


def _keys(add: Action) -> dict[str, str]:
    if (add.get("deletionVector") or {}).get("storageType") is not None:
        raise UserError(
            f"rows of {unquote(add['path'])} were deleted by a vector, which this does not read:"
            f" {_ADVICE}"
        )
    # Delta takes a text without a letter for no value.
    return {name: key_of(value or None) for name, value in add["partitionValues"].items()}
