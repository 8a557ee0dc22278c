"""Tables on a terminal, drawn by rich: it knows the width, the colours, and NO_COLOR."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.control import Control
from rich.screen import Screen
from rich.table import Table
from rich.text import Text

from moldau.cli.frame.report import Column, View, cell, columns_of, is_numeric


def draw(views: Sequence[View], *, wide: bool) -> None:
    """Draw tables one below the other. Long values are folded, never cut: they are copied."""
    console = Console(highlight=False)
    for number, view in enumerate(views):
        if number:
            console.print()
        if view.caption:
            console.print(Text(view.caption, style="bold"))
        console.print(table_of(view, wide=wide))


def redraw(text: str) -> None:
    """Write a text over all that the terminal shows; what does not fit is cut off below.

    Nothing is erased before, and all is one write, so nothing flickers. The terminal is left in no
    state of its own (no other screen, no hidden cursor), so the process may be killed any time.
    """
    console = Console(highlight=False)
    shown = Text.from_ansi(text.removesuffix("\n"))
    height = len(console.render_lines(shown, pad=False))
    with console:
        console.control(Control.home())
        console.print(Screen(shown), end="")
        # What is typed or printed next stands below the text.
        console.control(Control.move_to(0, min(height, console.height - 1)))


def table_of(view: View, *, wide: bool) -> Table:
    """Make what rich draws."""
    columns = columns_of(view, wide=wide)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        right = is_numeric(column, view.rows)
        table.add_column(column.title, justify="right" if right else "left", overflow="fold")
    for row in view.rows:
        table.add_row(*(_text(column, row.get(column.key)) for column in columns))
    return table


def _text(column: Column, value: object) -> Text:
    style = column.style(value) if column.style is not None else None
    return Text(cell(value), style=style or "")
