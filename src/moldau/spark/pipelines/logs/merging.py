"""Few large files instead of many small ones, without a reader who sees a row twice or not at all.

Every append makes files, and thousands of them a day would make a table slow. So whenever the log
of a table gets an entry that holds all others, which is every tenth, small files are merged into
larger ones first, and the entry names these instead. Readers follow the log: before the entry they
find the small files, after it the large ones, and one rename lies between. Merged files count as
part of the append whose entry names them: until that is committed, they are what any crash leaves
behind of it, and go the same way.

A reader may have looked into the log just before. Small files are therefore kept for a while, and
`_replaced` notes which and since when. A note is only believed of files that the log does not name:
one of a try that was not committed does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from moldau.base.clock import Clock
from moldau.spark.pipelines.logs.sketches import sketch_place
from moldau.spark.pipelines.storage import FileEntry, Files

REPLACED: Final = "_replaced"
MERGED: Final = "-merged-"
"""Part of the names of files that were merged once."""

TARGET_SIZE: Final = 32 * 1024 * 1024
"""Bytes from which on a file is large: read in a tenth of a second, and merged in the memory of
any driver."""
FAN_IN: Final = 8
"""So many files of one tier become one of the next: a day is rewritten four times at most."""
_TIERS: Final = (TARGET_SIZE // 512, TARGET_SIZE // 64, TARGET_SIZE // 8)

REPLACED_KEPT_MS: Final = 3_600_000
"""How long files stay that were merged into others: no query should take an hour."""

_LOCAL: Final = "file:"

Write = Callable[[pa.Table, Any], bytes | None]
"""Writes rows as a file; what it returns is written beside it, under the name of a sketch."""


class Merger:
    """Merges the files of one table; a `Table` calls it before entries that hold all others."""

    def __init__(self, files: Files, table: str, clock: Clock, write: Write) -> None:
        self._files = files
        self._place = f"{table}/{REPLACED}"
        self._clock = clock
        self._write = write

    def __call__(self, prefix: str, entries: Sequence[FileEntry]) -> list[FileEntry]:
        """Return the files that an append's entry is to name, with small ones merged.

        Names of new files begin with the prefix of the append. Tables that are not on this machine
        keep their files as they are.
        """
        self._clear({entry.path for entry in entries})
        merges = plan(entry for entry in entries if entry.path.startswith(_LOCAL))
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

    def _merge(self, merge: Sequence[FileEntry], stem: str) -> FileEntry:
        sink = pa.BufferOutputStream()
        beside = self._write(merged([_read(entry) for entry in merge]), sink)
        if beside is not None:
            self._files.write(sketch_place(f"{stem}.parquet"), beside)
        self._files.write(f"{stem}.parquet", sink.getvalue().to_pybytes())
        return self._files.entry(f"{stem}.parquet")

    def _clear(self, live: set[str]) -> None:
        """Remove files that were replaced long ago."""
        for name in self._files.names(self._place):
            if name.startswith("."):  # a checksum of Spark's, or half a note
                continue
            note = json.loads(self._files.read(f"{self._place}/{name}") or "{}")
            if not note or self._clock.wall_ms() - note["at_ms"] < REPLACED_KEPT_MS:
                continue
            for path in note["paths"]:
                if path not in live:
                    self._files.remove(path)
                    self._files.remove(sketch_place(path))
            self._files.remove(f"{self._place}/{name}")


def plan(entries: Iterable[FileEntry]) -> list[list[FileEntry]]:
    """Say which files become one: those not merged yet, and those of a tier that is full."""
    folders: dict[str, dict[int, list[FileEntry]]] = {}
    for entry in sorted(entries):
        if MERGED not in entry.name:
            tier = -1
        elif entry.size < TARGET_SIZE:
            tier = sum(entry.size >= size for size in _TIERS)
        else:
            continue
        folders.setdefault(_folder(entry), {}).setdefault(tier, []).append(entry)
    return [
        part
        for tiers in folders.values()
        for tier, found in sorted(tiers.items())
        for part in _parts(found)
        if tier < 0 or len(part) >= FAN_IN or _size(part) >= TARGET_SIZE
    ]


def _parts(entries: Sequence[FileEntry]) -> list[list[FileEntry]]:
    """Part files so that what each part becomes is large, and not much larger."""
    parts: list[list[FileEntry]] = [[]]
    for entry in entries:
        if _size(parts[-1]) >= TARGET_SIZE:
            parts.append([])
        parts[-1].append(entry)
    return parts


def _size(entries: Iterable[FileEntry]) -> int:
    return sum(entry.size for entry in entries)


def _folder(entry: FileEntry) -> str:
    return entry.path.rpartition("/")[0]


def _read(entry: FileEntry) -> pa.Table:
    return pq.ParquetFile(entry.path.removeprefix(_LOCAL)).read()


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Join tables that were written by Spark and by Arrow, which differ in what may be null."""
    schema = pa.schema([field.with_nullable(True) for field in tables[0].schema])
    return pa.concat_tables([table.select(schema.names).cast(schema) for table in tables])


def write_plainly(rows: pa.Table, sink: Any) -> None:
    """Write rows as they are."""
    pq.write_table(rows, sink)
