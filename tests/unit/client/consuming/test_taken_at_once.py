"""The blocking consumer takes records that are there without waiting, and skips nothing."""

from __future__ import annotations

import pytest

from moldau import Consumer, Producer
from moldau.errors import InvalidArgument
from moldau.testing import TestBroker

COUNT = 5000


@pytest.fixture
def consumer():
    """A member of a group with many records fetched."""
    with TestBroker(topics=["t"]) as broker:
        with Producer(broker.bootstrap_servers) as producer:
            producer.send_many("t", [b"%d" % number for number in range(COUNT)])
        with Consumer(
            broker.bootstrap_servers,
            group_id="g",
            topics=["t"],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as made:
            assert made.poll(timeout_ms=20_000, max_records=1)
            yield made


def test_a_callback_runs_in_a_later_call_although_records_are_always_there(consumer):
    outcomes = []
    consumer.commit_async(callback=lambda *outcome: outcomes.append(outcome))
    count = 1
    while not outcomes:
        count += len(consumer.poll(max_records=1))
    assert count < COUNT


def test_arguments_are_checked_although_records_are_there(consumer):
    with pytest.raises(InvalidArgument, match="timeout_ms"):
        consumer.poll(timeout_ms="5")
    with pytest.raises(InvalidArgument, match="max_records=0"):
        consumer.poll(max_records=0)
    assert [record.offset for record in consumer.poll(max_records=3)] == [1, 2, 3]


def test_forms_follow_each_other_without_a_gap(consumer):
    assert next(consumer).offset == 1
    first = next(consumer.batches())[0]
    assert first.offset == 2
    seen = [record.offset for record in consumer.poll(max_records=2)]
    following = next(iter(consumer)).offset
    assert (seen[1], following) == (seen[0] + 1, seen[0] + 2)
