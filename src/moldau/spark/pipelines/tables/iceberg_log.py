"""Which files make up a table of Iceberg, by its metadata: for readers here without Spark.

    metadata/v7.metadata.json    the table after its seventh change, and its snapshots
    metadata/snap-....avro       the manifests of a snapshot
    metadata/...-m0.avro         a manifest: files, and the values that they are filed by

A table is found as in a Hadoop catalog, by the highest number. Manifests are Avro, for which
fastavro is asked for when the first table wants it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from moldau.base.errors import UserError
from moldau.spark.pipelines.tables.committed import (
    ICEBERG_LOG,
    TableFile,
    key_of,
    understanding,
)

_METADATA: Final = re.compile(r"v(\d+)(\.gz)?\.metadata\.json")
_VERSION: Final = 2
"""Of the format, in which the pipelines make their tables."""
_DELETED: Final = 2
"""How a manifest says that a file is no longer there."""
_ROWS: Final = 0
"""How it says that a file, or a manifest, is one of rows, and not of rows that are deleted."""

Told = Mapping[str, Any]


def iceberg_files(table: Path) -> list[TableFile]:
    """Return the files of a table; FileNotFoundError if some metadata goes away meanwhile."""
    described = _described(table)
    if described is None:
        return []
    with understanding(table / ICEBERG_LOG):
        place = _Places(table, str(described["location"]))
        current = described.get("current-snapshot-id")
        snapshots = described.get("snapshots", ())
        lists = [one["manifest-list"] for one in snapshots if one["snapshot-id"] == current]
    return [
        TableFile(place.of(file["file_path"]), _keys(file))
        for manifests in lists
        for manifest in _avro(place.of(manifests))
        for file in _live(place.of(manifest["manifest_path"]), table)
    ]


def _described(table: Path) -> Told | None:
    """Return what the newest metadata says; None if there is none yet."""
    found = [_METADATA.fullmatch(path.name) for path in (table / ICEBERG_LOG).iterdir()]
    newest = max(filter(None, found), key=lambda one: int(one[1]), default=None)
    if newest is None:
        return None
    place = table / ICEBERG_LOG / newest[0]
    data = place.read_bytes()
    with understanding(place):
        described: Told = json.loads(gzip.decompress(data) if newest[2] else data)
        version = described["format-version"]
    if version != _VERSION:
        raise UserError(f"{table} has version {version} of Iceberg's format: this reads {_VERSION}")
    return described


def _live(manifest: Path, table: Path) -> Iterator[Told]:
    for entry in _avro(manifest):
        if entry["status"] == _DELETED:
            continue
        file: Told = entry["data_file"]
        if file.get("content", _ROWS) != _ROWS:
            raise UserError(
                f"rows of {table} were deleted by a file of their own, which this does not read:"
                " rewrite_data_files writes those of rows anew"
            )
        yield file


def _avro(place: Path) -> list[Told]:
    try:
        fastavro: Any = import_module("fastavro")
    except ImportError as missing:
        raise UserError(
            f"tables of Iceberg need fastavro ({missing}): pip install 'moldau[avro]'"
        ) from None
    with place.open("rb") as opened:
        try:
            return [*fastavro.reader(opened)]
        except (EOFError, ValueError, LookupError, TypeError) as error:
            raise UserError(f"{place} cannot be read: {error}") from None


def _keys(file: Told) -> dict[str, str]:
    values = file["partition"].items()
    return {name: key_of(None if value is None else str(value)) for name, value in values}


class _Places:
    """Where the files of a table are, which its metadata names by whole paths."""

    def __init__(self, table: Path, location: str) -> None:
        self._table = table
        self._location = _plain(location).rstrip("/")

    def of(self, path: str) -> Path:
        """Return where a file is, also if the table was moved."""
        plain = _plain(path)
        if "://" in plain:
            raise UserError(f"{path} is not on this machine: ask an engine that reads Iceberg")
        below = plain.removeprefix(f"{self._location}/")
        return self._table / below


def _plain(path: str) -> str:
    return re.sub(r"^file:/+", "/", path)
