"""Tables of the changelog pipeline, laid down as it does it, with pyarrow alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from moldau.spark.pipelines.changelog.fields import noted, widened
from moldau.spark.pipelines.changelog.rows import CHANGE_SCHEMA, newest_by_key
from moldau.spark.pipelines.changelog.version import Part, Totals, Version, with_batch


class LaidTable:
    """A table in a folder, version by version."""

    def __init__(self, folder: Path) -> None:
        self.version = Version()
        self._folder = folder
        for name in ("_changes", "_versions"):
            (folder / name).mkdir(parents=True)

    def batch(self, number: int, changes: Sequence[tuple[str, dict[str, Any] | None]]) -> None:
        """Add the changes of a batch: keys and what they are now, None for a delete."""
        seen: dict[str, str] = {}
        rows = []
        for offset, (key, value) in enumerate(changes):
            noted(value or {}, seen)
            raw = None if value is None else json.dumps(value)
            rows.append(
                {"_key": key, "_raw": raw, "_partition": 0, "_offset": offset, "_batch": number}
            )
        newest = newest_by_key(pa.Table.from_pylist(rows, CHANGE_SCHEMA))
        name = f"_changes/{number}.parquet"
        pq.write_table(newest, self._folder / name)
        part = Part((name,), newest.num_rows)
        self._commit(with_batch(self.version, widened(self.version.fields, seen), part, Totals()))

    def merge(self, rows: pa.Table) -> None:
        """Make all rows there are the base."""
        name = f"{self.version.number}.parquet"
        pq.write_table(rows, self._folder / name)
        self._commit(
            self.version._replace(
                number=self.version.number + 1,
                base=Part((name,), rows.num_rows),
                base_fields=self.version.fields,
                changes=(),
            )
        )

    def _commit(self, version: Version) -> None:
        self.version = version
        (self._folder / "_versions" / str(version.number)).write_text(version.to_json())
