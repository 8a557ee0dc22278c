"""What a broker asks of a controller in another process, and what the answers mean."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.network import Address
from moldau.cluster.brokers import SUPPORTED_FEATURES, BrokerRegistration
from moldau.cluster.controller_requests import ProducerIdBlock
from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer
from moldau.cluster.image import MetadataImage
from moldau.cluster.isr_changes import IsrAnswer, IsrProposal
from moldau.cluster.model import Broker, Endpoint, Topic
from moldau.cluster.topics import NewTopic
from moldau.engine.errors import ClientClosed, ConnectionLost
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationResponse,
)
from moldau.protocol.messages.log_dirs import (
    AssignReplicasDirectoryResult,
    AssignReplicasPartitionResult,
    AssignReplicasToDirsResponse,
    AssignReplicasTopicResult,
)
from moldau.protocol.messages.replication import (
    AlterPartitionResponse,
    AlterPartitionStateResponse,
    AlterPartitionTopicResponse,
)
from moldau.protocol.messages.topics import CreatableTopicResult, CreateTopicsResponse
from moldau.protocol.messages.transactions import AllocateProducerIdsResponse
from moldau.server.nodes.image_waits import ImageWaits
from moldau.server.nodes.live_brokers import LiveBrokers
from moldau.server.nodes.remote_controller import Channels, RemoteController

TOPIC_ID, OTHER_ID = b"t" * 16, b"u" * 16
DIRECTORY = b"d" * 16


class Channel:
    """A way to the controller whose answers a test has written."""

    def __init__(self, purpose):
        self.purpose = purpose
        self.sent = []
        self.answers = []
        self.looks = 0
        self.is_closed = False

    async def call(self, request):
        self.sent.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def look_elsewhere(self):
        self.looks += 1

    async def close(self):
        self.is_closed = True


class Metadata:
    """An image that a test replaces."""

    def __init__(self):
        self.image = MetadataImage()
        self.listeners = []

    def subscribe(self, listener):
        self.listeners.append(listener)

    def show(self, image):
        self.image = image
        for listener in self.listeners:
            listener((), image)


class Node:
    def __init__(self):
        self.channels = Channels(Channel)
        self.metadata = Metadata()
        self.waits = ImageWaits(self.metadata)
        self.requests = RemoteController(self.channels, self.waits)


def in_world(test):
    def run(world):
        world.run(test(Node()))

    return run


# Membership


@in_world
async def test_a_registration_says_everything_about_the_broker(node):
    node.channels.membership.answers = [BrokerRegistrationResponse(0, 0, 900)]
    registration = BrokerRegistration(
        7, b"i" * 16, (Endpoint("PLAIN", "host", 9092, 0),), (DIRECTORY,), "rack-1", 55, "cluster"
    )
    assert await node.requests.register_broker(registration) == 900
    (sent,) = node.channels.membership.sent
    assert (sent.broker_id, sent.cluster_id, sent.incarnation_id) == (7, "cluster", b"i" * 16)
    ((listener),) = sent.listeners
    assert (listener.name, listener.host, listener.port) == ("PLAIN", "host", 9092)
    assert [one.name for one in sent.features] == [one.name for one in SUPPORTED_FEATURES]
    assert (sent.rack, sent.log_dirs, sent.previous_broker_epoch) == ("rack-1", [DIRECTORY], 55)
    assert not sent.is_migrating_zk_broker


@in_world
async def test_a_heartbeat_and_its_answer(node):
    node.channels.membership.answers = [BrokerHeartbeatResponse(0, 0, True, False, True)]
    beat = Heartbeat(7, 900, 42, want_fence=True, want_shut_down=True, offline_directories=(b"x",))
    assert await node.requests.heartbeat(beat) == HeartbeatAnswer(True, False, True)
    assert node.channels.membership.sent == [BrokerHeartbeatRequest(7, 900, 42, True, True, [b"x"])]


# Leaders and producers


@in_world
async def test_isr_changes_are_grouped_by_topic(node):
    answers = [
        AlterPartitionTopicResponse(
            TOPIC_ID,
            [
                AlterPartitionStateResponse(0, 0, 7, 3, [7, 8], 1, 6),
                AlterPartitionStateResponse(2, ErrorCode.INVALID_UPDATE_VERSION),
            ],
        ),
        AlterPartitionTopicResponse(OTHER_ID, [AlterPartitionStateResponse(0, 32_000)]),
    ]
    node.channels.proposals.answers = [AlterPartitionResponse(0, 0, answers)]
    asked = [
        IsrProposal(TOPIC_ID, 0, 3, 5, ((7, 900), (8, 901)), recovering=True),
        IsrProposal(OTHER_ID, 0, 1, 1, ((7, 900),)),
        IsrProposal(TOPIC_ID, 2, 3, 5, ((7, 900),)),
    ]
    changed, refused, strange = await node.requests.alter_partitions(7, 900, asked)
    assert changed == IsrAnswer(TOPIC_ID, 0, ErrorCode.NONE, 7, 3, (7, 8), True, 6)
    assert (refused.index, refused.error) == (2, ErrorCode.INVALID_UPDATE_VERSION)
    assert strange.error == ErrorCode.UNKNOWN_SERVER_ERROR
    (sent,) = node.channels.proposals.sent
    assert (sent.broker_id, sent.broker_epoch) == (7, 900)
    first, second = sent.topics
    assert [(first.topic_id, len(first.partitions)), (second.topic_id, len(second.partitions))] == [
        (TOPIC_ID, 2), (OTHER_ID, 1),
    ]  # fmt: skip
    state = first.partitions[0]
    assert (state.leader_epoch, state.partition_epoch, state.leader_recovery_state) == (3, 5, 1)
    assert state.new_isr == [7, 8]
    assert [(one.broker_id, one.broker_epoch) for one in state.new_isr_with_epochs] == [
        (7, 900), (8, 901),
    ]  # fmt: skip


@in_world
async def test_where_replicas_lie_is_grouped_by_directory_and_topic(node):
    other = b"e" * 16
    node.channels.directories.answers = [
        AssignReplicasToDirsResponse(
            0,
            0,
            [
                AssignReplicasDirectoryResult(
                    DIRECTORY,
                    [AssignReplicasTopicResult(TOPIC_ID, [AssignReplicasPartitionResult(0, 0)])],
                ),
                AssignReplicasDirectoryResult(
                    other,
                    [AssignReplicasTopicResult(TOPIC_ID, [AssignReplicasPartitionResult(1, 6)])],
                ),
            ],
        )
    ]
    places = [(TOPIC_ID, 0, DIRECTORY), (TOPIC_ID, 1, other), (OTHER_ID, 0, DIRECTORY)]
    replicas = [ReplicaDirectory(*place) for place in [*places, (TOPIC_ID, 2, DIRECTORY)]]
    assert await node.requests.assign_directories(7, 900, replicas) == [
        DirectoryAnswer(replicas[0]),
        DirectoryAnswer(replicas[1], ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ]
    (sent,) = node.channels.directories.sent
    assert (sent.broker_id, sent.broker_epoch) == (7, 900)
    assert [
        (one.id, topic.topic_id, [each.partition_index for each in topic.partitions])
        for one in sent.directories
        for topic in one.topics
    ] == [(DIRECTORY, TOPIC_ID, [0, 2]), (DIRECTORY, OTHER_ID, [0]), (other, TOPIC_ID, [1])]


@in_world
async def test_a_block_of_producer_ids(node):
    node.channels.topics.answers = [AllocateProducerIdsResponse(0, 0, 4000, 1000)]
    assert await node.requests.allocate_producer_ids(7, 900) == ProducerIdBlock(4000, 5000)
    (sent,) = node.channels.topics.sent
    assert (sent.broker_id, sent.broker_epoch) == (7, 900)


@in_world
async def test_a_topic_is_returned_once_this_node_knows_it(node):
    node.channels.topics.answers = [CreateTopicsResponse(0, [CreatableTopicResult("words")])]
    wanted = NewTopic("words", 2, 3, configs={"retention.ms": "1"})
    creating = asyncio.create_task(node.requests.create_topic(wanted))
    await asyncio.sleep(1)
    assert not creating.done()
    topic = Topic("words", TOPIC_ID, ())
    node.metadata.show(MetadataImage(topics={"words": topic}))
    assert await creating is topic
    ((created,),) = (node.channels.topics.sent[0].topics,)
    assert (created.name, created.num_partitions, created.replication_factor) == ("words", 2, 3)
    assert [(one.name, one.value) for one in created.configs] == [("retention.ms", "1")]


@in_world
async def test_a_topic_that_is_refused(node):
    result = CreatableTopicResult(
        "words", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="There."
    )
    node.channels.topics.answers = [CreateTopicsResponse(0, [result])]
    with pytest.raises(ApiError, match=r"There\.") as caught:
        await node.requests.create_topic(NewTopic("words", 1, 1))
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


# Errors


@pytest.mark.parametrize("lost", [ConnectionLost("gone"), ClientClosed("stopping")])
def test_no_answer_means_that_no_controller_is_known(world, lost):
    async def scenario():
        node = Node()
        node.channels.topics.answers = [lost]
        with pytest.raises(ApiError) as caught:
            await node.requests.allocate_producer_ids(7, 900)
        assert caught.value.code is ErrorCode.NOT_CONTROLLER

    world.run(scenario())


@pytest.mark.parametrize(
    ("code", "read", "looks"),
    [
        (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH, 0),
        (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_CONTROLLER, 1),
        (32_000, ErrorCode.UNKNOWN_SERVER_ERROR, 0),
    ],
)
def test_an_error_of_the_controller_is_raised(world, code, read, looks):
    async def scenario():
        node = Node()
        node.channels.membership.answers = [BrokerHeartbeatResponse(0, code)]
        with pytest.raises(ApiError) as caught:
            await node.requests.heartbeat(Heartbeat(7, 900, 1))
        assert caught.value.code is read
        assert node.channels.membership.looks == looks

    world.run(scenario())


@in_world
async def test_each_kind_of_request_has_its_own_way_and_all_are_closed(node):
    channels = node.channels
    ways = (
        channels.membership,
        channels.proposals,
        channels.directories,
        channels.topics,
        channels.forwarding,
    )
    assert len({way.purpose for way in ways}) == len(ways)
    await channels.close()
    assert all(way.is_closed for way in ways)


# Waiting for the image


@in_world
async def test_waits_end_with_the_image_each_of_them_wants(node):
    first, second = (
        asyncio.create_task(node.waits.until(lambda image, wanted=wanted: image.version >= wanted))
        for wanted in (5, 9)
    )
    await asyncio.sleep(1)
    node.metadata.show(MetadataImage(version=6))
    assert (await first).version == 6
    assert not second.done()
    node.metadata.show(MetadataImage(version=9))
    assert (await second).version == 9


@in_world
async def test_a_wait_ends_after_its_patience(node):
    with pytest.raises(ApiError) as caught:
        await node.waits.until(lambda image: False, 5)
    assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT


# Other brokers


def test_what_is_known_of_other_brokers():
    def broker(number, **state):
        endpoints = (Endpoint("CLIENTS", "a", 1, 0), Endpoint("BROKERS", f"host-{number}", 2, 0))
        return Broker(number, 100 + number, b"", endpoints, **state)

    known = {
        1: broker(1, fenced=False),
        2: broker(2, fenced=True),
        3: broker(3, fenced=False, in_controlled_shutdown=True),
        4: Broker(4, 104, b"", (Endpoint("CLIENTS", "a", 1, 0),), fenced=False),
    }
    live = LiveBrokers(lambda: MetadataImage(brokers=known), "BROKERS")
    assert [live.broker_epoch(number) for number in (1, 2, 9)] == [101, 102, None]
    assert [live.is_eligible(number) for number in (1, 2, 3, 9)] == [True, False, False, False]
    assert live.address(2) == Address("host-2", 2)
    assert [live.address(number) for number in (4, 9)] == [None, None]
