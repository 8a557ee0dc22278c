"""The page of the command line: each example prints what the page shows, one after the other."""

import re
import shlex
from pathlib import Path

import click

from kafka_harness.moldau_node import MoldauNode
from kits.cli_kit import moldau
from moldau.cli.main import COMMANDS, cli

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
SHOWN_FILE = "~/.config/moldau/config.toml"
EXAMPLE = re.compile(r"^\$ (moldau .*)\n((?:(?!\$ |```).*\n)*)", re.MULTILINE)


def test_each_example_prints_what_the_page_shows(tmp_path):
    sessions = "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))
    examples = EXAMPLE.findall(sessions)
    assert len(examples) == sessions.count("$ moldau ") > 12
    file = tmp_path / "config.toml"
    with MoldauNode(tmp_path / "broker") as broker:
        environ = {"MOLDAU_BOOTSTRAP_SERVERS": broker.address, "MOLDAU_CONFIG": str(file)}
        for line, shown in examples:
            ran = moldau(*shlex.split(line)[1:], environ=environ)
            assert (ran.out + ran.err).replace(str(file), SHOWN_FILE) == shown, line


def test_the_lines_that_are_shown_without_output_name_commands_and_options_that_exist():
    lines = re.findall(r"^moldau .*$", "".join(re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)),
                       re.MULTILINE)  # fmt: skip
    assert len(lines) > 5
    for line in lines:
        words = shlex.split(re.split(r" >+ ", line)[0])[1:]
        command: click.Command = cli
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        command.make_context("moldau", words)


def test_every_noun_and_verb_has_its_place_in_the_table():
    context = click.Context(cli)
    nouns = [name for name, place in COMMANDS.items() if ".nouns." in place.module]
    assert len(nouns) > 5
    for name in nouns:
        command = cli.get_command(context, name)
        assert isinstance(command, click.Group)
        (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, re.MULTILINE)
        for verb in command.list_commands(context):
            assert f"`{verb}`" in row, f"{name} {verb}"
