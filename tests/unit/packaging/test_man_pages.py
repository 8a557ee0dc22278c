"""The manual pages: one for each command, in which troff obeys nothing that a text says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click
import pytest

from moldau.cli.main import COMMANDS

SCRIPT = Path(__file__).parents[3] / "packaging" / "man_pages.py"
MACROS = {".TH", ".SH", ".B", ".PP", ".TP", ".nf", ".fi"}


@pytest.fixture(scope="module")
def man_pages():
    spec = importlib.util.spec_from_file_location("man_pages", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(man_pages):
    return dict(man_pages.pages())


def test_every_command_has_a_page(pages):
    assert {f"moldau-{name}.1" for name in COMMANDS} < pages.keys()
    assert {"moldau.1", "moldau-topic-create.1", "moldau-cluster-up.1"} < pages.keys()


def test_a_page_that_another_names_is_there(pages):
    named = {f"{name}.1" for text in pages.values()
             for name in re.findall(r"\\fB(\S+)\\fR\(1\)", text.replace("\\-", "-"))}  # fmt: skip
    assert named == pages.keys()


def test_lines_begin_with_macros_or_with_text(pages):
    for name, text in pages.items():
        assert "\b" not in text, name
        for line in text.splitlines():
            assert not line.startswith("'"), (name, line)
            assert not line.startswith(".") or line.split()[0] in MACROS, (name, line)


def test_what_is_aligned_and_what_has_backslashes_is_kept(pages):
    text = pages["moldau-consume.1"]
    assert "text is '%v\\en', raw '%v'" in text
    block = text.split(".nf\n")[1].split("\n.fi")[0]
    assert block.startswith("moldau consume orders \\-e      ")
    assert "\\fB\\-h, \\-\\-help\\fR" in text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (".sh x", "\\&.sh x"),
        ("a\n'b", "a\n\\&'b"),
        ("-a 'x.y'", "\\-a 'x.y'"),
        ("C:\\n", "C:\\en"),
    ],
)
def test_a_text_is_no_request(man_pages, text, written):
    assert man_pages.escaped(text) == written


def test_a_hidden_command_has_no_page(man_pages):
    group = click.Group(
        "g", commands={"a": click.Command("a"), "b": click.Command("b", hidden=True)}
    )
    found = [one.info_name for one in man_pages.contexts(click.Context(group, info_name="g"))]
    assert found == ["g", "a"]
