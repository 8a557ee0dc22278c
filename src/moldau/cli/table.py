"""`moldau table`: what the changelog pipeline's table holds now, read without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from moldau.base.errors import UserError
from moldau.cli.frame.arguments import check_texts
from moldau.cli.frame.output import output_option, show
from moldau.cli.frame.report import Column, listing

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.group()
def table() -> None:
    """The table of the changelog pipeline: show it, without Spark."""


@table.command("show")
@click.option("--out", required=True, metavar="DIR", help="The folder of the pipeline's tables.")
@click.option("-k", "--key", "keys", multiple=True, metavar="KEY", help="This row; repeatable.")
@click.option(
    "-c", "--column", "columns", multiple=True, metavar="NAME",
    help="This column; repeatable.",
)  # fmt: skip
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=100, show_default=True,
    help="So many rows, by their keys.",
)  # fmt: skip
@output_option
def show_rows(
    out: str, keys: tuple[str, ...], columns: tuple[str, ...], limit: int, output: str
) -> None:
    """Print what is the case now: the last value of each key that is not deleted."""
    try:
        from moldau.spark.pipelines.changelog.reading import (  # noqa: PLC0415 - slow to load
            current,
            first_by_key,
        )
    except ImportError as missing:
        raise UserError(f"reading needs {missing.name}: pip install 'moldau[spark]'") from None
    check_texts((out, keys, columns))
    found = current(out, keys=keys or None, columns=columns or None)
    rows = _plain(first_by_key(found, limit))
    shown = [
        Column(name, name.upper(), wide=name.startswith("_") and name not in ("_key", *columns))
        for name in found.column_names
    ]
    show(listing(shown, rows), output)
    if len(rows) < found.num_rows:
        told = f"moldau: {len(rows):,} of {found.num_rows:,} rows; --limit shows more"
        click.echo(told, err=True)


def _plain(found: Any) -> list[dict[str, Any]]:
    """Return the rows of an Arrow table as plain data: their times are texts."""
    place = found.schema.get_field_index("_timestamp")
    if place >= 0:
        found = found.set_column(place, "_timestamp", found.column(place).cast("int64"))
    return [_with_text(row) for row in found.to_pylist()]


def _with_text(row: dict[str, Any]) -> dict[str, Any]:
    time_us = row.get("_timestamp")
    return row if time_us is None else {**row, "_timestamp": _time(time_us)}


def _time(time_us: int) -> str:
    """Write a time; it is the producer's, and milliseconds where it is beyond all calendars."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return str(time_us // 1000)
