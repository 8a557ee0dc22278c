"""Tables of Delta and Iceberg, laid down with pyarrow and fastavro alone, as their libraries do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

Line = dict[str, Any]


class LaidDelta:
    """A table of Delta, commit by commit."""

    def __init__(self, folder: Path, **protocol: Any) -> None:
        self.folder = folder
        self.log = folder / "_delta_log"
        self.log.mkdir(parents=True)
        self._next = 0
        self._live: dict[str, Line] = {}
        self._head = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, **protocol}},
            {"metaData": {"id": "x", "partitionColumns": ["date"], "configuration": {}}},
        ]
        self.commit(*self._head)

    def commit(self, *lines: Line) -> None:
        """Write an entry."""
        for line in lines:
            if "add" in line:
                self._live[line["add"]["path"]] = line["add"]
            if "remove" in line:
                del self._live[line["remove"]["path"]]
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (self.log / f"{self._next:020d}.json").write_text(text)
        self._next += 1

    def append(self, name: str, rows: pa.Table, date: str | None, **more: Any) -> None:
        """Commit a file with these rows."""
        self.commit(self.added(name, rows, date, **more))

    def added(self, name: str, rows: pa.Table, date: str | None, **more: Any) -> Line:
        """Write a file, and return the line that names it."""
        place = self.folder / f"date={date}" / name
        place.parent.mkdir(exist_ok=True)
        pq.write_table(rows, place)
        path = f"date={date}/{name}".replace(" ", "%20")
        return {"add": {"path": path, "partitionValues": {"date": date}, **more}}

    def remove(self, path: str) -> None:
        """Commit that a file does not count any more."""
        self.commit({"remove": {"path": path, "dataChange": True}})

    def checkpoint(self, parts: int = 1) -> None:
        """Write down all files so far, in some files; entries before that are cleaned up."""
        adds = list(self._live.values())
        lines = [*self._head, *({"add": add} for add in adds)]
        last = self._next - 1
        for part in range(parts):
            rows = [self._checkpoint_row(line) for line in lines[part::parts]]
            name = f".{part + 1:010d}.{parts:010d}" if parts > 1 else ""
            pq.write_table(
                pa.Table.from_pylist(rows, _CHECKPOINT),
                self.log / f"{last:020d}.checkpoint{name}.parquet",
            )
        for number in range(last + 1):
            (self.log / f"{number:020d}.json").unlink(missing_ok=True)

    def _checkpoint_row(self, line: Line) -> Line:
        row: Line = {**dict.fromkeys(_CHECKPOINT.names), **line}
        if row["add"]:
            filed = [*row["add"]["partitionValues"].items()]
            row["add"] = {**row["add"], "partitionValues": filed}
        if row["metaData"]:
            row["metaData"] = {"id": "x", "configuration": []}
        return row


_CHECKPOINT = pa.schema([
    ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
    ("add", pa.struct([
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("stats", pa.string()),
    ])),
    ("metaData", pa.struct([
        ("id", pa.string()),
        ("configuration", pa.map_(pa.string(), pa.string())),
    ])),
    ("protocol", pa.struct([
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
    ])),
])  # fmt: skip


class LaidIceberg:
    """A table of Iceberg, change by change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.metadata = folder / "metadata"
        self.metadata.mkdir(parents=True)
        self._entries: list[Line] = []
        self._version = 0

    def append(self, name: str, rows: pa.Table, date: str, **more: Any) -> None:
        """Commit a file with these rows."""
        place = self.folder / f"date={date}" / name
        place.parent.mkdir(exist_ok=True)
        pq.write_table(rows, place)
        told = {"content": 0, "file_path": f"file:{place}", "partition": {"date": date}, **more}
        self._entries.append({"status": 1, "data_file": told})
        self.commit()

    def remove(self, number: int) -> None:
        """Commit that a file does not count any more."""
        self._entries[number]["status"] = 2
        self.commit()

    def commit(self, version: int = 2) -> None:
        """Write what there is as the next version."""
        self._version += 1
        manifest = self.metadata / f"{self._version}-m0.avro"
        _write_avro(manifest, _MANIFEST, self._entries)
        listed = self.metadata / f"snap-{self._version}.avro"
        _write_avro(listed, _LIST, [{"manifest_path": str(manifest), "content": 0}])
        described = {
            "format-version": version,
            "location": str(self.folder),
            "current-snapshot-id": self._version,
            "snapshots": [{"snapshot-id": self._version, "manifest-list": str(listed)}],
        }
        place = self.metadata / f"v{self._version}.metadata.json"
        place.write_text(json.dumps(described))


def _write_avro(place: Path, schema: Mapping[str, Any], rows: Sequence[Line]) -> None:
    with place.open("wb") as opened:
        fastavro.writer(opened, fastavro.parse_schema(dict(schema)), rows)


_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        {"name": "manifest_path", "type": "string"},
        {"name": "content", "type": "int"},
    ],
}
_MANIFEST = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int"},
        {
            "name": "data_file",
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "content", "type": "int"},
                    {"name": "file_path", "type": "string"},
                    {
                        "name": "partition",
                        "type": {
                            "type": "record",
                            "name": "r102",
                            "fields": [
                                {
                                    "name": "date",
                                    "type": ["null", {"type": "int", "logicalType": "date"}],
                                }
                            ],
                        },
                    },
                ],
            },
        },
    ],
}
