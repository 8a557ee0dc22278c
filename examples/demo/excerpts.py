"""What is worth reading in the tables while they grow: which rows of which, under which title."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from examples.demo.figures import Excerpt
from examples.demo.tables import newest_rows

from moldau.base.errors import UserError
from moldau.spark.pipelines.changelog.reading import current
from moldau.spark.pipelines.logs.levels import ERRORS
from moldau.spark.pipelines.logs.search import Question, search

LIMIT: Final = 5


class Reader(Protocol):
    """Takes an excerpt of what a pipeline has made."""

    def excerpt(self, out: Path) -> Excerpt | None:
        """Take it from the folder of the pipeline; None while there is nothing."""


class Newest(NamedTuple):
    """The newest rows of a table."""

    table: str
    title: str
    time: str
    """The column that tells which are the newest."""
    columns: Sequence[str]

    def excerpt(self, out: Path) -> Excerpt | None:
        """Read the last file of the table."""
        rows = newest_rows(out / self.table, self.time, self.columns)
        if not rows:
            return None
        return _excerpt(f"{self.title} {text(rows[0][self.time])}", self.columns, rows)


class Found(NamedTuple):
    """What a search in the logs finds: the newest errors."""

    title: str = "moldau logs search --level error"
    columns: Sequence[str] = ("time", "service", "message")

    def excerpt(self, out: Path) -> Excerpt | None:
        """Search as the command does."""
        question = Question(levels=frozenset(ERRORS), limit=LIMIT)
        rows = search(out / "logs", question, self.columns).rows
        rows = [{**row, "time": datetime.fromisoformat(row["time"])} for row in rows]
        return _excerpt(self.title, self.columns, rows) if rows else None


class Current(NamedTuple):
    """What is the case now: the last value of each key."""

    title: str = "Stock now"
    columns: Sequence[str] = ("product", "boxes", "price")

    def excerpt(self, out: Path) -> Excerpt | None:
        """Read the newest version of the table."""
        rows = current(str(out), columns=self.columns).to_pylist()
        return _excerpt(self.title, self.columns, rows) if rows else None


READERS: Final[Mapping[str, Sequence[Reader]]] = {
    "activity": (
        Newest("top_pages", "Top pages until", "window_end", ("page", "pv", "uv")),
        Newest("top_searches", "Top searches until", "window_end", ("query", "searches", "users")),
    ),
    "logs": (Found(),),
    "metrics": (
        Newest(
            "anomalies", "Stood out until", "window_end", ("service", "metric", "level", "usual")
        ),
    ),
    "changelog": (Current(),),
}


def excerpts(pipeline: str, out: Path) -> list[Excerpt]:
    """Return what there is to read of a pipeline now."""
    found = []
    for reader in READERS[pipeline]:
        try:
            excerpt = reader.excerpt(out)
        except (FileNotFoundError, UserError):  # not there yet, or just being replaced
            continue
        if excerpt is not None:
            found.append(excerpt)
    return found


def _excerpt(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Excerpt:
    shown = [[text(row[column]) for column in columns] for row in rows[:LIMIT]]
    return Excerpt(title, columns, shown)


def text(value: Any) -> str:
    """Write a value for people."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%H:%M:%S}"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
