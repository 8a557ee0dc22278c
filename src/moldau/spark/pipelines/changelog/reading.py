"""The current state of a changelog table, read with pyarrow instead of Spark.

    from moldau.spark.pipelines.changelog.reading import current

    current("/var/lib/moldau/customers").to_pylist()
    current("/var/lib/moldau/customers", keys=["c-17"], columns=["name"])

It reads the newest version at the start of the call; the pipeline may run meanwhile. If files of
that version are deleted before it has read them, it starts again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.fields import ColumnNames, Fields
from moldau.spark.pipelines.changelog.rows import (
    CHANGE,
    CHANGE_SCHEMA,
    KEY,
    ORIGIN,
    RAW,
    TYPES,
    newest_by_key,
    typed,
)
from moldau.spark.pipelines.changelog.version import Version, newest, widened_names
from moldau.spark.pipelines.places import Places
from moldau.spark.pipelines.tables.arrow_files import reading

TABLE: Final = "table"
VERSIONS: Final = "_versions"

TRIES: Final = 5
"""A version may go away between the look at the folder and at its file, and its files while slow
readers are on their way to them; not so often."""


class Snapshot:
    """One version of a table."""

    def __init__(self, files: fs.FileSystem, folder: str, version: Version) -> None:
        self.version = version
        self._files = files
        self._folder = folder

    @classmethod
    def of(cls, out: str) -> Snapshot:
        """Find the newest version; UserError if there is none."""
        files, folder = _table(out)
        for _ in range(TRIES):
            number = newest(_names(files, f"{folder}/{VERSIONS}"))
            if number is None:
                break
            place = f"{folder}/{VERSIONS}/{number}"
            try:
                with reading(place), files.open_input_stream(place) as stream:
                    text = stream.read().decode(errors="replace")
            except FileNotFoundError:
                continue
            return cls(files, folder, Version.from_json(text, place))
        raise UserError(f"there is no table in {out}: the pipeline has not had a batch yet")

    def rows(self, keys: Sequence[str] | None, columns: Sequence[str] | None) -> pa.Table:
        """Return the rows; only those of some keys, and only some columns, if these are given."""
        known = (KEY, *self.version.fields, *ORIGIN, RAW)
        names = list(known) if columns is None else _chosen(known, columns)
        changes = newest_by_key(self._changes(keys))
        base = self._base(keys, names)
        kept = base.filter(pc.invert(pc.is_in(base.column(KEY), changes.column(KEY))))
        alive = changes.filter(changes.column(RAW).is_valid())
        return pa.concat_tables([
            self._table(kept, widened_names(self.version), names),
            self._table(alive, self.version.fields, names),
        ])  # fmt: skip

    def _changes(self, keys: Sequence[str] | None) -> pa.Table:
        parts = [
            self._read(name, CHANGE, keys).cast(CHANGE_SCHEMA)
            for part in self.version.changes
            for name in part.names
        ]
        return pa.concat_tables([CHANGE_SCHEMA.empty_table(), *parts])

    def _base(self, keys: Sequence[str] | None, names: Sequence[str]) -> pa.Table:
        held = {KEY, *ORIGIN, RAW, *self.version.base_fields}
        wanted = {RAW, *names} if set(names) & set(widened_names(self.version)) else set(names)
        columns = sorted(wanted & held)
        parts = [self._read(name, columns, keys) for name in self.version.base.names]
        return pa.concat_tables(parts) if parts else CHANGE_SCHEMA.empty_table()

    def _read(self, name: str, columns: Sequence[str], keys: Sequence[str] | None) -> pa.Table:
        place = f"{self._folder}/{name}"
        wanted = None if keys is None else pc.field(KEY).isin(pa.array(keys, pa.string()))
        with reading(place):
            return pq.read_table(
                place,
                columns=list(columns),
                filesystem=self._files,
                filters=wanted,
                partitioning=None,
            )

    def _table(self, rows: pa.Table, from_text: Fields, names: Sequence[str]) -> pa.Table:
        """Return columns of rows: some are read from the text, what a file has not is null."""
        read = {name: kind for name, kind in from_text.items() if name in names}
        columns = typed(rows.column(RAW), read) if read else {}
        for name in set(names) - set(read):
            kind = _type(self.version, name)
            has = name in rows.column_names
            columns[name] = rows.column(name).cast(kind) if has else pa.nulls(len(rows), kind)
        return pa.table([columns[name] for name in names], list(names))


def current(
    out: str, *, keys: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the current table: a row for each key that is not deleted, `_key` first.

    `out` is the folder of the pipeline, or its URI. Raises UserError if it cannot be read.
    """
    for _ in range(TRIES):
        try:
            return Snapshot.of(out).rows(keys, columns)
        except FileNotFoundError as error:
            gone = error
    raise UserError(
        f"{gone} is gone, though the newest version of the table names it: put a copy back, or"
        " begin with a new --out"
    )


def first_by_key(rows: pa.Table, count: int) -> pa.Table:
    """Return some rows, those with the first keys, by these.

    The others are left out before anything is sorted, as their texts may be too many for Arrow.
    """
    keys = rows.column(KEY)
    first = keys.take(pc.sort_indices(keys)).slice(0, min(count, len(keys)))
    return rows.filter(pc.is_in(keys, first)).sort_by(KEY)


def _chosen(known: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the key and the columns that are asked for, in any case as with Spark."""
    by_name = ColumnNames(known)
    found = {name: name if name in known else by_name.column_of(name) for name in columns}
    if unknown := [name for name, column in found.items() if column is None]:
        raise UserError(f"the table has no column {min(unknown)}")
    return list(dict.fromkeys((KEY, *filter(None, found.values()))))


def _type(version: Version, name: str) -> pa.DataType:
    if name in version.fields:
        return TYPES[version.fields[name]]
    return CHANGE_SCHEMA.field(name).type


def _table(out: str) -> tuple[fs.FileSystem, str]:
    place = Places.of(out, desk=".").table(TABLE)
    try:
        with reading(place):
            files, folder = fs.FileSystem.from_uri(place)
    except UserError as error:
        raise UserError(f"{error}: ask Spark, with moldau table sql") from error
    return files, folder


def _names(files: fs.FileSystem, folder: str) -> list[str]:
    with reading(folder):
        found = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return [one.base_name for one in found]
