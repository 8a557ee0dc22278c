"""Who types records into `moldau produce` is told how it works, and how many were delivered."""

from __future__ import annotations

import io
import sys

from moldau.cli.produce import produce
from moldau.testing import TestBroker


class Terminal(io.TextIOWrapper):
    """A keyboard with lines typed already."""

    def isatty(self):
        return True


def test_a_hint_comes_first_and_a_count_last(monkeypatch, capsys):
    with TestBroker(topics=["t"]) as broker:
        monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"one\ntwo\n")))
        produce.main(["t", "-b", broker.bootstrap_servers], standalone_mode=False)
        assert [record.value for record in broker.records("t")] == [b"one", b"two"]
    shown = capsys.readouterr()
    assert shown.err == "Each line is a record for t. Ctrl-D ends.\nmoldau: records delivered: 2\n"
    assert shown.out == ""


def test_in_a_pipe_nothing_is_said(monkeypatch, capsys):
    with TestBroker(topics=["t"]) as broker:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\n")))
        produce.main(["t", "-b", broker.bootstrap_servers], standalone_mode=False)
    assert capsys.readouterr().err == ""
