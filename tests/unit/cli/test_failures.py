"""What went wrong: one line, about one thing, with the status that scripts read."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.cli.frame.failures import about, complain, complain_of_all, status_of
from moldau.client.errors import ConnectionLost, NoBrokerReachable, UnknownTopicOrPartition


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UserError("no"), 1),
        (UnknownTopicOrPartition("no"), 1),
        (NoBrokerReachable("no"), 3),
        (ConnectionLost("no"), 3),
        (about("orders", ConnectionLost("no")), 3),
        (about("orders", UserError("no")), 1),
    ],
)
def test_a_script_can_tell_a_refusal_from_silence(error, status):
    assert status_of(error) == status


@pytest.mark.parametrize(
    ("item", "text", "told"),
    [
        ("orders", "there is no topic orders", "there is no topic orders"),
        ("orders", "topic 'orders' exists.", "topic 'orders' exists."),
        ("order", "there is no topic orders", "order: there is no topic orders"),
        ("t", "too late", "t: too late"),
        ("a.b", "a.b.c is late", "a.b: a.b.c is late"),
    ],
)
def test_an_error_says_what_it_is_about_once(item, text, told):
    assert str(about(item, UserError(text))) == told


def test_a_complaint_is_one_line_that_a_terminal_can_show(capsys):
    assert complain(UserError("two\nlines \x1b[31m")) == 1
    assert capsys.readouterr().err == "moldau: two lines \\x1b[31m\n"


def test_of_several_each_has_its_line_and_the_first_its_status(capsys):
    assert complain_of_all([ConnectionLost("one", advice=""), UserError("two")]) == 3
    assert capsys.readouterr().err == "moldau: one\nmoldau: two\n"
    assert complain_of_all([]) == 0
