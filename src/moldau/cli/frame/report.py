"""What a command found out: data for programs, and tables of the same for people.

A report knows its columns and how a value reads in a cell, not in which form it will be printed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moldau.cli.frame.texts import safe

Row = Mapping[str, Any]
"""One line of a table: values by column; more than the columns show is fine."""

GOOD, DOUBTFUL, BAD = "green", "yellow", "red"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    key: str
    title: str
    wide: bool = False
    """Whether only `-o wide` shows it."""
    style: Callable[[Any], str | None] | None = None
    """The colour of a value on a terminal."""


@dataclass(frozen=True, slots=True)
class View:
    """A table."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    caption: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a command found out."""

    data: Any
    """Everything, as plain data."""
    main: View
    """The rows that csv and name speak of."""
    name: str
    """The column that `-o name` prints."""
    views: Sequence[View] = ()
    """What people see; the main table where there is nothing else."""
    errors: Sequence[Exception] = field(default_factory=tuple)
    """What could not be done of what was asked for."""
    note: str | None = None
    """What the user should know besides; printed after the report, on standard error."""
    status: int = 0
    """How the command ends when nothing failed: what was found may be bad news."""


def listing(columns: Sequence[Column], rows: Sequence[Row], **more: Any) -> Report:
    """Make the report of a plain list, named by its first column."""
    return Report(list(rows), View(columns, rows), columns[0].key, **more)


def columns_of(view: View, *, wide: bool) -> list[Column]:
    """Choose the columns to show."""
    return [column for column in view.columns if wide or not column.wide]


def is_numeric(column: Column, rows: Sequence[Row]) -> bool:
    """Whether a column holds numbers, which stand under each other by their last digits."""
    values = [row.get(column.key) for row in rows]
    return any(value is not None for value in values) and all(
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
        for value in values
    )


def cell(value: object) -> str:
    """Write a value as a table shows it."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(cell(one) for one in value) or "-"
        case dict():
            return ",".join(f"{key}={cell(one)}" for key, one in value.items()) or "-"
        case "":
            return "-"
        case _:
            return safe(str(value))
