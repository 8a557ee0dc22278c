"""Tables as Kafka's commands print them, to the last space: scripts cut them by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

UNKNOWN: Final = "-"


class Column(NamedTuple):
    """One column: its title, its least width, and whether it grows with its cells."""

    title: str
    width: int = 15
    grows: bool = False


def table(columns: Sequence[Column], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lay out a table with a space between columns; an unknown cell is a dash."""
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [
        max([column.width, *(len(row[place]) for row in texts)]) if column.grows else column.width
        for place, column in enumerate(columns)
    ]
    titles = [column.title for column in columns]
    return [
        " ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        for row in (titles, *texts)
    ]


def tabbed_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out columns as wide as their widest cell with a tab after each, as newer commands do."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return [
        "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
        for row in (titles, *rows)
    ]


def _text(cell: object) -> str:
    return UNKNOWN if cell is None else str(cell)
