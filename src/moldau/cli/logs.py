"""`moldau logs`: searches the table of the log pipeline without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moldau.base.errors import UserError
from moldau.cli.frame.arguments import check_texts
from moldau.cli.frame.offset_words import parse_position, parse_time_us
from moldau.cli.frame.output import output_option, show
from moldau.cli.frame.report import BAD, DOUBTFUL, Column, listing
from moldau.cli.frame.texts import json_text, safe
from moldau.cli.operations.positions import PositionKind
from moldau.spark.pipelines.logs.levels import ERRORS, at_least, level_of

if TYPE_CHECKING:
    from moldau.spark.pipelines.logs.search import Question

TABLE: Final = "logs"
FOLLOW_PERIOD_S: Final = 1.0
"""As often as a pipeline appends by default."""
FOLLOW_LIMIT: Final = 100_000
"""Rows of one look while following: nobody reads more, and memory has an end."""

_SHOWN: Final = ("time", "level", "host", "service", "message")
_WHOLE: Final = (*_SHOWN, "stack", "fields", "path", "format", "partition", "offset")


def _style(level: Any) -> str | None:
    if level in ERRORS:
        return BAD
    return DOUBTFUL if level == "WARN" else None


_COLUMNS: Final = [
    Column(
        name,
        name.upper(),
        wide=name not in _SHOWN,
        style=_style if name == "level" else None,
    )
    for name in _WHOLE
]


@click.group()
def logs() -> None:
    """Search the table of the log pipeline, without Spark."""


@logs.command()
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR",
              help="The folder of the pipeline's tables.")  # fmt: skip
@click.option(
    "-s",
    "--since",
    metavar="TIME",
    help="From this time on: 2026-01-31T12:00, or an age such as 90m.",
)
@click.option("-u", "--until", metavar="TIME", help="Before this time.")
@click.option("-l", "--level", metavar="LEVEL", help="This level or a more severe one.")
@click.option("--host", metavar="NAME", help="Rows of this host.")
@click.option("--service", metavar="NAME", help="Rows of this service.")
@click.option("--path", metavar="PATH", help="Rows from this file.")
@click.option(
    "-t",
    "--text",
    "texts",
    multiple=True,
    metavar="TEXT",
    help="Rows with this text in message or stack trace; repeatable.",
)
@click.option(
    "-r",
    "--regex",
    "expressions",
    multiple=True,
    metavar="REGEX",
    help="Rows whose message or stack trace matches; repeatable.",
)
@click.option(
    "--not", "without", multiple=True, metavar="TEXT", help="Rows without this text; repeatable."
)
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore case in these texts.")
@click.option("--field", "fields", multiple=True, metavar="NAME=VALUE",
              help="Rows with this field; repeatable.")  # fmt: skip
@click.option("-n", "--limit", type=click.IntRange(1), default=100, show_default=True,
              help="The number of rows.")  # fmt: skip
@click.option("-f", "--follow", is_flag=True, help="Keep printing new rows until Ctrl-C.")
@output_option
def search(**given: Any) -> None:
    """Print the newest rows that match all conditions, newest first.

    With --follow, rows are printed in the order of time, one line each (JSON with -o json).
    """
    try:
        from moldau.spark.pipelines.logs import search as searching  # noqa: PLC0415 - slow to load
    except ImportError as missing:
        raise UserError(f"a search needs {missing.name}: pip install 'moldau[spark]'") from None

    question = question_of(given)
    table = given["out"] / TABLE
    if not table.is_dir():
        raise UserError(f"there is no table {table}: name the --out of a log pipeline")
    form = given["output"]
    columns = _SHOWN if form in ("table", "name") else _WHOLE
    if not given["follow"]:
        answer = searching.search(table, question, columns)
        show(listing(_COLUMNS, answer.rows), form)
        return
    if form not in ("table", "json"):
        raise UserError("--follow prints -o table or json")
    follower = searching.Follower(table, question, columns)
    while True:
        look = follower.look(FOLLOW_LIMIT)
        if look.is_cut:
            click.echo(f"moldau: {_cut_before(look.rows[0]['time'])}", err=True)
        for row in look.rows:
            click.echo(_line(row, form))
        time.sleep(FOLLOW_PERIOD_S)


def _cut_before(time_text: str) -> str:
    """Say how to find rows that were left out before one of this time.

    Some may have the same time, and those of a search end before its --until: so it is the next
    millisecond.
    """
    next_ms = datetime.fromisoformat(time_text) + timedelta(milliseconds=1)
    until = next_ms.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return (
        f"more than {FOLLOW_LIMIT:,} rows have come at once and older ones were left out: "
        f"find them with --until {until} and a larger --limit"
    )


def _line(row: Mapping[str, Any], form: str) -> str:
    if form == "json":
        return json_text(row)
    return "  ".join(safe(str(row[name])) for name in _SHOWN if row[name] is not None)


def question_of(given: Mapping[str, Any]) -> Question:
    """Understand what was asked; UserError if it cannot be."""
    from moldau.spark.pipelines.logs.layout import PAIR_COLUMNS  # noqa: PLC0415 - slow to load
    from moldau.spark.pipelines.logs.search import Question  # noqa: PLC0415

    check_texts(given.values())
    now_ms = time.time_ns() // 1_000_000
    return Question(
        since_us=_moment_us(given["since"], now_ms),
        until_us=_moment_us(given["until"], now_ms),
        levels=_levels(given["level"]),
        values={name: given[name] for name in PAIR_COLUMNS if given[name]},
        texts=_some(given["texts"]),
        expressions=_some(given["expressions"]),
        without=_some(given["without"]),
        ignore_case=given["ignore_case"],
        fields=_fields(given["fields"]),
        limit=given["limit"],
    )


def _moment_us(text: str | None, now_ms: int) -> int | None:
    if text is None:
        return None
    try:
        word = parse_position(text, now_ms)
    except UserError:
        return parse_time_us(text)
    if word.kind is PositionKind.OFFSET:
        return parse_time_us(text)
    if word.kind is not PositionKind.TIME:
        raise UserError(f"{text!r} is not a time: expected 2026-01-31T12:00 or an age (90m)")
    at = text.strip()
    return parse_time_us(at[1:]) if at.startswith("@") else word.value * 1000


def _levels(name: str | None) -> frozenset[str] | None:
    if name is None:
        return None
    level = level_of(name)
    if level is None:
        raise UserError(f"{name!r} is no level: expected trace, debug, info, warn, error or fatal")
    return frozenset(at_least(level))


def _some(texts: Iterable[str]) -> tuple[str, ...]:
    """Leave out what is empty, as a script's unset variable is: every text holds that."""
    return tuple(filter(None, texts))


def _fields(texts: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--field {text}: expected NAME=VALUE")
        if found.setdefault(name, value) != value:
            raise UserError(f"--field {text} and {name}={found[name]}: a row has one of them only")
    return found
