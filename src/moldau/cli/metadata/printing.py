"""Printing a tree as it is walked, so that the first lines come before the last are made.

A cluster has 100,000 partitions and ten values in each. Nothing here holds more than some lines.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from moldau.cli.frame.report import cell
from moldau.cli.frame.texts import json_text
from moldau.cli.metadata.folder import Node

LINES_AT_ONCE: Final = 500
"""To write each line by itself takes longer than to make it."""


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard output, some at a time; also those before an error."""
    # Names and values are anybody's: what the terminal cannot show must not end the command.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    waiting: list[str] = []
    try:
        for line in lines:
            waiting.append(line)
            if len(waiting) == LINES_AT_ONCE:
                _print(waiting)
    finally:
        _print(waiting)


def _print(waiting: list[str]) -> None:
    text = "".join(f"{line}\n" for line in waiting)
    waiting.clear()
    click.echo(text, nl=False)


def short(node: Node) -> str:
    """Write a value in one line; of a folder only how much is in it."""
    if isinstance(node, Mapping):
        return f"({len(node)} {'entry' if len(node) == 1 else 'entries'})"
    return cell(node)


def json_lines(node: Node, start: str = "", end: str = "", indent: str = "") -> Iterator[str]:
    """Yield the lines of a folder or value as JSON; `start` and `end` stand around it."""
    if not isinstance(node, Mapping) or not node:
        value = "{}" if isinstance(node, Mapping) else json_text(node)
        yield f"{indent}{start}{value}{end}"
        return
    yield f"{indent}{start}{{"
    last = len(node) - 1
    for number, (name, entry) in enumerate(node.items()):
        comma = "," if number < last else ""
        yield from json_lines(entry, f"{json_text(name)}: ", comma, indent + "  ")
    yield f"{indent}}}{end}"


def json_array_lines(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of an array of rows, one row in a line."""
    left = iter(rows)
    first = next(left, None)
    if first is None:
        yield "[]"
        return
    yield "["
    before = first
    for row in left:
        yield f"  {json_text(before)},"
        before = row
    yield f"  {json_text(before)}"
    yield "]"


def tree_lines(name: str, node: Node, depth: int | None = None) -> Iterator[str]:
    """Yield the lines of a drawn tree, this many levels deep."""
    if not isinstance(node, Mapping):
        yield f"{name}: {cell(node)}"
        return
    yield f"{name} {short(node)}" if depth == 0 else name
    if depth == 0:
        return
    last = len(node) - 1
    for number, (child, entry) in enumerate(node.items()):
        branch, trunk = ("└── ", "    ") if number == last else ("├── ", "│   ")
        lines = tree_lines(child, entry, None if depth is None else depth - 1)
        yield branch + next(lines)
        yield from (trunk + line for line in lines)
