"""The README: its numbers are those of the pages it names, its examples work, and it is short.

The example for Spark is run in `tests/spark/test_start_page.py`, where there is a session.
"""

from __future__ import annotations

import re
import shlex
from fractions import Fraction
from pathlib import Path

import click
import pytest

from kafka_harness.moldau_node import MoldauNode
from kafka_harness.topics import read_all
from moldau.cli.main import cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SHOWN_ADDRESS = "127.0.0.1:9092"
FIGURES = re.findall(
    r"^\| ([^|]+) \| ([\d.]+)[^|]* \| ([\d.]+) \| ([\d./]+)"
    r" \| `make ([\w-]+)`, \[\w+\]\((.*?)\) \|$",
    README,
    re.MULTILINE,
)
PAGE_ROW = r"\| {baseline} \([^|]*\| {ours} \([^|]*\| ([\d.]+) \("
"""A row of a page of the bench: the baseline, our figure and their ratio, each with its spread."""


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_the_table_of_figures_is_found():
    assert len(FIGURES) == 10


@pytest.mark.parametrize(("name", "baseline", "ours", "ratio", "target", "page"), FIGURES)
def test_a_figure_is_that_of_its_page(name, baseline, ours, ratio, target, page):
    row = PAGE_ROW.format(baseline=re.escape(baseline), ours=re.escape(ours))
    (measured,) = re.findall(row, (ROOT / page).read_text())
    shown = float(Fraction(ratio))
    assert shown == pytest.approx(float(measured), rel=0.04), name
    recipe = (ROOT / "Makefile").read_text().split(f"\n{target}:")[1].split("\n\n")[0]
    assert page in recipe


def test_the_examples_send_and_read(tmp_path, capsys):
    ours, theirs, on_spark = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert SHOWN_ADDRESS in on_spark
    with MoldauNode(tmp_path) as broker:
        for example in (ours, theirs):
            exec(example.replace(SHOWN_ADDRESS, broker.address), {})
        assert capsys.readouterr().out == "b'Ahoj, Moldau!'\n"
        assert read_all(broker.address, "greetings") == [b"Ahoj, Moldau!", b"Hello, Moldau!"]


def test_the_command_of_the_cluster_is_understood():
    (line,) = re.findall(r"```sh\nmoldau (.*)\n```", README)
    words = shlex.split(line)
    command: click.Command = cli
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    assert command.make_context("up", words).params["brokers"] == 3
