"""Clients and the internal topics, on a real broker with a real client."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from moldau.server.lifecycle.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from moldau.testing import TestBroker

GARBAGE = [
    (b"\x00\x01garbage", b"\xff" * 9),
    (b"\xff" * 40, None),
    (b"", b""),
    (b"\x00\x07", b"a type of the future"),
]


def commit(broker, offset=5, group="readers"):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
    consumer.close()


def committed(broker, group="readers"):
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    (found,) = consumer.committed([TopicPartition("t", 0)], 20)
    consumer.close()
    return found.offset


def initialize(broker, transactional_id="id"):
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id}
    )
    producer.init_transactions(20)


def write_garbage(broker):
    """Produce as Kafka's own tools name themselves; return the errors."""
    errors = []
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "client.id": "__admin_client"}
    )
    for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
        for key, value in GARBAGE:
            producer.produce(
                topic, value, key, 0, on_delivery=lambda error, _: errors.append(error)
            )
    producer.flush(20)
    assert len(errors) == 2 * len(GARBAGE)
    return {error and error.code() for error in errors}


@pytest.fixture
def broker_with():
    """Start a broker with these settings, a committed offset and a transactional id."""
    started = []

    def start(**settings):
        broker = TestBroker(topics={"t": 1}, settings=settings)
        broker.start()
        started.append(broker)
        commit(broker)
        initialize(broker)
        return broker

    yield start
    for broker in started:
        broker.close()


def test_no_client_writes_to_an_internal_topic_whatever_its_name(broker_with):
    broker = broker_with()
    assert write_garbage(broker) == {KafkaError.TOPIC_EXCEPTION}


def test_what_was_written_there_is_skipped_and_all_else_is_found_after_a_restart(
    broker_with, caplog
):
    caplog.set_level(logging.WARNING)
    broker = broker_with(**{"internal.topics.writable": True})
    assert write_garbage(broker) == {None}
    commit(broker, 6, "others")
    broker.restart()
    assert (committed(broker), committed(broker, "others")) == (5, 6)
    initialize(broker)
    commit(broker, 7)
    assert committed(broker) == 7
    runtimes = broker._life._broker.parts.runtimes
    for runtime in (runtimes.groups, runtimes.transactions):
        assert runtime.load_times.skipped_records == len(GARBAGE)
        assert f"{runtime.topic}-0: the record at offset " in caplog.text
