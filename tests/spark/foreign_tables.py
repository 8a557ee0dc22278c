"""Tables of Delta and Iceberg: where their libraries are, and which files their logs name.

The models of pipelines read Parquet tables; with the same files named by a log of those, they read
the others too.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import fastavro

from kafka_harness.distribution import SPARK_DELTA, SPARK_ICEBERG, jars
from moldau.spark.pipelines.declaration import DELTA, ICEBERG
from moldau.spark.pipelines.storage import LocalFiles
from moldau.spark.pipelines.tables.committed import LOG
from moldau.spark.pipelines.tables.file_log import log_text

LIBRARIES = {DELTA: SPARK_DELTA, ICEBERG: SPARK_ICEBERG}
"""Where the library of a format is found."""

_DELETED = 2
"""How a manifest of Iceberg's says that a file is no longer there."""


def library_settings(table_format: str) -> dict[str, str]:
    """Return what Spark has to be told for a format."""
    if table_format not in LIBRARIES:
        return {}
    found = sorted(jars(LIBRARIES[table_format]).glob("*.jar"))
    return {"spark.jars": ",".join(map(str, found))}


def as_parquet(out: Path, seen: Path) -> Path:
    """Return a folder with the tables of another, all of them as Parquet tables."""
    seen.mkdir()
    for table in out.iterdir():
        files = live_files(table)
        if files is None:
            (seen / table.name).symlink_to(table)
        else:
            entries = [LocalFiles().entry(str(path)) for path in files]
            LocalFiles().write(f"{seen}/{table.name}/{LOG}/0", log_text(entries))
    return seen


def live_files(table: Path) -> list[Path] | None:
    """Return the files of a table of Delta or Iceberg; None for what is neither."""
    if (table / "_delta_log").exists():
        return _delta_files(table)
    if (table / "metadata" / "version-hint.text").exists():
        return _iceberg_files(table)
    return None


def _delta_files(table: Path) -> list[Path]:
    """Return the files of a log whose entries are all there still, checkpoints or not."""
    live = set()
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, entry.read_text().splitlines()):
            if "add" in action:
                live.add(table / unquote(action["add"]["path"]))
            if "remove" in action:
                live.remove(table / unquote(action["remove"]["path"]))
    return sorted(live)


def _iceberg_files(table: Path) -> list[Path]:
    version = (table / "metadata" / "version-hint.text").read_text()
    described = json.loads((table / "metadata" / f"v{version}.metadata.json").read_text())
    current = described.get("current-snapshot-id")
    lists = [one["manifest-list"] for one in described["snapshots"]
             if one["snapshot-id"] == current]  # fmt: skip
    manifests = [entry["manifest_path"] for path in lists for entry in _avro(path)]
    return sorted(
        _local(entry["data_file"]["file_path"])
        for path in manifests
        for entry in _avro(path)
        if entry["status"] != _DELETED
    )


def _avro(path: str) -> list[dict]:
    with _local(path).open("rb") as source:
        return list(fastavro.reader(source))


def _local(path: str) -> Path:
    return Path(path.removeprefix("file:"))
