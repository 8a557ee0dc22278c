"""Shows how everything stands: a page that stays in place on a terminal, lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Protocol

from examples.demo.figures import Snapshot
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

LINES_EVERY_S: Final = 10.0
"""Where there is no terminal, somebody reads a log later."""

SPACIOUS: Final = 45
"""From so many lines on a terminal has room for empty ones."""

STORY: Final = {
    "activity": "page views and searches",
    "logs": "lines of the shop's log files",
    "metrics": "figures of this machine and of the shop",
    "stock": "what the shop has, by product",
}
"""What the topics hold."""


class View(Protocol):
    """Something that shows snapshots."""

    def show(self, snapshot: Snapshot, note: str) -> None:
        """Show one, and what is going on."""


@contextmanager
def opened(console: Console) -> Iterator[View]:
    """Give the view that suits the console."""
    if not console.is_terminal or console.is_dumb_terminal:
        yield Lines(console)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield Page(live)


class Page:
    """Fills the terminal."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def show(self, snapshot: Snapshot, note: str) -> None:
        """Draw everything again."""
        is_spacious = self._live.console.height >= SPACIOUS
        self._live.update(drawn(snapshot, note, is_spacious=is_spacious), refresh=True)


class Lines:
    """Says something now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_s = 0.0
        self._note = ""

    def show(self, snapshot: Snapshot, note: str) -> None:
        """Say how it goes, if that is due or something else is going on now."""
        if snapshot.elapsed_s < self._next_s and note == self._note:
            return
        self._next_s, self._note = snapshot.elapsed_s + LINES_EVERY_S, note
        self._console.print(line(snapshot, note), soft_wrap=True, highlight=False)


def line(snapshot: Snapshot, note: str) -> str:
    """Say in one line how everything stands."""
    topics = ", ".join(f"{one.name} {one.records:,}" for one in snapshot.topics)
    pipelines = "; ".join(
        f"{one.name} {one.state}, {sum(one.rows.values()):,} rows, lag {one.lag:,}"
        for one in snapshot.pipelines
    )
    return f"{clock(snapshot.elapsed_s)} {note} | records: {topics} | {pipelines}"


def drawn(snapshot: Snapshot, note: str, *, is_spacious: bool = True) -> RenderableType:
    """Draw the page."""
    heading = Text.assemble(("Moldau", "bold"), f"  {clock(snapshot.elapsed_s)}  {note}")
    sections = [_topics(snapshot), _pipelines(snapshot), _rows(snapshot), _excerpts(snapshot)]
    gap = [Text()] if is_spacious else []
    return Group(heading, *(part for section in sections for part in (*gap, section)))


def _topics(snapshot: Snapshot) -> Table:
    rows = [
        (one.name, f"{one.records:,}", f"{one.per_second:,.0f}", STORY[one.name])
        for one in snapshot.topics
    ]
    return _table(("Topics", "records", "a second", "what they hold"), rows)


def _pipelines(snapshot: Snapshot) -> Table:
    rows = [
        (
            one.name,
            one.state,
            "-" if one.batch is None else f"{one.batch:,}",
            f"{one.batch_ms / 1000:.1f} s" if one.has_begun else "-",
            f"{one.lag:,}",
            "-" if one.watermark_ms is None else _moment(one.watermark_ms),
        )
        for one in snapshot.pipelines
    ]
    return _table(("Pipelines", "state", "batch", "took", "lag", "watermark"), rows)


def _rows(snapshot: Snapshot) -> Table:
    rows = [
        (one.name, "  ".join(f"{count:,} {name}" for name, count in one.rows.items()))
        for one in snapshot.pipelines
    ]
    return _table(("Tables", "rows that are committed"), rows)


def _excerpts(snapshot: Snapshot) -> RenderableType:
    return Packed([_table(one.columns, one.rows, one.title) for one in snapshot.excerpts])


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    """Draw rows of text: the first column is what it is about, numbers are put to the right."""
    table = Table(
        title=title or None, title_justify="left", title_style="bold", min_width=len(title),
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan",
    )  # fmt: skip
    for at, name in enumerate(columns):
        are_numbers = at > 0 and all(row[at][:1].isdigit() or row[at] == "-" for row in rows)
        is_prose = at > 0 and any("  " in row[at] for row in rows)
        table.add_column(name, justify="right" if are_numbers and not is_prose else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


class Packed:
    """Tables beside each other, as many as fit, and the next ones below."""

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tables

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Fill one line after the other."""
        line, width = Table.grid(padding=(0, 3, 0, 0)), 0
        cells: list[Table] = []
        for table in self._tables:
            needs = Measurement.get(console, options, table).maximum + 3
            if cells and width + needs > options.max_width:
                line.add_row(*cells)
                yield line
                line, width, cells = Table.grid(padding=(0, 3, 0, 0)), 0, []
            cells.append(table)
            width += needs
        line.add_row(*cells)
        yield line


def _moment(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%H:%M:%S}"


def clock(seconds: float) -> str:
    """Write a span of time: 1:05."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
