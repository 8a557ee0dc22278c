"""The pages on pipelines: commands, options and tables exist, and examples work."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click
import pyarrow as pa
import pytest

from kits.changelog_tables import LaidTable
from kits.cli_kit import moldau
from moldau.cli.main import cli
from moldau.cli.pipeline import run_group
from moldau.cli.pipelines.file import read_file
from moldau.spark.pipelines.catalog import PIPELINES
from moldau.spark.pipelines.changelog import reading
from moldau.spark.pipelines.metrics.deviation import LEAST_CHANGES, Sense
from moldau.spark.pipelines.metrics.folding import ANOMALY, COMPARED, FIGURES, Rules, folded
from moldau.spark.pipelines.metrics.samples import SERIES
from moldau.spark.pipelines.metrics.series import KINDS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "pipelines.md").read_text()
PAGES = {name: (DOCS / "pipelines" / f"{name}.md").read_text() for name in PIPELINES}
COMMAND = re.compile(r"^(?:\$ )?(moldau .*)$", re.MULTILINE)
OPTION_TABLE = re.compile(r"^\| option \| default \|.*\n((?:\|.*\n)+)", re.MULTILINE)
OUT = "/var/lib/moldau/customers"


def command_of(words):
    command: click.Command = cli
    while isinstance(command, click.Group) and not words[0].startswith("-"):
        command = command.get_command(click.Context(command), words.pop(0))
    return command


def test_the_file_that_is_shown_can_be_read(tmp_path):
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "pipelines.toml"
    file.write_text(shown)
    runs = read_file(file, run_group.commands)
    assert {title: given["pipeline"] for title, given in runs.items()} == {
        "activity": "activity",
        "shop-logs": "logs",
    }


def test_the_lines_that_are_shown_name_commands_and_options_that_exist():
    lines = COMMAND.findall("".join([PAGE, *PAGES.values()]))
    assert len(lines) > 20
    for line in lines:
        words = shlex.split(line)[1:]
        command_of(words).make_context("moldau", words)


@pytest.mark.parametrize("name", ["any", *PIPELINES])
def test_the_options_of_a_page_exist_with_the_defaults_that_are_shown(name):
    page = PAGES.get(name, PAGE)
    commands = [command_of(["pipeline", "run", name if name in PIPELINES else "activity"])]
    commands += [command_of(shlex.split(line)[1:]) for line in COMMAND.findall(page)]
    params = {name: one for command in commands for one in command.params for name in one.opts}
    (table,) = OPTION_TABLE.findall(page)
    rows = re.findall(r"^\| `(--[a-z-]+)` \|([^|]*)\|", table, re.MULTILINE)
    for option, shown in rows:
        default = shown.strip(" `")
        assert option in params, option
        if default and not default.startswith("in "):
            told = params[option].default
            assert default in (str(told), *re.findall(r"\[(.*)\]", params[option].help)), option
    own = PIPELINES[name].options if name in PIPELINES else ()
    assert {f"--{one.name}" for one in own} <= {option for option, _ in rows}


@pytest.mark.parametrize("name", PIPELINES)
def test_every_table_of_a_pipeline_is_described(name):
    described = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [aA]", PAGES[name], re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(described))) >= set(PIPELINES[name].tables)


# Metrics


def test_the_result_that_is_shown_is_what_such_samples_give():
    (line,) = re.findall(r'^\{"result".*$', PAGES["metrics"], re.MULTILINE)
    shown = json.loads(line)
    start = datetime(2026, 11, 16, 12, tzinfo=UTC)
    sample = {
        "reading": shown["avg"], "interval_s": 10.0, "unit": shown["unit"], "buckets": None,
        "sum": None,
    }  # fmt: skip
    samples = [{**sample, "time": start + timedelta(seconds=10 * n)} for n in range(6)]
    past = {
        "past_start": start, "levels": [shown["usual"]] * 30, "past_time": None, "past_value": None
    }  # fmt: skip
    rules = Rules(60_000, 0, Sense())
    (rows,) = folded(pa.array(["gauge"]), pa.array([samples]), pa.array([past]), rules).to_pylist()
    found = next(row for row in rows if row["role"] == ANOMALY)
    names = ("unit", *FIGURES, *COMPARED)
    assert {name: found[name] for name in names} == {
        name: shown[name] if shown[name] is None else pytest.approx(shown[name]) for name in names
    }
    assert datetime.fromisoformat(shown["window_end"]) == found["window_end"]
    columns = ("result", "window_start", "window_end", *SERIES, "unit", *FIGURES, *COMPARED)
    assert tuple(shown) == columns


def test_every_kind_and_least_change_is_named():
    section = PAGES["metrics"]
    assert tuple(re.findall(r"^\| `(gauge|count\w*|histogram)` \|", section, re.MULTILINE)) == KINDS
    assert all(f"`{unit}`" in section for unit in LEAST_CHANGES)
    assert "1.4826" in section


# Changelog


@pytest.fixture
def customers(tmp_path):
    """The table that the page shows, as a batch and a merge leave it."""
    table = LaidTable(tmp_path / "table")
    anna = {"name": "Anna Novák", "balance": 12}
    table.batch(0, [("c-1", anna), ("c-2", {"name": "Eva"})])
    table.merge(reading.current(str(tmp_path)))
    table.batch(
        1, [("c-1", {**anna, "balance": 12.5}), ("c-2", None), ("c-3", {"name": "Jan Dvořák"})]
    )
    return tmp_path


def test_the_examples_of_the_changelog_print_what_the_page_shows(customers):
    (session,) = re.findall(r"```console\n(.*?)```", PAGES["changelog"], re.DOTALL)
    examples = re.findall(r"^\$ (moldau .*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert len(examples) == 2
    for line, shown in examples:
        ran = moldau(*shlex.split(line.replace(OUT, str(customers)))[1:])
        assert (ran.out, ran.err) == (shown, "")
    ran = moldau("table", "show", "--out", customers, "--limit", "1", "-o", "json")
    assert [row["_key"] for row in ran.data] == ["c-1"]
    assert ran.err == "moldau: 1 of 2 rows; --limit shows more\n"


def test_the_example_without_spark_works(customers):
    program, _ = re.findall(r"```python\n(.*?)```", PAGES["changelog"], re.DOTALL)
    names = {}
    exec(program.replace(OUT, str(customers)), names)
    assert names["rows"].to_pylist() == [
        {"_key": "c-1", "name": "Anna Novák"},
        {"_key": "c-3", "name": "Jan Dvořák"},
    ]
