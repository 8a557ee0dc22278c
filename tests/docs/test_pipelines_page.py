"""The page on pipelines: its commands and options exist, and its tables are whole."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from moldau.cli.main import cli
from moldau.spark.pipelines.activity.declared import ACTIVITY

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()


def command_of(words):
    command: click.Command = cli
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    return command


def test_the_lines_that_are_shown_name_commands_and_options_that_exist():
    lines = re.findall(r"^moldau .*$", PAGE, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        words = shlex.split(line)[1:]
        command_of(words).make_context("moldau", words)


def test_the_options_of_both_tables_have_the_defaults_that_are_shown():
    params = {name: one for one in command_of(["pipeline", "run", "activity"]).params
              for name in one.opts}  # fmt: skip
    rows = re.findall(r"^\| `(--[a-z-]+)` \|([^|]*)\|", PAGE, re.MULTILINE)
    assert len(rows) > 15
    for name, shown in rows:
        default = shown.strip(" `")
        assert name in params, name
        if default and not default.startswith("in "):
            told = params[name].default
            assert default in (str(told), *re.findall(r"\[(.*)\]", params[name].help)), name


def test_every_table_of_the_pipeline_is_described():
    described = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| [aA]", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(described))) >= set(ACTIVITY.tables)
