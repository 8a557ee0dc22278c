"""Looking again and again, whatever passes in between."""

from __future__ import annotations

import asyncio
import re

import pytest

from kits.cli_kit import moldau
from moldau.cli.frame.output import show
from moldau.cli.frame.report import Column, listing
from moldau.cli.frame.watch import CLEAR, watch
from moldau.client.errors import ConnectionLost, InvalidState

COLUMNS = (Column("name", "NAME"),)


def test_it_looks_every_second_unless_told_otherwise():
    assert "[1] until Ctrl-C" in moldau("cluster", "status", "--help").out


def test_what_passes_is_told_and_the_watch_goes_on(capsys):
    outcomes = iter(
        [
            listing(COLUMNS, [{"name": "first"}]),
            ConnectionLost("gone for a while"),
            listing(COLUMNS, [{"name": "second"}]),
            InvalidState("gone for good"),
        ]
    )

    async def look():
        found = next(outcomes)
        if isinstance(found, Exception):
            raise found
        return found

    with pytest.raises(InvalidState):
        asyncio.run(watch(look, lambda report: show(report, "name"), 0.001))
    shown = capsys.readouterr()
    assert shown.out == "first\nsecond\n"
    assert shown.err.startswith("moldau: gone for a while. ")


def test_on_a_terminal_it_says_what_is_shown_and_when(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    async def look(shown=[]):  # noqa: B006 - remembers the first time
        if shown:
            raise InvalidState("enough")
        shown.append(1)
        return listing(COLUMNS, [{"name": "first"}])

    with pytest.raises(InvalidState):
        asyncio.run(watch(look, lambda report: show(report, "name"), 0.5))
    header, empty, row = capsys.readouterr().out.removeprefix(CLEAR).splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  moldau, every 0\.5 s; Ctrl-C ends it", header)
    assert (empty, row) == ("", "first")
