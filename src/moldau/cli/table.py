"""`moldau table`: prints rows of pipelines' tables without Spark; SQL uses Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from moldau.base.errors import UserError
from moldau.cli.frame.arguments import check_texts, parse_pairs
from moldau.cli.frame.output import output_option, show
from moldau.cli.frame.report import Column, cell, listing
from moldau.cli.frame.texts import json_text
from moldau.cli.pipelines.tables import CHANGELOG_TABLE, PipelineTables

if TYPE_CHECKING:
    from moldau.spark.pipelines.tables.looking import AppendedTable

Command = Callable[..., None]

FOLLOW_PERIOD_S: Final = 1.0
"""As often as a pipeline appends by default."""
_WIDE: Final = frozenset({"date", "topic", "partition", "offset", "batch"})
"""Where rows come from, which few want to see."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.group()
def table() -> None:
    """Read the tables of pipelines, without Spark or with SQL."""


def _table_options(command: Command) -> Command:
    """Give a command what names a table and its columns."""
    for option in (
        click.option(
            "-c", "--column", "columns", multiple=True, metavar="NAME",
            help="Print this column; repeatable.",
        ),
        click.option(
            "--out", required=True, metavar="DIR", help="The folder of the pipeline's tables."
        ),
        click.argument("name", required=False, metavar="[TABLE]"),
    ):  # fmt: skip
        command = option(command)
    return command


@table.command("show")
@_table_options
@click.option(
    "-k",
    "--key",
    "keys",
    multiple=True,
    metavar="KEY",
    help="Print this row of a changelog; repeatable.",
)
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=100, show_default=True,
    help="The number of rows.",
)  # fmt: skip
@output_option
def show_rows(
    name: str | None, out: str, keys: tuple[str, ...], columns: tuple[str, ...], limit: int,
    output: str,
) -> None:  # fmt: skip
    """Print the first rows of a table, in append order.

    For a changelog, print the last value of each key that is not deleted, ordered by key. It needs
    no table name; other pipelines have several tables.
    """
    check_texts((out, name or "", keys, columns))
    chosen = PipelineTables(out).chosen(name)
    if chosen == CHANGELOG_TABLE:
        _show_changelog(out, keys, columns, limit, output)
        return
    if keys:
        raise UserError("--key works for changelogs only: use moldau table sql for other tables")
    found = _appended(out, chosen)
    _print(found.first(limit, columns), columns, output)
    _tell_of_more(limit, found.count())


@table.command("tail")
@_table_options
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=10, show_default=True,
    help="The number of rows.",
)  # fmt: skip
@click.option("-f", "--follow", is_flag=True, help="Keep printing new rows until Ctrl-C.")
@output_option
def tail_rows(
    name: str | None, out: str, columns: tuple[str, ...], limit: int, follow: bool, output: str
) -> None:
    """Print the last rows of a table, in append order.

    For a changelog, print the rows that changed last. With --follow, each row is one line (JSON
    with -o json).
    """
    check_texts((out, name or "", columns))
    chosen = PipelineTables(out).chosen(name)
    if follow and (chosen == CHANGELOG_TABLE or output not in ("table", "json")):
        raise UserError("--follow works for append-only tables, with -o table or json")
    if chosen == CHANGELOG_TABLE:
        _print(_last_changed(out, columns, limit), columns, output)
        return
    found = _appended(out, chosen)
    if not follow:
        _print(found.last(limit, columns), columns, output)
        return
    place = found.end()
    rows = found.last(limit, columns)
    while True:
        for row in () if rows is None else _plain(rows):
            click.echo(_line(row, output))
        time.sleep(FOLLOW_PERIOD_S)
        rows, place = found.after(place, columns)


@table.command("count")
@click.argument("name", required=False, metavar="[TABLE]")
@click.option("--out", required=True, metavar="DIR", help="The folder of the pipeline's tables.")
@output_option
def count_rows(name: str | None, out: str, output: str) -> None:
    """Print the number of rows of a table, or of each table of the pipeline."""
    check_texts((out, name or ""))
    tables = PipelineTables(out)
    names = tables.names if name is None else ()
    rows = [{"table": one, "rows": _count(out, one)} for one in names or (tables.chosen(name),)]
    show(listing([Column("table", "TABLE"), Column("rows", "ROWS")], rows), output)


