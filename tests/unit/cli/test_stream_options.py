"""Options of `produce` and `consume` that cannot be, refused before anybody is asked."""

from __future__ import annotations

import pytest

from kits.cli_kit import moldau

NOBODY = "localhost:1"


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "t", "-K", ""),
        ("produce", "t", "-K", ":", "--json"),
        ("produce", "t", "-f", "%k%v"),
        ("produce", "t", "-H", "=x"),
        ("produce", "t", "-i", "there-is-no-such-file"),
        ("produce", "t", "value", "-i", "file"),
        ("produce", "t", "--tombstone", "-k", "key", "value"),
        ("consume", "t", "-s", "current"),
        ("consume", "t", "-s", "soon"),
        ("consume", "t", "-u", "1", "-e"),
        ("consume", "t", "-p", "x"),
        ("consume", "t", "-f", "%q"),
        ("consume", "t", "-f", "%v", "-o", "json"),
        ("consume", "t", "--grep", "("),
        ("consume", "t", "-g", "g", "-p", "0"),
        ("consume", "t", "-g", "g", "-u", "7"),
        ("consume", "t", "-g", "g", "-s", "7"),
        ("consume", "t", "-X", "nonsense=1"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments):
    ran = moldau(*arguments, "-b", NOBODY)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("moldau: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("produce", "t", "x"), ("consume", "t"), ("consume", "t", "-r"), ("bench", "consume", "t")],
)
def test_no_broker_means_status_three(arguments):
    ran = moldau(*arguments, "-b", NOBODY)
    assert (ran.status, ran.out) == (3, "")
    assert ran.err.startswith("moldau: no broker could be reached")
    assert ran.err.count("\n") == 1
