"""What a command prints: one report, in the form that was asked for.

A report is data for programs (json, yaml) and tables for people (table, wide) made from the same
answer; csv and name are for pipes in between. On a terminal rich draws the tables, and NO_COLOR is
honoured; elsewhere they are plain text in aligned columns, the same every time. What others chose
(ids of clients, values of configs) may hold anything, so control characters are shown escaped.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from moldau.cli.frame.yaml_text import yaml_text

Command = Callable[..., None]

Row = Mapping[str, Any]
"""One line of a table: values by column; more than the columns show is fine."""

FORMS = ("table", "wide", "json", "yaml", "csv", "name")

GOOD, DOUBTFUL, BAD = "green", "yellow", "red"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What could move the cursor, change colours or turn the direction of writing."""
_LEFT_BY_JSON = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Those of them that JSON leaves as they are."""


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


def output_option(command: Command) -> Command:
    """Give a command `-o`."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), default="table", help="Form of the output."
    )(command)


def listing(columns: Sequence[Column], rows: Sequence[Row], **more: Any) -> Report:
    """Make the report of a plain list, named by its first column."""
    return Report(list(rows), View(columns, rows), columns[0].key, **more)


def show(report: Report, form: str) -> None:
    """Print a report on standard output."""
    if form in ("table", "wide"):
        _show_tables(report.views or (report.main,), wide=form == "wide")
    else:
        click.echo(rendered(report, form), nl=False)


def rendered(report: Report, form: str) -> str:
    """Write a report as text for programs, or plainly for people."""
    match form:
        case "json":
            return json_text(report.data, indent=2) + "\n"
        case "yaml":
            return yaml_text(report.data)
        case "csv":
            return _csv(report.main)
        case "name":
            names = dict.fromkeys(str(row[report.name]) for row in report.main.rows)
            return "".join(f"{safe(name)}\n" for name in names)
        case _:
            views = report.views or (report.main,)
            return "\n".join(_plain(view, wide=form == "wide") for view in views)


def json_text(data: Any, *, indent: int | None = None) -> str:
    """Write data as JSON that people of every language can read, and any terminal show."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _LEFT_BY_JSON.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def safe(text: str) -> str:
    """Escape what a terminal would obey."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


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


def _show_tables(views: Sequence[View], *, wide: bool) -> None:
    if not sys.stdout.isatty():
        click.echo("\n".join(_plain(view, wide=wide) for view in views), nl=False)
        return
    from moldau.cli.frame.drawing import draw  # noqa: PLC0415 - rich is for terminals only

    draw(views, wide=wide)


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


def _plain(view: View, *, wide: bool) -> str:
    columns = columns_of(view, wide=wide)
    lines = [[column.title for column in columns]]
    lines += [[cell(row.get(column.key)) for column in columns] for row in view.rows]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    numeric = [is_numeric(column, view.rows) for column in columns]
    out = [f"{view.caption}\n"] if view.caption else []
    for line in lines:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        )
        out.append("  ".join(padded).rstrip() + "\n")
    return "".join(out)


def _csv(view: View) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.key for column in view.columns])
    for row in view.rows:
        writer.writerow([_csv_field(row.get(column.key)) for column in view.columns])
    return text.getvalue()


def _csv_field(value: object) -> object:
    """Leave nothing empty and numbers bare; what has parts is written as in a table."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if value in (None, "") or isinstance(value, (int, float)) else cell(value)
