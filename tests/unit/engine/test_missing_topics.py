"""A topic that is not there is warned of at once, and an error once it is certain."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from moldau import Consumer, Producer
from moldau.client.errors import UnknownTopicOrPartition
from moldau.engine import missing_topics
from moldau.testing import TestBroker

SAID = "there is no topic 'missing'"
PLACE = ("missing", 0)


@pytest.fixture
def strict():
    """A broker that creates no topics by itself."""
    with TestBroker(settings={"auto.create.topics.enable": "false"}) as started:
        yield started


@pytest.fixture
def generous():
    with TestBroker() as started:
        yield started


@pytest.fixture
def soon(monkeypatch):
    """Have it certain soon."""
    monkeypatch.setattr(missing_topics, "TOPIC_LAG_S", 0.05)


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if SAID in one.getMessage()]


def produce(address):
    with Producer(address) as producer:
        producer.send("missing", b"v").result()


def begin(address):
    with Consumer(address, topics=["missing"]):
        pass


def assign(address):
    with Consumer(address) as consumer:
        consumer.assign([PLACE])
        next(consumer)


def look_up(address):
    with Consumer(address) as consumer:
        consumer.end_offsets([PLACE])


@pytest.mark.parametrize("ask", [produce, begin, assign, look_up])
def test_where_nobody_creates_it_that_is_an_error_long_before_the_time_out(
    strict, soon, caplog, ask
):
    with pytest.raises(UnknownTopicOrPartition, match="missing"):
        ask(strict.bootstrap_servers)
    assert len(warnings(caplog)) == 1


def test_a_group_is_warned_and_waits(strict, soon, caplog):
    settings = {"group_id": "g", "topics": ["missing"], "auto_offset_reset": "earliest"}
    with Consumer(strict.bootstrap_servers, metadata_max_age_ms=100, **settings) as consumer:
        while not warnings(caplog):
            consumer.poll(timeout_ms=50)
        strict.create_topic("missing", 1)
        produce(strict.bootstrap_servers)
        assert next(consumer).value == b"v"


def test_a_topic_that_is_created_while_somebody_waits_is_found(strict, caplog):
    with Producer(strict.bootstrap_servers) as producer, ThreadPoolExecutor(1) as thread:
        sending = thread.submit(lambda: producer.send("missing", b"v").result())
        while not warnings(caplog):
            wait([sending], timeout=0.01)
        strict.create_topic("missing", 1)
        assert sending.result().offset == 0


def test_where_brokers_create_topics_nobody_is_warned(generous, soon, caplog):
    produce(generous.bootstrap_servers)
    assert warnings(caplog) == []
