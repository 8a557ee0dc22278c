"""A task at the edges of what a leader answers; the usual answers are tried on real brokers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from moldau.client.errors import CorruptAnswer, NoBrokerReachable, UnknownTopicOrPartition
from moldau.client.records import TopicPartition
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchResponse,
)
from moldau.spark.source import connections
from moldau.spark.source.fetching import Fetching
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.ranges import OffsetRange
from moldau.spark.source.tasks import RangePartition, read_range

NEEDED = {"kafka.bootstrap.servers": "b:1", "subscribe": "t"}


def fetching(start=5, end=9, **options):
    cluster = SimpleNamespace(settings=ConnectionSettings())
    return fetching_by(cluster, {**NEEDED, **options}, start, end)


def fetching_by(cluster, given, start=5, end=9):
    wanted = OffsetRange(TopicPartition("t", 0), start, end)
    return Fetching(cluster, SourceOptions.for_batch(given), wanted, "ab" * 16)


def empty(high_watermark, last_stable_offset=-1):
    return FetchablePartitionResponse(
        high_watermark=high_watermark, last_stable_offset=last_stable_offset, records=None
    )


@pytest.mark.parametrize(
    ("told", "options", "position"),
    [
        (empty(9), {}, 9),
        (empty(20), {}, 9),
        (empty(8), {}, 5),
        (empty(20, 9), {"kafka.isolation.level": "read_committed"}, 9),
        (empty(20, 8), {"kafka.isolation.level": "read_committed"}, 5),
        (empty(20), {"kafka.isolation.level": "read_committed"}, 9),
    ],
)
def test_a_leader_that_has_it_all_and_sends_nothing_has_nothing_left_of_it(told, options, position):
    one = fetching(**options)

    assert one._taken(told) is None
    assert one._position == position


def test_bytes_that_are_no_batches_are_refused_with_their_place():
    told = FetchablePartitionResponse(high_watermark=9, records=memoryview(b"\xff" * 70))

    with pytest.raises(CorruptAnswer, match=r"t-0 at offset 5|nothing whole came from offset 5"):
        fetching()._taken(told)


def test_a_short_range_asks_for_few_bytes_and_a_long_one_for_no_more_than_is_set():
    assert fetching(0, 10)._size() < 100_000
    assert fetching(0, 10**9)._size() == 4 * 1024 * 1024
    assert fetching(0, 10**9, **{"kafka.max.partition.fetch.bytes": "5000"})._size() == 5000


@pytest.mark.parametrize(
    ("options", "patience_ms"),
    [
        ({}, 120_000),
        ({"kafkaConsumer.pollTimeoutMs": "300"}, 300),
        ({"kafka.bootstrap.timeout.ms": "7000"}, 7_000),
    ],
)
def test_a_task_in_a_new_process_waits_for_brokers_as_any_other(monkeypatch, options, patience_ms):
    def connection(settings):
        raise NoBrokerReachable(str(settings.bootstrap_timeout_ms))

    monkeypatch.setattr(connections, "Connection", connection)
    wanted = RangePartition(TopicPartition("t", 0), "", 0, 1)

    with pytest.raises(NoBrokerReachable, match=f"^{patience_ms}"):
        next(read_range(SourceOptions.for_batch({**NEEDED, **options}), wanted))


# Brokers that send us elsewhere, or away

LEADER, NEAR = 1, 2
SENT_ELSEWHERE = FetchablePartitionResponse(high_watermark=9, preferred_read_replica=NEAR)
HAS_IT_ALL = empty(9)
THROTTLED = FetchResponse(throttle_time_ms=20)


class Brokers:
    """A cluster whose brokers answer fetches as told, and notes who was asked from which rack.

    A broker that is found is one that is known only after a refresh.
    """

    def __init__(self, leader, near=(), found=None):
        self.settings = ConnectionSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
        self.ports = system_ports(self.settings)
        self.image = SimpleNamespace(
            topics={"t": SimpleNamespace(topic_id=b"\xab" * 16)},
            brokers={LEADER: None} | ({} if found is not None else {NEAR: None}),
            leader=lambda *_: SimpleNamespace(leader=LEADER, leader_epoch=3),
        )
        self.answers = {LEADER: list(leader), NEAR: list(near)}
        self.found = found
        self.asked = []

    def deadline(self, timeout_ms):
        return self.ports.clock.monotonic() + timeout_ms / 1000

    async def refresh(self):
        self.image.brokers.update(self.found)

    async def topic(self, name, _deadline):
        raise UnknownTopicOrPartition(f"there is no topic {name}")

    async def connection(self, broker_id):
        async def send(request, _version):
            self.asked.append((broker_id, request.rack_id))
            told = self.answers[broker_id].pop(0)
            if isinstance(told, FetchResponse):
                return told
            return FetchResponse(responses=[FetchableTopicResponse(partitions=[told])])

        return SimpleNamespace(agreed_version=lambda _: 17, send=send)


def read_near(**answers):
    brokers = Brokers(**answers)
    given = {**NEEDED, "kafka.client.rack": "east"}
    one = fetching_by(brokers, given)
    assert asyncio.run(one.next()) is None
    assert one._position == 9
    assert not any(brokers.answers.values())
    return brokers.asked


@pytest.mark.parametrize(
    "leader",
    [HAS_IT_ALL, FetchablePartitionResponse(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_a_range_that_has_ended_is_not_waited_for_any_longer(leader):
    brokers = Brokers(leader=[leader], found={})
    brokers.settings = ConnectionSettings(retry_backoff_ms=60_000, retry_backoff_max_ms=60_000)
    given = {**NEEDED, "kafkaConsumer.pollTimeoutMs": "1000", "failOnDataLoss": "false"}

    assert asyncio.run(fetching_by(brokers, given).next()) is None


def test_a_task_goes_where_its_leader_sends_it():
    asked = read_near(leader=[SENT_ELSEWHERE], near=[HAS_IT_ALL])

    assert asked == [(LEADER, "east"), (NEAR, "east")]


def test_a_task_returns_to_its_leader_for_good_when_a_replica_fails():
    behind = FetchablePartitionResponse(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    asked = read_near(leader=[SENT_ELSEWHERE, HAS_IT_ALL], near=[behind])

    assert asked == [(LEADER, "east"), (NEAR, "east"), (LEADER, "")]


def test_a_task_looks_for_a_replica_that_is_not_known_yet():
    asked = read_near(leader=[SENT_ELSEWHERE], near=[HAS_IT_ALL], found={NEAR: None})

    assert asked == [(LEADER, "east"), (NEAR, "east")]


def test_a_leader_that_sends_us_to_nobody_knows_whom_is_asked_to_serve_us_itself():
    asked = read_near(leader=[SENT_ELSEWHERE, SENT_ELSEWHERE, HAS_IT_ALL], found={})

    assert asked == [(LEADER, "east"), (LEADER, ""), (LEADER, "")]


def test_a_replica_that_sends_us_on_is_left_for_the_leader():
    asked = read_near(leader=[SENT_ELSEWHERE, HAS_IT_ALL], near=[SENT_ELSEWHERE])

    assert asked == [(LEADER, "east"), (NEAR, "east"), (LEADER, "")]


def test_a_broker_that_throttles_us_is_asked_again_and_says_nothing_of_gaps():
    asked = read_near(leader=[THROTTLED, THROTTLED, SENT_ELSEWHERE], near=[THROTTLED, HAS_IT_ALL])

    assert asked == [(LEADER, "east")] * 3 + [(NEAR, "east")] * 2


def test_an_answer_that_leaves_the_partition_out_for_no_reason_is_refused():
    with pytest.raises(CorruptAnswer, match="leaves t-0 out"):
        read_near(leader=[FetchResponse()])
