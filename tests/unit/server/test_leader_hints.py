"""Produce and Fetch tell a client where to go instead, if it understands that (KIP-951)."""

from __future__ import annotations

import asyncio
import random

import pytest

from kits import log_kit
from kits.fetch_kit import FAR, unexpected
from kits.log_kit import HandClock, make_batch
from kits.metadata_samples import after, with_brokers, with_topic
from kits.partition_kit import ME, OTHER, give_role, make_partition
from kits.request_kit import context, session
from kits.slicing import finished
from moldau.base.ids import PartitionKey
from moldau.cluster.changes import BrokerChanged, BrokerUnregistered, PartitionChanged
from moldau.cluster.topics import NewTopic
from moldau.observe.requests import RequestStats
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.replication.partition import ACKS_ALL, ACKS_LEADER, Role
from moldau.replication.partitions import Partitions
from moldau.server.fetch.sessions import FetchSessions
from moldau.server.handlers.fetch import FetchHandler
from moldau.server.handlers.produce import ProduceHandler
from moldau.server.nodes.known_topics import KnownTopics
from moldau.server.nodes.leader_hints import LeaderHints
from moldau.storage.flushing import Flusher

NOBODY = (-1, -1)


class Kit:
    """Broker 1 in a cluster whose topic has partition 0 on both brokers, 1 and 2 on broker 2."""

    def __init__(self):
        image = with_topic(with_brokers([ME, OTHER]), NewTopic("t", 3))
        self.image, self.topic_id = image, image.topics["t"].id
        both = (ME, OTHER)
        self.lead(0, OTHER, both)
        self.lead(1, OTHER, (OTHER,))
        self.lead(2, OTHER, (OTHER,))
        disk, key = log_kit.Broker(), PartitionKey("t", 0)
        log = disk.manager.open_or_create(key, self.topic_id, disk.config)
        self.partitions = Partitions(KnownTopics(lambda: self.image))
        self.partitions.add(make_partition(key, self.topic_id, log, Role(OTHER, 1, 1, both, both)))
        hints = LeaderHints(lambda: self.image)
        self.produce = ProduceHandler(
            self.partitions, HandClock(), None, Flusher(None), Traffic(), RequestStats(),
            None, None, leader_hints=hints,
        )  # fmt: skip
        self.fetch = FetchHandler(
            self.partitions,
            FetchSessions(10, 120.0, HandClock(), random.Random(1)),
            None, Traffic(), RequestStats(), unexpected, unexpected,
            max_bytes=FAR, leader_hints=hints,
        )  # fmt: skip

    def lead(self, index, leader, replicas):
        change = PartitionChanged(self.topic_id, index, replicas, leader, replicas)
        self.image = after(self.image, [change])

    def send(self, *indexes, version=13, acks=ACKS_LEADER, **options):
        data = [PartitionProduceData(index, make_batch()) for index in indexes]
        topic = TopicProduceData("t", self.topic_id, partition_data=data)
        request = ProduceRequest(None, acks, 1_000_000, [topic])
        return self.produce(request, context(version, **options))

    def read(self, *indexes, version=17, epoch=-1):
        asked = [FetchPartition(index, epoch, 0, -1, 0, FAR) for index in indexes]
        request = FetchRequest(topics=[FetchTopic("t", self.topic_id, asked)], session_epoch=-1)
        return finished(self.fetch(request, context(version)))


def hints(response):
    """What is told of each partition: the error, the leader and its epoch."""
    (topic,) = response.responses
    partitions = getattr(topic, "partition_responses", None) or topic.partitions
    return [
        (
            ErrorCode(one.error_code).name,
            one.current_leader.leader_id,
            one.current_leader.leader_epoch,
        )
        for one in partitions
    ]


def nodes(response):
    return [(one.node_id, one.host, one.port) for one in response.node_endpoints]


ELSEWHERE = ("NOT_LEADER_OR_FOLLOWER", OTHER, 1)
THERE = (OTHER, "127.0.0.1", 9092 + OTHER)


@pytest.mark.parametrize("ask", ["send", "read"])
def test_a_client_is_told_the_leader_and_once_where_that_is(ask):
    response = getattr(Kit(), ask)(0, 1, 2)
    assert hints(response) == [ELSEWHERE] * 3
    assert nodes(response) == [THERE]


@pytest.mark.parametrize(
    ("ask", "version", "is_told"),
    [
        ("send", 9, False), ("send", 10, True), ("send", 12, True),
        ("read", 12, False), ("read", 15, False), ("read", 16, True),
    ],
)  # fmt: skip
def test_versions_before_hints_have_none(ask, version, is_told):
    response = getattr(Kit(), ask)(0, version=version)
    assert hints(response) == [ELSEWHERE if is_told else (ELSEWHERE[0], *NOBODY)]
    assert bool(nodes(response)) is is_told


@pytest.mark.parametrize("ask", ["send", "read"])
def test_a_leader_that_cannot_be_reached_has_no_address(ask):
    kit = Kit()
    for gone in (BrokerChanged(OTHER, 2, fenced=True), BrokerUnregistered(OTHER, 2)):
        kit.image = after(kit.image, [gone])
        response = getattr(kit, ask)(0)
        assert hints(response) == [ELSEWHERE]
        assert nodes(response) == []


def test_a_leader_without_the_clients_listener_has_no_address():
    response = Kit().send(0, asker=session(listener="OTHER"))
    assert (hints(response), nodes(response)) == ([ELSEWHERE], [])


def test_a_partition_without_a_leader_is_told_so():
    kit = Kit()
    kit.lead(0, -1, (ME, OTHER))
    assert hints(kit.send(0)) == [("NOT_LEADER_OR_FOLLOWER", -1, 2)]


def test_other_errors_give_no_hints():
    kit = Kit()
    assert hints(kit.send(7)) == [("UNKNOWN_TOPIC_OR_PARTITION", *NOBODY)]
    assert hints(kit.read(7)) == [("UNKNOWN_TOPIC_OR_PARTITION", *NOBODY)]


def test_a_fetch_with_an_old_epoch_is_told_the_new_one():
    kit = Kit()
    kit.lead(0, ME, (ME, OTHER))
    give_role(kit.partitions.get("t", 0), Role(ME, 2, 2, (ME, OTHER), (ME, OTHER)))
    response = kit.read(0, epoch=1)
    assert hints(response) == [("FENCED_LEADER_EPOCH", ME, 2)]
    assert [one.node_id for one in response.node_endpoints] == [ME]


def test_a_produce_that_waits_is_told_the_new_leader():
    async def work():
        kit = Kit()
        give_role(kit.partitions.get("t", 0), Role(ME, 2, 2, (ME, OTHER), (ME, OTHER)))
        answer = kit.send(0, acks=ACKS_ALL)
        kit.lead(0, OTHER, (ME, OTHER))
        give_role(kit.partitions.get("t", 0), Role(OTHER, 3, 3, (ME, OTHER), (ME, OTHER)))
        response = await answer
        assert hints(response) == [("NOT_LEADER_OR_FOLLOWER", OTHER, 2)]
        assert nodes(response) == [THERE]

    asyncio.run(work())
