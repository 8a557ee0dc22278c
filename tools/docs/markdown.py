"""Markdown as the generated pages need it: tables, code, and the line that says who wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Written by `make reference` from the code. Change the code, not this page. -->"


def page(title: str, *blocks: str) -> str:
    """Put a generated page together."""
    return "\n\n".join((GENERATED, f"# {title}", *blocks)) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table."""
    lines = [_row(header), _row(["---"] * len(header))]
    return "\n".join([*lines, *map(_row, rows)])


def code(text: str) -> str:
    """Write a word of code; an empty one is nothing."""
    return f"`{text}`" if text else ""


def block(text: str) -> str:
    """Write lines as they are printed."""
    return f"```text\n{text.rstrip()}\n```"


def anchored(name: str) -> str:
    """Write a name that links can lead to: `page.md#name`."""
    return f'<a id="{name}"></a>`{name}`'


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
