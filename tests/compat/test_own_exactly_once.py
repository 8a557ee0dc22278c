"""`transaction(consumer)` of the blocking clients against a real broker.

The stories of both faces, with rebalances by chance, are told on virtual time in
`tests/sim/test_exactly_once.py`; threads need a real broker.
"""

from __future__ import annotations

import time
from itertools import islice

import pytest

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from moldau.client.admin import Admin
from moldau.client.consumer import Consumer
from moldau.client.errors import CommitFailed, InvalidState
from moldau.client.producer import Producer
from moldau.client.records import TopicPartition

WAIT_MS = 60_000
VALUES = [b"%d" % number for number in range(6)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A broker of this module's own, which does not wait for more members before the first join."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("once"), settings) as running:
        yield running


class Scene:
    """One program that copies one topic into another, exactly once."""

    def __init__(self, broker, **settings):
        self.address = broker.address
        self.source, self.target = (
            create_topic(broker.address, fresh_topic("once")) for _ in range(2)
        )
        send(broker.address, self.source, VALUES)
        self.group = fresh_topic("group")
        self.settings = settings
        self.producer = Producer(broker.address, transactional_id=self.group)
        self.consumer = self.another_consumer()

    def another_consumer(self):
        wishes = {
            "group_id": self.group,
            "topics": [self.source],
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "heartbeat_interval_ms": 100,
            **self.settings,
        }
        return Consumer(self.address, **wishes)

    def copy(self, count=None):
        records = self.consumer.poll(timeout_ms=WAIT_MS, max_records=count)
        for record in records:
            self.producer.send(self.target, record.value)
        return [record.value for record in records]

    def what_counts(self):
        """Return the copies that count and the committed offset."""
        with Consumer(
            self.address,
            topics=[self.target],
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as reader:
            (end,) = reader.end_offsets([(self.target, 0)]).values()
            copies = []
            while reader.position((self.target, 0)) < end:
                copies += [record.value for record in reader.poll(timeout_ms=1000)]
        with Admin(self.address) as admin:
            found = admin.list_group_offsets(self.group)
        return copies, [each.offset for each in found.values()]

    def __enter__(self):
        self.producer.start()
        self.consumer.start()
        return self

    def __exit__(self, *_):
        self.consumer.close()
        self.producer.close()


def test_a_first_block_that_fails_raises_its_own_error_and_its_records_come_again(broker):
    with Scene(broker) as scene:

        def failing_block():
            with scene.producer.transaction(scene.consumer):
                assert scene.copy(3) == VALUES[:3]
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            failing_block()
        assert scene.what_counts() == ([], [])
        with scene.producer.transaction(scene.consumer):
            assert scene.copy() == VALUES
        assert scene.what_counts() == (VALUES, [len(VALUES)])


def test_a_loop_that_goes_on_after_a_failed_block_is_handed_its_records_again(broker):
    with Scene(broker) as scene:
        walk = iter(scene.consumer)

        def block(count):
            with scene.producer.transaction(scene.consumer):
                values = [record.value for record in islice(walk, count)]
                for value in values:
                    scene.producer.send(scene.target, value)
                if values[-1] == VALUES[3] and not failed:
                    failed.append(values)
                    raise ZeroDivisionError
            return values

        failed = []
        assert block(2) == VALUES[:2]
        with pytest.raises(ZeroDivisionError):
            block(2)
        assert block(4) == VALUES[2:]
        assert failed == [VALUES[2:4]]
        assert scene.what_counts() == (VALUES, [len(VALUES)])


def test_a_block_that_loses_its_partition_is_aborted_and_its_records_come_again(broker):
    with Scene(broker, max_poll_interval_ms=500) as scene:

        def slow_block():
            with scene.producer.transaction(scene.consumer):
                assert scene.copy() == VALUES
                eventually(lambda: not scene.consumer.assignment(), "the partition is lost")

        with pytest.raises(CommitFailed, match=f"{scene.source}-0"):
            slow_block()
        assert scene.what_counts() == ([], [])
        with scene.producer.transaction(scene.consumer):
            assert scene.copy() == VALUES
        assert scene.what_counts() == (VALUES, [len(VALUES)])


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_rebalance_within_a_block_that_moves_its_partition_aborts_it(broker, strategy):
    with Scene(broker, partition_assignment_strategy=strategy) as scene:
        source = TopicPartition(scene.source, 0)

        def block_with_rebalance():
            with scene.producer.transaction(scene.consumer):
                assert scene.copy() == VALUES
                scene.consumer.subscribe([scene.target])
                end = time.monotonic() + 30
                while source in scene.consumer.assignment() and time.monotonic() < end:
                    assert scene.consumer.poll(timeout_ms=100) == []

        with pytest.raises(CommitFailed, match=f"{scene.source}-0"):
            block_with_rebalance()
        with scene.another_consumer() as other:
            assert [record.value for record in other.poll(timeout_ms=WAIT_MS)] == VALUES
        assert scene.what_counts() == ([], [])


def test_a_consumer_that_commits_automatically_is_refused(broker):
    with Scene(broker, enable_auto_commit=True) as scene:
        with pytest.raises(InvalidState, match="enable_auto_commit=False"):
            scene.producer.transaction(scene.consumer).__enter__()
        assert not scene.producer.in_transaction


def test_a_consumer_is_part_of_one_block_at_a_time(broker):
    with Scene(broker) as scene, scene.producer.transaction(scene.consumer):
        with pytest.raises(InvalidState, match="already open"):
            scene.producer.transaction(scene.consumer).__enter__()
        assert scene.copy() == VALUES
