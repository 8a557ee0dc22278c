"""Tables of logs made without Spark, and questions about them answered by going through all rows.

Rows are plain dicts with the names of the table's columns, `level` among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from moldau.base.clock import Clock, SystemClock
from moldau.spark.pipelines.logs.layout import PARTITIONED_BY, SCHEMA, write_rows
from moldau.spark.pipelines.logs.search import Question
from moldau.spark.pipelines.logs.sketches import sketch_place
from moldau.spark.pipelines.storage import Files, LocalFiles
from moldau.spark.pipelines.tables.appending import Table
from moldau.spark.pipelines.tables.file_log import FileLog
from moldau.spark.pipelines.tables.merging import Layout, Merger

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
    layout = Layout(write_rows, sketch_place)
    merger = Merger(files, str(path), clock or SystemClock(), layout)
    return Table(files, str(path), FileLog(files, str(path), merger), PARTITIONED_BY)


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
        and all(holds(one, re.escape(text), question) for text in question.texts)
        and all(holds(one, expression, question) for expression in question.expressions)
        and not any(holds(one, re.escape(text), question) for text in question.without)
    )


def holds(one: Row, expression: str, question: Question) -> bool:
    """Tell whether a text of a row matches."""
    flags = re.IGNORECASE if question.ignore_case else 0
    texts = [one["message"], one["stack"] or ""]
    return any(re.search(expression, text, flags) for text in texts)
