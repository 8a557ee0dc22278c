"""Tables of logs made without Spark, and questions about them answered by going through all rows.

Rows are plain dicts with the names of the table's columns, `level` among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from moldau.base.clock import Clock, SystemClock
from moldau.spark.pipelines.logs.layout import PARTITIONED_BY, SCHEMA, write_rows
from moldau.spark.pipelines.logs.merging import Merger
from moldau.spark.pipelines.logs.search import Question
from moldau.spark.pipelines.storage import Files, LocalFiles
from moldau.spark.pipelines.tables import Table

Row = dict[str, Any]

NOON_US = 1_794_744_000_000_000
"""2026-11-15 12:00:00 UTC."""


def row(offset: int, **given: Any) -> Row:
    """Return a row; what is not given is as in most rows."""
    usual = {
        "time_us": NOON_US + offset * 1000,
        "level": "INFO",
        "host": "web-1",
        "service": "shop",
        "path": "/var/log/shop.log",
        "message": f"line {offset}",
        "fields": {},
        "stack": None,
        "format": "python",
        "late": False,
        "topic": "logs",
        "partition": 0,
        "offset": offset,
        "batch": 0,
    }
    return {**usual, **given}


def arrow(rows: Iterable[Row]) -> pa.Table:
    """Return rows as the pipeline hands them to its table."""
    rows = list(rows)
    columns = {
        name: [list(one[name].items()) if name == "fields" else one[name] for one in rows]
        for name in SCHEMA.names
        if name != "time"
    }
    columns["time"] = [one["time_us"] for one in rows]
    table = pa.table(
        {name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names}
    )
    dates = [datetime.fromtimestamp(one["time_us"] / 1e6, UTC).date() for one in rows]
    levels = pa.array([one["level"] for one in rows], pa.string())
    return table.append_column("date", pa.array(dates, pa.date32())).append_column("level", levels)


def log_table(path: Path, files: Files | None = None, clock: Clock | None = None) -> Table:
    """Return the table that the pipeline would make."""
    files = files or LocalFiles()
    merger = Merger(files, str(path), clock or SystemClock(), write_rows)
    return Table(files, str(path), PARTITIONED_BY, merger)


def expected(rows: Iterable[Row], question: Question) -> list[int]:
    """Return the offsets of the rows that answer a question, the newest first."""
    found = [one for one in rows if fulfils(one, question)]
    found.sort(key=lambda one: (one["time_us"], one["partition"], one["offset"]), reverse=True)
    return [one["offset"] for one in found[: question.limit]]


def fulfils(one: Row, question: Question) -> bool:
    """Tell whether a row is wanted."""
    return (
        (question.since_us is None or one["time_us"] >= question.since_us)
        and (question.until_us is None or one["time_us"] < question.until_us)
        and (question.levels is None or one["level"] in question.levels)
        and all(one[name] == value for name, value in question.values.items())
        and all(one["fields"].get(name) == value for name, value in question.fields.items())
        and (question.after_batch is None or one["batch"] > question.after_batch)
        and (question.text is None or holds(one, question.text, question.ignore_case))
    )


def holds(one: Row, text: str, ignore_case: bool) -> bool:
    """Tell whether a row has a text."""
    texts = [one["message"], one["stack"] or ""]
    if ignore_case:
        text, texts = text.lower(), [each.lower() for each in texts]
    return any(text in each for each in texts)
