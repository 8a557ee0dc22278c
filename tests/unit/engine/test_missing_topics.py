"""A topic that stays missing is warned of, and an error once it is certain."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from kits.log_kit import HandClock
from moldau import Consumer, Producer
from moldau.client.errors import UnknownTopicOrPartition
from moldau.engine import missing_topics
from moldau.engine.missing_topics import AUTO_CREATION, WARNING_AFTER_S, MissingTopics
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
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
    """Have the warning at the second refusal, and certainty soon."""
    monkeypatch.setattr(missing_topics, "WARNING_AFTER_S", 0.01)
    monkeypatch.setattr(missing_topics, "TOPIC_LAG_S", 0.05)


class ClusterWithoutAutoCreation:
    async def call(self, node, request):
        told = DescribeConfigsResourceResult(name=AUTO_CREATION, value="false")
        return DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[told])])


class Noting:
    """Missing topics whose clock stands until a test moves it."""

    def __init__(self):
        self.clock = HandClock()
        self.missing = MissingTopics(self.clock, may_create=True)
        self.cluster = ClusterWithoutAutoCreation()

    def note(self, after_s=0.0, *, refused=True, watched=("missing",)):
        self.clock.now_ms += round(after_s * 1000)
        refusals = {"missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if refused else {}
        return asyncio.run(self.missing.note(refusals, watched, self.cluster, 0))


def warnings(caplog):
    return [one.getMessage() for one in caplog.records if SAID in one.getMessage()]


def test_a_topic_that_comes_a_moment_later_is_not_warned_of(caplog):
    noting = Noting()
    assert noting.note()
    assert noting.note(WARNING_AFTER_S - 0.001)
    assert not noting.note(0.001, refused=False)
    assert noting.note(WARNING_AFTER_S)  # it is missing anew
    assert warnings(caplog) == []


def test_a_topic_that_stays_missing_is_warned_of_once(caplog):
    noting = Noting()
    assert noting.note()
    assert not noting.note(WARNING_AFTER_S)
    assert not noting.note(WARNING_AFTER_S)
    assert len(warnings(caplog)) == 1


def test_a_topic_that_nobody_watches_is_neither_warned_of_nor_asked_for(caplog):
    noting = Noting()
    assert not noting.note(watched=())
    assert not noting.note(WARNING_AFTER_S, watched=())
    assert warnings(caplog) == []


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
def test_where_nobody_creates_it_that_is_an_error_long_before_the_time_out(strict, soon, ask):
    with pytest.raises(UnknownTopicOrPartition, match="missing"):
        ask(strict.bootstrap_servers)


def test_a_group_is_warned_long_before_its_metadata_is_old(strict, soon, caplog):
    with Consumer(strict.bootstrap_servers, group_id="g", topics=["missing"]) as consumer:
        while not warnings(caplog):
            consumer.poll(timeout_ms=50)


def test_a_group_is_warned_and_waits(strict, soon, caplog):
    settings = {"group_id": "g", "topics": ["missing"], "auto_offset_reset": "earliest"}
    with Consumer(strict.bootstrap_servers, metadata_max_age_ms=100, **settings) as consumer:
        while not warnings(caplog):
            consumer.poll(timeout_ms=50)
        strict.create_topic("missing", 1)
        produce(strict.bootstrap_servers)
        assert next(consumer).value == b"v"


def test_a_topic_that_is_created_while_somebody_waits_is_found(strict, caplog, monkeypatch):
    monkeypatch.setattr(missing_topics, "WARNING_AFTER_S", 0.01)
    with Producer(strict.bootstrap_servers) as producer, ThreadPoolExecutor(1) as thread:
        sending = thread.submit(lambda: producer.send("missing", b"v").result())
        while not warnings(caplog):
            wait([sending], timeout=0.01)
        strict.create_topic("missing", 1)
        assert sending.result().offset == 0


def test_where_brokers_create_topics_nobody_is_warned(generous, soon, caplog):
    produce(generous.bootstrap_servers)
    assert warnings(caplog) == []
