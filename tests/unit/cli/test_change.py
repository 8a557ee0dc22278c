"""Asking before something is changed."""

from __future__ import annotations

import io
import signal

import pytest

from moldau.base.errors import UserError
from moldau.cli.frame import change as changing
from moldau.cli.frame.change import Change


class Terminal(io.StringIO):
    """Somebody who can answer."""

    def isatty(self):
        return True


def at_terminal(monkeypatch, answer):
    questions = []

    def ask(question, **_):
        questions.append((question, signal.getsignal(signal.SIGINT)))
        return answer

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(changing.click, "confirm", ask)
    return questions


@pytest.mark.parametrize("change", [Change(dry_run=True, yes=False), Change(False, yes=True)])
def test_who_has_said_it_is_not_asked(monkeypatch, change):
    questions = at_terminal(monkeypatch, answer=False)
    change.confirm("do something")
    assert questions == []


def test_a_pipe_is_refused_with_what_would_be_done(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UserError, match=r"this would do something\. Use --yes"):
        Change(dry_run=False, yes=False).confirm("do something")


def test_a_terminal_is_asked_and_no_changes_nothing(monkeypatch):
    change = Change(dry_run=False, yes=False)
    before = signal.getsignal(signal.SIGINT)
    questions = at_terminal(monkeypatch, answer=True)
    change.confirm("do something")
    # While it waits Ctrl-C has to end it at once, whatever a running loop has installed.
    assert questions == [("This will do something. Continue?", signal.default_int_handler)]
    assert signal.getsignal(signal.SIGINT) is before
    at_terminal(monkeypatch, answer=False)
    with pytest.raises(UserError, match="nothing was changed"):
        change.confirm("do something")
