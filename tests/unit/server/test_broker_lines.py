"""What a broker says of its start."""

from __future__ import annotations

import logging

import pytest

from moldau.testing import TestBroker

LOGGER = "moldau.server.broker"


@pytest.fixture
def lines(caplog):
    """What was said of recovery at a level."""
    caplog.set_level(logging.DEBUG, logger=LOGGER)

    def said(level):
        found = [one for one in caplog.records if one.name == LOGGER and one.levelno == level]
        return [one.getMessage() for one in found if "recovered" in one.getMessage()]

    return said


def test_a_start_after_a_kill_says_in_one_line_what_was_recovered(lines):
    with TestBroker(topics={"t": 30}) as broker:
        broker.kill()
        (segment,) = (broker.folder / "t-7").glob("*.log")
        segment.write_bytes(b"torn")
        broker.start()
    (line,) = lines(logging.INFO)
    assert line.startswith("recovered 30 partitions in ")
    assert line.endswith(" s: 30 segments checked, 4 bytes and 0 segments cut")
    assert len(lines(logging.DEBUG)) == 30


def test_a_start_after_an_orderly_stop_has_nothing_to_say(lines):
    with TestBroker(topics=["t"]) as broker:
        broker.restart()
    assert lines(logging.INFO) == lines(logging.DEBUG) == []
