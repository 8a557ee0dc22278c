"""The loops of load tests: sending, reading, round trips."""

from __future__ import annotations

import asyncio
from itertools import islice
from types import SimpleNamespace

import pytest

from moldau.cli.operations.perf import (
    Load,
    half_random_hex,
    poll_once,
    random_letters,
    round_trip,
    send_load,
)


class StepClock:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self):
        self.now_s = 0.0

    def monotonic(self):
        self.now_s += 1.0
        return self.now_s

    def wall_ms(self):
        return 0


class FakeProducer:
    """Notes what it is told; acknowledges a record at offset 7 of partition 1."""

    def __init__(self):
        self.calls = []
        self.in_transaction = False

    def send(self, topic, value, *, partition=None):
        self.calls.append(value)

        async def acknowledged():
            return SimpleNamespace(partition=1, offset=7)

        return acknowledged()

    async def drain(self):
        pass

    async def flush(self):
        self.calls.append("flush")

    def begin_transaction(self):
        self.in_transaction = True
        self.calls.append("begin")

    async def commit_transaction(self):
        self.in_transaction = False
        self.calls.append("commit")


class FakeConsumer:
    """Hands out these lists, one a poll, and then waits for ever."""

    def __init__(self, *polls):
        self._polls = list(polls)

    async def poll(self, timeout_ms, *, max_records=None):
        if not self._polls:
            await asyncio.Event().wait()
        return self._polls.pop(0)[:max_records]


def record(partition, offset, key=None, value=b""):
    return SimpleNamespace(partition=partition, offset=offset, key=key, value=value)


def sent_by(load):
    producer, sent = FakeProducer(), []

    def on_sent(delivery, value):
        delivery.close()
        sent.append(value)

    asyncio.run(send_load(producer, load, on_sent, StepClock()))
    return producer.calls, sent


def test_records_are_sent_and_flushed():
    calls, sent = sent_by(Load("t", iter([b"a", b"b", b"c"]), 2))
    assert calls == [b"a", b"b", "flush"]
    assert sent == [b"a", b"b"]


def test_a_transaction_is_as_long_as_it_may_be_and_the_last_is_committed():
    calls, _ = sent_by(Load("t", iter([b"a", b"b", b"c"]), 3, transaction_s=2.0))
    assert calls == ["begin", b"a", b"b", "commit", "begin", b"c", "commit", "flush"]


def test_a_rate_makes_it_wait(monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    sent_by(Load("t", iter([b"a", b"b"]), 2, rate=0.1))
    assert slept == [8.0]  # the second is due 10 s after the first, and the clock has gone on by 2


def test_a_poll_is_counted():
    consumer = FakeConsumer([record(0, 0, b"kk", b"vvv"), record(0, 1, None, None), record(0, 2)])
    assert asyncio.run(poll_once(consumer, 100, 2, StepClock())) == (2, 5, 1.0, 2.0)


@pytest.mark.parametrize(
    ("polls", "count"),
    [([[record(1, 7)]], 1), ([[], [record(0, 7), record(1, 6)], [record(1, 8)]], 3)],
)
def test_a_round_trip_ends_with_the_record(polls, count):
    trip = asyncio.run(
        round_trip(FakeProducer(), FakeConsumer(*polls), ("t", b"v", None), 60, StepClock())
    )
    assert (trip.arrived, trip.offset, len(trip.records)) == (True, 7, count)
    assert (trip.acknowledged_s, trip.consumed_s) == (1.0, 2.0)


def test_a_record_that_does_not_come_ends_a_round_trip_too():
    consumer = FakeConsumer([record(1, 6)])
    trip = asyncio.run(round_trip(FakeProducer(), consumer, ("t", b"v", None), 0.01, StepClock()))
    assert (trip.arrived, len(trip.records)) == (False, 1)


def test_values_have_the_size_that_was_asked_for():
    first, second = islice(random_letters(5), 2)
    assert first != second
    assert {len(first), len(second)} == {5}
    assert next(random_letters(5)) == first
    assert {len(value) for value in half_random_hex(7, bytes)} == {7}
