"""Looking again and again, whatever passes in between."""

from __future__ import annotations

import asyncio
import re

import pyte
import pytest

from kits.cli_kit import moldau
from moldau.cli.frame.connection import Connection
from moldau.cli.frame.output import show
from moldau.cli.frame.report import Column, listing
from moldau.cli.frame.session import Session
from moldau.cli.frame.watch import watch
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


class Terminal:
    """What a terminal shows of what a watch writes to standard output."""

    def __init__(self, capsys, monkeypatch, columns=60, lines=8):
        for name, value in {"TERM": "xterm", "COLUMNS": columns, "LINES": lines}.items():
            monkeypatch.setenv(name, str(value))
        self.screen = pyte.Screen(columns, lines)
        self.written = []
        self._stream = pyte.Stream(self.screen)
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def watch(self, reports):
        """Watch until there are no more reports; return the screen after each of them."""
        left, shown = iter(reports), []
        for stream in ("stdout", "stderr"):
            self._monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)

        async def look():
            self._take(shown)
            found = next(left, None)
            if found is None:
                raise InvalidState("enough")
            return found

        with pytest.raises(InvalidState):
            asyncio.run(watch(look, Session(Connection()).present, 0.001))
        return shown[1:]

    def _take(self, shown):
        self.written.append(self._capsys.readouterr().out)
        self._stream.feed(self.written[-1].replace("\n", "\r\n"))
        shown.append([line.rstrip() for line in self.screen.display])


@pytest.fixture
def terminal(capsys, monkeypatch):
    return Terminal(capsys, monkeypatch)


def names(*given, **more):
    return listing(COLUMNS, [{"name": name} for name in given], **more)


def test_on_a_terminal_a_report_replaces_the_last_one(terminal):
    before, after = terminal.watch([names("first", "second", "third"), names("fourth")])
    assert before[1:6] == ["", "NAME", "first", "second", "third"]
    assert after[1:] == ["", "NAME", "fourth", "", "", "", ""]
    assert re.fullmatch(r"\d\d:\d\d:\d\d  moldau, every 0\.001 s; Ctrl-C ends it", after[0])
    assert (terminal.screen.cursor.x, terminal.screen.cursor.y) == (0, 4)


def test_the_terminal_is_never_cleared_and_no_state_of_it_is_changed(terminal):
    terminal.watch([names("first")] * 3)
    controls = re.findall(r"\x1b\[[?\d;]*[a-zA-Z]", "".join(terminal.written))
    assert {one for one in controls if not one.endswith("m")} == {"\x1b[H", "\x1b[5;1H"}


def test_colours_and_notes_are_part_of_what_is_replaced(terminal):
    status = Column("name", "NAME", style=lambda _: "green")
    noted = listing((status,), [{"name": "good"}], note="one is missing")
    before, after = terminal.watch([noted, names("bare")])
    assert before[2:5] == ["NAME", "good", "moldau: one is missing"]
    assert "\x1b[32mgood" in "".join(terminal.written)
    assert after[2:5] == ["NAME", "bare", ""]


def test_what_does_not_fit_is_cut_off_below(terminal):
    (shown,) = terminal.watch([names(*map(str, range(20)))])
    assert shown[2:] == ["NAME", "0", "1", "2", "3", "4"]
