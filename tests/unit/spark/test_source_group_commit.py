"""Commits to a group that shows the lag of a stream: what is refused is not hurried."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from kits.log_kit import HandClock
from moldau.client.errors import ClientError
from moldau.client.records import TopicPartition
from moldau.engine.results import Results
from moldau.spark.source import group_commit
from moldau.spark.source.group_commit import GroupCommit

T0 = TopicPartition("t", 0)


class Broker:
    """A connection whose broker refuses commits for a reason, or takes them if it has none."""

    cluster = None

    def __init__(self):
        self.reason = None
        self.is_slow = False
        self.asked_count = 0
        self.unanswered = Future()

    def begin(self, work):
        work.close()
        self.asked_count += 1
        self.unanswered = asked = Future()
        if not self.is_slow:
            self.answer()
        return asked

    def answer(self):
        refused = {T0: ClientError(self.reason)} if self.reason else {}
        self.unanswered.set_result(Results({}, refused))


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def broker():
    return Broker()


@pytest.fixture
def commit(broker, clock):
    group = GroupCommit("lag", clock)
    return lambda offset: group.commit(broker, {T0: offset})


def warnings(caplog):
    return [record.getMessage().rpartition(": ")[2] for record in caplog.records]


def test_what_is_committed_is_not_committed_again(broker, commit):
    for offset in (5, 5, 6):
        commit(offset)

    assert broker.asked_count == 2


def test_a_refusal_is_told_once_and_not_hurried(broker, commit, clock, caplog):
    broker.reason = "not allowed"
    for _ in range(10):
        commit(5)
    assert broker.asked_count == 1
    commit(6)
    assert broker.asked_count == 2
    clock.now_ms += 1000
    commit(6)

    assert broker.asked_count == 3
    assert warnings(caplog) == ["not allowed"]


def test_a_refusal_that_comes_late_is_told_too(broker, commit, monkeypatch, caplog):
    monkeypatch.setattr(group_commit, "_PATIENCE_S", 0)
    broker.is_slow, broker.reason = True, "nobody coordinates"
    for _ in range(3):
        commit(5)
    assert warnings(caplog) == []
    broker.answer()
    for _ in range(3):
        commit(5)

    assert broker.asked_count == 1
    assert warnings(caplog) == ["nobody coordinates"]


def test_what_is_committed_late_is_not_committed_again(broker, commit, monkeypatch):
    monkeypatch.setattr(group_commit, "_PATIENCE_S", 0)
    broker.is_slow = True
    commit(5)
    broker.answer()
    commit(5)
    assert broker.asked_count == 1
    commit(6)

    assert broker.asked_count == 2


def test_a_refusal_is_told_again_when_it_is_another_or_was_over(broker, commit, caplog):
    for offset, reason in enumerate(["a", "a", "b", None, "b", "a"]):
        broker.reason = reason
        commit(offset)

    assert warnings(caplog) == ["a", "b", "b", "a"]
