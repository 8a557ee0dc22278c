"""How pipelines go, for people: the report of `status`, a line, and a view that stays in place.

All are made from the status that a pipeline writes down; they show the same figures.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from moldau.cli.frame.durations import duration_text
from moldau.cli.frame.report import BAD, DOUBTFUL, GOOD, Column, Report, View
from moldau.cli.frame.texts import safe

Status = Mapping[str, Any]
Show = Callable[[str, Status], None]
"""Shows the status of a pipeline under a title."""

DUMB: Final = frozenset({"dumb", "unknown"})
"""Terminals on which nothing can be replaced: Rich would show the last status there, at the end."""

STYLES: Final = {"died": BAD, "failed": BAD, "retrying": DOUBTFUL}

QUERIES: Final = (
    Column("query", "QUERY"),
    Column("batch", "BATCH"),
    Column("rows", "ROWS"),
    Column("rows_per_second", "ROWS/S"),
    Column("batch_ms", "BATCH MS"),
    Column("lag", "LAG"),
)


def status_report(told: Status) -> Report:
    """Make the report of a status."""
    views = _views(told)
    note = "; ".join(filter(None, (_ahead(told), told.get("error"))))
    return Report(dict(told), views[0], "state", views, note=note or None)


def _views(told: Status) -> list[View]:
    summary = {
        "pipeline": told.get("pipeline"),
        "state": told.get("state"),
        "watermark": _moment(told.get("watermark_ms")),
        **told.get("totals", {}),
        "updated": _moment(told.get("updated_ms")),
    }
    columns = [
        Column(key, key.replace("_", " ").upper(), style=_style if key == "state" else None)
        for key in summary
    ]
    found = [View(columns, [summary])]
    if queries := [_query(query) for query in told.get("queries") or ()]:
        found.append(View(QUERIES, queries))
    return found


def _query(query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a query; before its first batch there are none."""
    if query["batch"] < 0:
        return {"query": query["query"]}
    return {**query, "rows_per_second": round(query["rows_per_second"])}


def _style(state: Any) -> str | None:
    return STYLES.get(state, GOOD)


def _moment(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds")


def _trouble(told: Status) -> list[str]:
    """Return what is wrong; what has ended a pipeline is the last word of its command."""
    error = None if told["state"] == "failed" else told.get("error")
    return [safe(text) for text in (_ahead(told), error) if text]


def _ahead(told: Status) -> str | None:
    """Name the source whose clock was far ahead, and when that was seen."""
    ahead = told.get("ahead")
    if ahead is None:
        return None
    by = duration_text(ahead["by_ms"] // 1000 * 1000)
    return f"the clock of {ahead['source']} is {by} ahead (seen {_moment(ahead['at_ms'])})"


def status_line(title: str, told: Status) -> str:
    """Say in one line how it goes."""
    parts = [f"{title} {told['state']}"]
    for query in map(_query, told.get("queries") or ()):
        if "batch" not in query:
            parts.append(f"{query['query']}: no batch yet")
            continue
        lag = "" if query["lag"] is None else f", lag {query['lag']:,}"
        parts.append(
            f"{query['query']}: batch {query['batch']}, {query['rows']:,} rows,"
            f" {query['rows_per_second']:,}/s, {query['batch_ms']:,} ms{lag}"
        )
    parts += [f"{name} {count:,}" for name, count in told.get("totals", {}).items()]
    if told.get("watermark_ms") is not None:
        parts.append(f"watermark {_moment(told['watermark_ms'])}")
    parts += _trouble(told)
    return safe("; ".join(parts))


@contextlib.contextmanager
def view() -> Iterator[Show]:
    """Show statuses as they change: in place on a terminal that can do so, else line by line."""
    if not sys.stderr.isatty() or os.environ.get("TERM") in DUMB:
        yield lambda title, told: click.echo(f"moldau: {status_line(title, told)}", err=True)
        return
    from rich.console import Console, Group, RenderableType  # noqa: PLC0415 - for terminals only
    from rich.live import Live  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from moldau.cli.frame.drawing import table_of  # noqa: PLC0415

    known: dict[str, Status] = {}

    def drawn() -> Iterator[RenderableType]:
        for number, (title, told) in enumerate(known.items()):
            if number:
                yield Text()
            for one in _views({**told, "pipeline": title}):
                yield table_of(one, wide=False)
            yield from map(Text, _trouble(told))

    live = Live(console=Console(stderr=True), auto_refresh=False)

    def show(title: str, told: Status) -> None:
        known[title] = told
        live.update(Group(*drawn()))
        live.start()  # with the first one: what is refused before leaves the terminal alone
        live.refresh()

    try:
        yield show
    finally:
        live.stop()
