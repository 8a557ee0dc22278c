"""Every broker of a cluster tells who coordinates a group, or that nobody does yet."""

from __future__ import annotations

import pytest

from kits.metadata_samples import after, with_brokers, with_topic
from kits.request_kit import context, session
from kits.slicing import answered
from moldau.cluster.changes import BrokerChanged, BrokerUnregistered
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.server.handlers.find_coordinator import CoordinatorHandlers
from moldau.server.lifecycle.runtimes import CoordinatorType

TOPIC = "__consumer_offsets"
NOT_AVAILABLE = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
SPREAD = NewTopic(TOPIC, assignments={0: [1, 2], 1: [2, 3], 2: [3, 1]})


class Runtime:
    """One broker's groups; a key is its partition's number."""

    topic = TOPIC

    def __init__(self, held=()):
        self._held = held

    def partition_for(self, key):
        return int(key)

    def holds(self, index):
        return index in self._held


class Cluster:
    """Brokers with one image, in which the topic gets three replicas of each partition."""

    def __init__(self, brokers):
        self.image = with_brokers(brokers)

    async def create(self, name):
        self.image = with_topic(self.image, NewTopic(name, 3, 3))

    def find(self, key, *, at, held=(), version=4, **options):
        """Ask one broker for the coordinator of a key."""
        return self.ask(self.handlers(at, held), key, version, **options)

    def handlers(self, at, held=()):
        runtimes = {CoordinatorType.GROUP: Runtime(held)}
        return CoordinatorHandlers(lambda: self.image, at, self, runtimes)

    def ask(self, handlers, key, version=4, **options):
        request = FindCoordinatorRequest(key, 0, [key])
        response = answered(handlers.find_coordinator(request, context(version, **options)))
        (told,) = response.coordinators or [response]
        return ErrorCode(told.error_code), told.node_id, told.port


def spread():
    cluster = Cluster([1, 2, 3])
    cluster.image = with_topic(cluster.image, SPREAD)
    return cluster


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_every_broker_names_the_leader_of_the_keys_partition(version):
    cluster = spread()
    for asked in (1, 2, 3):
        for index, leader in enumerate((1, 2, 3)):
            held = [index] if leader == asked else []
            told = cluster.find(str(index), at=asked, held=held, version=version)
            assert told == (ErrorCode.NONE, leader, 9092 + leader)


def test_a_broker_that_has_not_taken_over_yet_does_not_name_itself():
    assert spread().find("0", at=1) == NOT_AVAILABLE


def test_a_coordinator_that_is_fenced_or_not_registered_is_not_named():
    cluster = spread()
    epoch = cluster.image.brokers[1].epoch
    for gone in (BrokerChanged(1, epoch, fenced=True), BrokerUnregistered(1, epoch)):
        cluster.image = after(cluster.image, [gone])
        assert cluster.find("0", at=2) == NOT_AVAILABLE


def test_a_coordinator_without_the_clients_listener_is_not_named():
    assert spread().find("0", at=2, asker=session(listener="OTHER")) == NOT_AVAILABLE


def test_with_too_few_brokers_nobody_coordinates_until_there_are_enough():
    cluster = Cluster([1, 2])
    assert cluster.find("0", at=1) == cluster.find("0", at=2) == NOT_AVAILABLE
    assert cluster.image.topic(TOPIC) is None
    cluster.image = with_brokers([1, 2, 3])
    error, leader, _ = cluster.find("0", at=1, held=[0, 1, 2])
    assert error is ErrorCode.NONE
    assert leader in (1, 2, 3)
    assert len(cluster.image.topic(TOPIC).partitions[0].replicas) == 3


def test_the_log_is_told_once_why_nobody_coordinates(caplog):
    cluster = Cluster([1])
    handlers = cluster.handlers(1)
    for count in (1, 2):
        cluster.image = with_brokers(list(range(1, count + 1)))
        for _ in range(3):
            assert cluster.ask(handlers, "0") == NOT_AVAILABLE
        assert len(caplog.messages) == count
    assert all(TOPIC in line for line in caplog.messages)
