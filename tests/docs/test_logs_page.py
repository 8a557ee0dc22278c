"""The page on logs: its searches print what is shown, and it names each format and column."""

from __future__ import annotations

import re
import shlex
from datetime import UTC
from pathlib import Path

import pytest

from kits.cli_kit import moldau
from kits.log_tables import arrow, log_table, row
from moldau.spark.pipelines.logs import forms, parsing
from moldau.spark.pipelines.logs.layout import SCHEMA
from moldau.spark.pipelines.logs.levels import LEVELS

PAGE = (Path(__file__).parents[2] / "docs" / "pipelines" / "logs.md").read_text()
OUT = "/var/lib/moldau/logs"

TRACE = (
    'Traceback (most recent call last):\n  File "shop.py", line 3, in <module>\nNoPlums: none left'
)
LINES = [
    ("/var/log/shop/shop.log", "2026-11-15 12:00:00,123 INFO shop: open"),
    ("/var/log/shop/shop.log", f"2026-11-15 12:00:01,001 ERROR shop: no plums\n{TRACE}"),
    ("/var/log/nginx/access.log",
     '10.0.0.7 - - [15/Nov/2026:12:00:02 +0000] "GET /plums HTTP/1.1" 503 17'),
]  # fmt: skip


@pytest.fixture
def out(tmp_path):
    """The table of the page, from lines as the collector sends them."""
    rules = parsing.Rules(UTC, 600_000_000, 1 << 20)
    rows = []
    for offset, (path, text) in enumerate(LINES):
        line = parsing.parse(text, parsing.Origin("web-1", path), 0, 1 << 60, rules)
        told = {name: getattr(line, name) for name in line._fields if name in SCHEMA.names}
        if line.format == "access":
            told["fields"] = {name: told["fields"][name] for name in ("client", "status")}
        rows.append(row(offset, **told, path=path, time_us=line.time_us, level=line.level))
    log_table(tmp_path / "logs").append(arrow(rows), 0)
    return tmp_path


def test_each_search_prints_what_the_page_shows(out):
    session = "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL))
    examples = re.findall(r"^\$ (moldau .*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    assert len(examples) == session.count("$ moldau ") == 3
    for line, shown in examples:
        ran = moldau(*shlex.split(line.replace(OUT, str(out)))[1:])
        assert (ran.out, ran.err) == (shown, "")


def test_every_format_level_and_column_is_named():
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert named >= {*LEVELS, *SCHEMA.names, "date", parsing.CLAIMED}
    source = "".join(file.read_text() for file in Path(forms.__path__[0]).glob("*.py"))
    made = set(re.findall(r'(?:Line|_shape|named_line)\("(\w+)"', source))
    assert named >= made
    assert len(made) == 18


def test_the_options_that_are_named_exist():
    known = set(re.findall(r"--[a-z-]+", moldau("logs", "search", "--help").out))
    known |= set(re.findall(r"--[a-z-]+", moldau("pipeline", "run", "logs", "--help").out))
    known |= set(re.findall(r"--[a-z-]+", moldau("collect", "files", "--help").out))
    assert set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", PAGE)) <= known