@table.command("sql")
@click.argument("question", metavar="SQL")
@click.option("--out", required=True, metavar="DIR", help="The folder of the pipeline's tables.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="The number of rows.",
)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable.")
@output_option
def ask(question: str, out: str, limit: int, conf: tuple[str, ...], output: str) -> None:
    r"""Run a SQL query over all tables of a pipeline; this starts Spark.

    The table of a changelog has the name of its topic.

    \b
    moldau table sql 'SELECT page, sum(pv) FROM pages GROUP BY page' --out /var/lib/moldau/activity
    """
    check_texts((out, question, conf))
    try:
        from moldau.spark.pipelines.sql import asked  # noqa: PLC0415 - slow to load
    except ImportError as missing:
        raise UserError(f"SQL needs Spark ({missing}): pip install 'moldau[spark]'") from None
    rows, is_more = asked(out, question, limit, dict(parse_pairs(conf, "--conf")))
    shown = [Column(one, one.upper()) for one in rows.column_names]
    show(listing(shown, _plain(rows)), output)
    if is_more:
        click.echo(f"moldau: the first {limit:,} rows; --limit shows more", err=True)


# Rows of a changelog


def _show_changelog(
    out: str, keys: tuple[str, ...], columns: tuple[str, ...], limit: int, output: str
) -> None:
    current, first_by_key = _changelog()
    found = current(out, keys=keys or None, columns=columns or None)
    _print(first_by_key(found, limit), ("_key", *columns), output)
    _tell_of_more(limit, found.num_rows)


def _last_changed(out: str, columns: tuple[str, ...], limit: int) -> Any:
    """Return the rows that were changed last, in the order of their records' times."""
    order = ("_timestamp", "_partition", "_offset")
    current, _ = _changelog()
    names = (*columns, *order) if columns else None
    found = current(out, columns=names).sort_by([(name, "ascending") for name in order])
    last = found.slice(max(0, found.num_rows - limit))
    kept = [name for name in last.column_names if not columns or name in ("_key", *columns)]
    return last.select(kept)


def _changelog() -> tuple[Callable[..., Any], Callable[..., Any]]:
    try:
        from moldau.spark.pipelines.changelog.reading import (  # noqa: PLC0415 - slow to load
            current,
            first_by_key,
        )
    except ImportError as missing:
        raise UserError(f"reading needs {missing.name}: pip install 'moldau[spark]'") from None
    return current, first_by_key


# Rows of other tables


def _appended(out: str, name: str) -> AppendedTable:
    try:
        from moldau.spark.pipelines.tables.looking import (  # noqa: PLC0415 - slow to load
            AppendedTable,
        )
    except ImportError as missing:
        raise UserError(f"reading needs {missing.name}: pip install 'moldau[spark]'") from None
    return AppendedTable(PipelineTables(out).folder(name))


def _count(out: str, name: str) -> int:
    if name == CHANGELOG_TABLE:
        current, _ = _changelog()
        return int(current(out, columns=["_key"]).num_rows)
    return _appended(out, name).count()


# Printing


def _print(rows: Any, columns: Iterable[str], output: str) -> None:
    """Print the rows of an Arrow table, or none."""
    names = ["rows"] if rows is None else rows.column_names
    shown = [
        Column(name, name.upper(), wide=_is_wide(name) and name not in ("_key", *columns))
        for name in names
    ]
    show(listing(shown, [] if rows is None else _plain(rows)), output)


def _is_wide(name: str) -> bool:
    return name.startswith("_") or name in _WIDE


def _tell_of_more(limit: int, count: int) -> None:
    if limit < count:
        click.echo(f"moldau: {limit:,} of {count:,} rows; --limit shows more", err=True)


def _line(row: dict[str, Any], output: str) -> str:
    if output == "json":
        return json_text(row)
    shown = (value for name, value in row.items() if not _is_wide(name) and value is not None)
    return "  ".join(map(cell, shown))


def _plain(found: Any) -> list[dict[str, Any]]:
    """Return the rows of an Arrow table as plain data: times are texts, and so are bytes."""
    import pyarrow as pa  # noqa: PLC0415 - slow to load

    columns: dict[str, list[Any]] = {}
    for field in found.schema:
        column = found.column(field.name)
        if pa.types.is_timestamp(field.type):
            moments = column.cast(pa.timestamp("us", field.type.tz)).cast("int64").to_pylist()
            columns[field.name] = [None if one is None else _time(one) for one in moments]
        elif pa.types.is_map(field.type):
            columns[field.name] = [one and _value(dict(one)) for one in column.to_pylist()]
        else:
            columns[field.name] = [_value(one) for one in column.to_pylist()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _value(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode(errors="backslashreplace")
        case date() | datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case list():
            return [_value(one) for one in value]
        case dict():
            return {str(name): _value(one) for name, one in value.items()}
        case _:
            return value


def _time(time_us: int) -> str:
    """Write a time; it is the producer's, and milliseconds where it is beyond all calendars."""
    try:
        return (_EPOCH + timedelta(microseconds=time_us)).isoformat()
    except OverflowError:
        return str(time_us // 1000)
