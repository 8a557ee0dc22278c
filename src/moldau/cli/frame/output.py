"""What a command prints: one report, in the form that was asked for.

A report is data for programs (json, yaml) and tables for people (table, wide) made from the same
answer; csv and name are for pipes in between. On a terminal rich draws the tables, and NO_COLOR is
honoured; elsewhere they are plain text in aligned columns, the same every time.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Sequence

import click

from moldau.cli.frame.report import Report, View, cell, columns_of, is_numeric
from moldau.cli.frame.texts import json_text, safe, yaml_text

Command = Callable[..., None]

FORMS = ("table", "wide", "json", "yaml", "csv", "name")


def output_option(command: Command) -> Command:
    """Give a command `-o`."""
    return click.option(
        "-o", "--output", type=click.Choice(FORMS), default="table", help="Output format."
    )(command)


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


def _show_tables(views: Sequence[View], *, wide: bool) -> None:
    if not sys.stdout.isatty():
        click.echo("\n".join(_plain(view, wide=wide) for view in views), nl=False)
        return
    from moldau.cli.frame.drawing import draw  # noqa: PLC0415 - rich is for terminals only

    draw(views, wide=wide)


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
