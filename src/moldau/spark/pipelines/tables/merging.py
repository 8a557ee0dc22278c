"""Few large files instead of many small ones, without a reader who sees a row twice or not at all.

Every append makes files, and thousands of them a day would make a table slow. So whenever the log
of a table gets an entry that holds all others, which is every tenth, small files are merged into
larger ones first, and the entry names these instead. Readers follow the log: before the entry they
find the small files, after it the large ones, and one rename lies between. Merged files count as
part of the append whose entry names them: until that is committed, they are what any crash leaves
behind of it, and go the same way.

Files that a pipeline is to read again by their names, those of windows that are open, are not
merged before it has let them go; the log sees to that.

A reader may have looked into the log just before. Small files are therefore kept for a while, and
`_replaced` notes which and since when. A note is only believed of files that the log does not name:
one of a try that was not committed does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from moldau.base.clock import Clock
from moldau.base.errors import StorageError, UserError
from moldau.spark.pipelines.storage import FileEntry, Files
from moldau.spark.pipelines.tables.appending import parquet_bytes

REPLACED: Final = "_replaced"
MERGED: Final = "-merged-"
"""Part of the names of files that were merged once."""

TARGET_SIZE: Final = 32 * 1024 * 1024
"""Bytes from which on a file is large: read in a tenth of a second."""
ROWS_SIZE_MAX: Final = 512 * 1024 * 1024
"""Bytes that the rows of a merge have at most, as it holds them all in memory: lines that are much
the same take hundreds of times what their files do."""
_LARGE_ROWS_SIZE: Final = ROWS_SIZE_MAX // 2
"""Bytes of its rows from which on a file is large: any two that are not can be merged."""
_ROW_SIZE_MIN: Final = 128
"""Bytes that a row counts for at least: a file has values that recur once, memory has all."""
FAN_IN: Final = 8
"""So many files of one tier become one of the next: a day is rewritten four times at most."""
_TIERS: Final = (TARGET_SIZE // 512, TARGET_SIZE // 64, TARGET_SIZE // 8)

REPLACED_KEPT_MS: Final = 3_600_000
"""How long files stay that were merged into others: no query should take an hour."""

_LOCAL: Final = "file:"


class Layout(NamedTuple):
    """How the merged files of a table look, if not as rows are."""

    write: Callable[[pa.Table, Any], bytes | None]
    """Writes rows to a sink as a file; what it returns is written beside that."""
    beside: Callable[[str], str]
    """Names the file beside a file."""


class Merger:
    """Merges the files of one table; its log calls it before entries that hold all others."""

    def __init__(
        self, files: Files, table: str, clock: Clock, layout: Layout | None = None
    ) -> None:
        self._files = files
        self._place = f"{table}/{REPLACED}"
        self._clock = clock
        self._layout = layout
        self._rows_sizes: dict[str, int] = {}

    def __call__(self, prefix: str, entries: Sequence[FileEntry]) -> list[FileEntry]:
        """Return the files that an append's entry is to name, with small ones merged.

        Names of new files begin with the prefix of the append. Tables that are not on this machine
        keep their files as they are.
        """
        self._clear({entry.path for entry in entries})
        merges = self._planned([entry for entry in entries if entry.path.startswith(_LOCAL)])
        if not merges:
            return list(entries)
        made = [
            self._merge(merge, f"{_folder(merge[0])}/{prefix.removesuffix('-')}{MERGED}{place}")
            for place, merge in enumerate(merges)
        ]
        replaced = {entry.path for merge in merges for entry in merge}
        note = {"at_ms": self._clock.wall_ms(), "paths": sorted(replaced)}
        self._files.write(f"{self._place}/{prefix}", json.dumps(note))
        return [*(entry for entry in entries if entry.path not in replaced), *made]

    def _planned(self, entries: Sequence[FileEntry]) -> list[list[FileEntry]]:
        """Plan merges; a file alone is only written again where it is to look different then.

        What rows take is read of files that a plan names, once of each; it may be another plan
        then.
        """
        sizes = self._rows_sizes
        self._rows_sizes = {one.path: sizes[one.path] for one in entries if one.path in sizes}
        while True:
            planned = plan(entries, self._rows_sizes)
            parts = [part for part in planned if len(part) > 1 or self._layout is not None]
            unknown = [one for part in parts for one in part if one.path not in self._rows_sizes]
            if not unknown:
                return parts
            self._rows_sizes |= {one.path: _read_rows_size(one) for one in unknown}

    def _merge(self, merge: Sequence[FileEntry], stem: str) -> FileEntry:
        rows, target = merged([_read(entry) for entry in merge]), f"{stem}.parquet"
        if self._layout is None:
            self._files.write(target, parquet_bytes(rows))
            return self._files.entry(target)
        sink = pa.BufferOutputStream()
        beside = self._layout.write(rows, sink)
        if beside is not None:
            self._files.write(self._layout.beside(target), beside)
        self._files.write(target, sink.getvalue().to_pybytes())
        return self._files.entry(target)

    def _clear(self, live: set[str]) -> None:
        """Remove files that were replaced long ago."""
        for name in self._files.names(self._place):
            if name.startswith("."):  # a checksum of Spark's, or half a note
                continue
            at_ms, paths = _noted(self._files.read(f"{self._place}/{name}") or "")
            if self._clock.wall_ms() - at_ms < REPLACED_KEPT_MS:
                continue
            for path in paths:
                if path not in live:
                    self._files.remove(path)
                    if self._layout is not None:
                        self._files.remove(self._layout.beside(path))
            self._files.remove(f"{self._place}/{name}")


def _noted(text: str) -> tuple[int, list[str]]:
    """Read a note; one that cannot be read is old and names nothing: files stay then, unread."""
    try:
        note = json.loads(text)
        return int(note["at_ms"]), [str(path) for path in note["paths"]]
    except (KeyError, TypeError, ValueError):
        return 0, []


def plan(entries: Iterable[FileEntry], rows_sizes: Mapping[str, int]) -> list[list[FileEntry]]:
    """Say which files become one: those not merged yet, and those of a tier that is full.

    What the rows of files take in memory is given by their paths, as far as it is known.
    """
    folders: dict[str, dict[int, list[FileEntry]]] = {}
    for entry in sorted(entries):
        rows_size = rows_sizes.get(entry.path, 0)
        if MERGED not in entry.name and rows_size <= ROWS_SIZE_MAX:
            tier = -1
        elif entry.size < TARGET_SIZE and rows_size < _LARGE_ROWS_SIZE:
            tier = sum(entry.size >= size for size in _TIERS)
        else:
            continue
        folders.setdefault(_folder(entry), {}).setdefault(tier, []).append(entry)
    return [
        part
        for tiers in folders.values()
        for tier, found in sorted(tiers.items())
        for part in _parts(found, rows_sizes)
        if tier < 0
        or len(part) >= FAN_IN
        or _size(part) >= TARGET_SIZE
        or _rows_size(part, rows_sizes) >= _LARGE_ROWS_SIZE
    ]


def _parts(
    entries: Sequence[FileEntry], rows_sizes: Mapping[str, int]
) -> Iterator[list[FileEntry]]:
    """Part files so that what each part becomes is large, and not much larger."""
    part: list[FileEntry] = []
    for entry in entries:
        is_full = _rows_size([*part, entry], rows_sizes) > ROWS_SIZE_MAX
        if part and (is_full or _size(part) >= TARGET_SIZE):
            yield part
            part = []
        part.append(entry)
    yield part


def _rows_size(entries: Iterable[FileEntry], rows_sizes: Mapping[str, int]) -> int:
    return sum(rows_sizes.get(entry.path, 0) for entry in entries)


def _size(entries: Iterable[FileEntry]) -> int:
    return sum(entry.size for entry in entries)


def _folder(entry: FileEntry) -> str:
    return entry.path.rpartition("/")[0]


def _read(entry: FileEntry) -> pa.Table:
    with _reading(entry) as path:
        return pq.ParquetFile(path).read()


def _read_rows_size(entry: FileEntry) -> int:
    """Return about how much memory the rows of a file take, as its footer says."""
    with _reading(entry) as path:
        footer = pq.read_metadata(path)
    groups = map(footer.row_group, range(footer.num_row_groups))
    size: int = sum(one.total_byte_size for one in groups)
    return max(size, int(footer.num_rows) * _ROW_SIZE_MIN)


@contextmanager
def _reading(entry: FileEntry) -> Iterator[str]:
    """Give the path of a file, and name it where it cannot be read.

    What the system has refused may pass, damage does not; of that Arrow says no file.
    """
    path = entry.path.removeprefix(_LOCAL)
    try:
        yield path
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".: ")
        what = f"cannot be read: {reason}"
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(path, what) from error
        raise UserError(f"{path} {what}; put a copy back, or begin with a new --out") from error


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Join tables written by Spark, by Arrow and by other versions of us.

    They may differ in what may be null and in how members of lists are called, and one may have a
    column that others have not: it is null there.
    """
    return pa.concat_tables([_loose(table) for table in tables], promote_options="permissive")


def _loose(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([(one.name, _loose_type(one.type)) for one in table.schema]))


def _loose_type(kind: pa.DataType) -> pa.DataType:
    """Return a type that allows null everywhere, with the usual names inside."""
    if pa.types.is_list(kind):
        return pa.list_(_loose_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _loose_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(one.name, _loose_type(one.type)) for one in kind])
    return kind
