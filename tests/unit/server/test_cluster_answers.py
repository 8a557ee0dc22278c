"""What clients are told of a cluster with missing brokers: leaders, replicas, the quorum."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kits.metadata_samples import after, directory_id, with_brokers, with_topic
from kits.request_kit import context, session
from kits.slicing import finished
from moldau.cluster.changes import BrokerChanged, BrokerUnregistered, PartitionChanged
from moldau.cluster.quorum_description import DescribedNode, DescribedReplica, QuorumDescription
from moldau.cluster.raft.voters import VoterEndpoint
from moldau.cluster.store import StoreFailed
from moldau.cluster.topics import NewTopic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import UnregisterBrokerRequest
from moldau.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    QuorumListener,
)
from moldau.server.handlers.discovery import DiscoveryHandlers
from moldau.server.handlers.quorum import QuorumHandlers

VOTER = 2
OTHER_DIRECTORY = b"another-log-dir!"


class Kit:
    """A cluster of three brokers; its topic has one partition on all of them."""

    def __init__(self):
        topic = NewTopic("t", assignments={0: [1, 2, 3]})
        self.image = with_topic(with_brokers([1, 2, 3]), topic)
        self.discovery = DiscoveryHandlers(
            lambda: self.image, lambda: VOTER, None, None, auto_create=False, partition_limit=2000
        )

    def change(self, **options):
        change = PartitionChanged(self.image.topics["t"].id, 0, **options)
        self.image = after(self.image, [change])

    def change_broker(self, broker_id, **options):
        epoch = self.image.brokers[broker_id].epoch
        self.image = after(self.image, [BrokerChanged(broker_id, epoch, **options)])

    def metadata(self, version=13, **options):
        return finished(self.discovery.metadata(MetadataRequest(None), context(version, **options)))

    def described(self, **options):
        request = DescribeTopicPartitionsRequest(response_partition_limit=10)
        return finished(self.discovery.describe_topic_partitions(request, context(0, **options)))

    def both(self, **options):
        """What Metadata and DescribeTopicPartitions tell of the partition; it is the same."""
        told = [
            (
                ErrorCode(one.error_code), one.leader_id, one.leader_epoch, one.replica_nodes,
                one.isr_nodes, one.offline_replicas,
            )
            for response in (self.metadata(**options), self.described(**options))
            for one in response.topics[0].partitions
        ]  # fmt: skip
        assert told[0] == told[1]
        return told[0]


def test_all_is_told_as_it_is():
    kit = Kit()
    kit.change(leader=3, isr=(3, 1))
    assert kit.both() == (ErrorCode.NONE, 3, 1, [1, 2, 3], [3, 1], [])


def test_replicas_on_fenced_and_forgotten_brokers_are_offline():
    kit = Kit()
    kit.change_broker(2, fenced=True)
    kit.image = after(kit.image, [BrokerUnregistered(3, kit.image.brokers[3].epoch)])
    assert kit.both()[-1] == [2, 3]


def test_a_leader_that_is_not_registered_is_not_available():
    kit = Kit()
    kit.image = after(kit.image, [BrokerUnregistered(1, kit.image.brokers[1].epoch)])
    assert kit.both() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 0, [1, 2, 3], [1, 2, 3], [1])


def test_a_broker_that_shuts_down_still_holds_its_replicas():
    kit = Kit()
    kit.change_broker(2, in_controlled_shutdown=True)
    assert kit.both()[-1] == []


def test_replicas_in_a_directory_that_has_failed_are_offline():
    kit = Kit()
    kit.change_broker(2, log_directories=(OTHER_DIRECTORY,))
    kit.change(directories=tuple(map(directory_id, (1, 2, 3))))
    assert kit.both()[-1] == [2]


def test_without_a_leader_it_is_not_available():
    kit = Kit()
    kit.change(leader=-1, isr=(), eligible_leaders=(2,), last_known_leaders=(1,))
    assert kit.both() == (ErrorCode.LEADER_NOT_AVAILABLE, -1, 1, [1, 2, 3], [], [])
    (partition,) = kit.described().topics[0].partitions
    assert partition.eligible_leader_replicas == [2]
    assert partition.last_known_elr == [1]


def test_a_leader_without_the_clients_listener_is_none_for_it():
    other = session(listener="OTHER")
    kit = Kit()
    assert kit.both(asker=other)[:2] == (ErrorCode.LISTENER_NOT_FOUND, -1)
    (old,) = kit.metadata(5, asker=other).topics[0].partitions
    assert old.error_code == ErrorCode.LEADER_NOT_AVAILABLE


def test_the_voter_is_the_controller():
    kit = Kit()
    assert kit.metadata().controller_id == VOTER
    answer = kit.discovery.describe_cluster(DescribeClusterRequest(), context(1))
    assert answer.controller_id == VOTER


@pytest.mark.parametrize(
    ("is_asked", "told"), [(False, [(1, False)]), (True, [(1, False), (2, True)])]
)
def test_fenced_brokers_are_told_if_they_are_asked_for(is_asked, told):
    kit = Kit()
    kit.change_broker(2, fenced=True)
    kit.image = after(kit.image, [BrokerUnregistered(3, kit.image.brokers[3].epoch)])
    request = DescribeClusterRequest(include_fenced_brokers=is_asked)
    answer = kit.discovery.describe_cluster(request, context(2))
    assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == told
    assert [one.node_id for one in kit.metadata().brokers] == [1]


# The quorum


class Controller:
    """Forgets brokers as it is told."""

    def __init__(self):
        self.forgotten, self.failure = [], None

    async def unregister_broker(self, broker_id):
        if self.failure is not None:
            raise self.failure
        self.forgotten.append(broker_id)


def quorum(controller=None, observers=()):
    state = SimpleNamespace(
        image=Kit().image, leader_epoch=7, kraft_version=0, metadata_directory_id=b"d" * 16
    )
    endpoints = [VoterEndpoint("CONTROLLER", "host", 9093)]
    described = QuorumDescription(
        VOTER,
        7,
        state.image.version,
        [DescribedReplica(VOTER, bytes(16), state.image.version, 1000, 1000)],
        observers,
        [DescribedNode(VOTER, endpoints)],
    )
    return QuorumHandlers(state, VOTER, controller, lambda: described)


def test_observers_are_told_with_their_offsets_and_times():
    observers = [
        DescribedReplica(1, b"e" * 16, 12, 1000, 900),
        DescribedReplica(3, b"f" * 16, -1, -1, -1),
    ]
    asked = DescribeQuorumTopic("__cluster_metadata", [DescribeQuorumPartition(0)])
    handlers = quorum(observers=observers)
    answer = finished(handlers.describe(DescribeQuorumRequest([asked]), context(2)))
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (VOTER, 7)
    assert [one.replica_id for one in partition.current_voters] == [VOTER]
    assert [
        (
            one.replica_id, one.replica_directory_id, one.log_end_offset,
            one.last_fetch_timestamp, one.last_caught_up_timestamp,
        )
        for one in partition.observers
    ] == [(1, b"e" * 16, 12, 1000, 900), (3, b"f" * 16, -1, -1, -1)]  # fmt: skip
    assert [(one.node_id, one.listeners) for one in answer.nodes] == [
        (VOTER, [QuorumListener("CONTROLLER", "host", 9093)])
    ]


def unregistered(controller, broker_id):
    request = UnregisterBrokerRequest(broker_id)
    return asyncio.run(quorum(controller).unregister_broker(request, context(0)))


def test_a_broker_is_forgotten_by_the_controller():
    controller = Controller()
    assert unregistered(controller, 3).error_code == ErrorCode.NONE
    assert controller.forgotten == [3]


def test_the_controller_itself_is_not_forgotten():
    controller = Controller()
    assert unregistered(controller, VOTER).error_code == ErrorCode.INVALID_REQUEST
    assert controller.forgotten == []


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (
            ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Broker ID 9 is not"),
            ErrorCode.BROKER_ID_NOT_REGISTERED,
        ),
        (StoreFailed("disk"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_what_the_controller_refuses_is_told(failure, code):
    controller = Controller()
    controller.failure = failure
    assert unregistered(controller, 9).error_code == code
