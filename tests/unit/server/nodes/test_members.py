"""What the controller answers other brokers, and what it does not pass on to its decisions."""

from __future__ import annotations

import asyncio

import pytest

from kits.request_kit import context
from kits.slicing import count_turns
from moldau.cluster.brokers import BROKERS_MAX, SUPPORTED_FEATURES, BrokerRegistration
from moldau.cluster.controller_requests import ProducerIdBlock
from moldau.cluster.directory_assignments import DirectoryAnswer, ReplicaDirectory
from moldau.cluster.heartbeats import Heartbeat, HeartbeatAnswer
from moldau.cluster.isr_changes import IsrAnswer, IsrProposal
from moldau.cluster.model import Endpoint
from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    RegistrationFeature,
    RegistrationListener,
)
from moldau.protocol.messages.log_dirs import (
    AssignReplicasDirectory,
    AssignReplicasPartition,
    AssignReplicasToDirsRequest,
    AssignReplicasTopic,
)
from moldau.protocol.messages.replication import (
    AlterPartitionIsrMember,
    AlterPartitionRequest,
    AlterPartitionState,
    AlterPartitionTopic,
)
from moldau.protocol.messages.transactions import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from moldau.server.handlers.members import (
    ASSIGNED_MAX,
    PROPOSALS_MAX,
    PROPOSALS_PER_STEP,
    REGISTERED_MAX,
    TEXT_MAX,
    MemberHandlers,
)

TOPIC_ID, OTHER_ID = b"t" * 16, b"u" * 16


class Controller:
    """Notes what it is asked, and answers as a test wants."""

    def __init__(self, result):
        self.result = result
        self.asked = []

    async def _answer(self, *asked):
        self.asked.append(asked)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    register_broker = heartbeat = alter_partitions = allocate_producer_ids = _answer
    assign_directories = _answer


def answered(controller, method, request, version):
    handler = getattr(MemberHandlers(controller), method)
    return asyncio.run(handler(request, context(version=version)))


def registration(**more):
    values = {
        "broker_id": 7,
        "cluster_id": "cluster",
        "incarnation_id": b"i" * 16,
        "listeners": [RegistrationListener("PLAIN", "host", 9092, 0)],
        "features": [RegistrationFeature(*one) for one in SUPPORTED_FEATURES],
        "rack": "rack",
        "log_dirs": [b"d" * 16],
        "previous_broker_epoch": 5,
    }
    return BrokerRegistrationRequest(**values | more)


def test_a_registration_is_passed_on_whole():
    controller = Controller(900)
    answer = answered(controller, "register", registration(), 4)
    assert answer == BrokerRegistrationResponse(0, 0, 900)
    endpoints = (Endpoint("PLAIN", "host", 9092, 0),)
    assert controller.asked == [
        (BrokerRegistration(7, b"i" * 16, endpoints, (b"d" * 16,), "rack", 5, "cluster"),)
    ]


@pytest.mark.parametrize(
    "absurd",
    [
        {"broker_id": -1},
        {"listeners": [RegistrationListener("A", "a", 1, 0)] * (REGISTERED_MAX + 1)},
        {"features": [RegistrationFeature("metadata.version", 7, 30)] * (REGISTERED_MAX + 1)},
        {"log_dirs": [bytes(16)] * (REGISTERED_MAX + 1)},
        {"rack": "r" * (TEXT_MAX + 1)},
        {"listeners": [RegistrationListener("A" * (TEXT_MAX + 1), "a", 1, 0)]},
        {"listeners": [RegistrationListener("A", "a" * (TEXT_MAX + 1), 1, 0)]},
        {"features": [RegistrationFeature("f" * (TEXT_MAX + 1), 0, 1)]},
    ],
)
def test_what_can_be_no_broker_is_refused(absurd):
    controller = Controller(900)
    answer = answered(controller, "register", registration(**absurd), 4)
    assert answer == BrokerRegistrationResponse(0, ErrorCode.INVALID_REGISTRATION)
    assert controller.asked == []


def test_the_largest_registrations_of_all_brokers_fit_into_memory():
    listener, feature, directory = 2 * TEXT_MAX, TEXT_MAX, 16
    one = REGISTERED_MAX * (listener + feature + directory)
    assert BROKERS_MAX * one < 100 << 20


def test_a_heartbeat_is_passed_on_whole():
    controller = Controller(HeartbeatAnswer(True, False, True))
    request = BrokerHeartbeatRequest(7, 900, 42, True, False, [b"d" * 16])
    answer = answered(controller, "heartbeat", request, 1)
    assert answer == BrokerHeartbeatResponse(0, 0, True, False, True)
    beat = Heartbeat(7, 900, 42, want_fence=True, offline_directories=(b"d" * 16,))
    assert controller.asked == [(beat,)]


@pytest.mark.parametrize(("version", "isr"), [(2, ((7, -1), (8, -1))), (3, ((7, 900), (8, 901)))])
def test_members_of_an_isr_have_epochs_from_version_3_on(version, isr):
    controller = Controller([IsrAnswer(TOPIC_ID, 4, ErrorCode.NONE, 7, 3, (7, 8), True, 6)])
    members = [AlterPartitionIsrMember(7, 900), AlterPartitionIsrMember(8, 901)]
    state = AlterPartitionState(4, 3, [7, 8], members, 1, 5)
    request = AlterPartitionRequest(7, 900, [AlterPartitionTopic(TOPIC_ID, [state])])
    answer = answered(controller, "alter_partitions", request, version)
    proposal = IsrProposal(TOPIC_ID, 4, 3, 5, isr, recovering=True)
    assert controller.asked == [(7, 900, [proposal])]
    ((result,),) = (answer.topics[0].partitions,)
    assert (result.partition_index, result.leader_id, result.isr) == (4, 7, [7, 8])
    assert (result.leader_epoch, result.leader_recovery_state, result.partition_epoch) == (3, 1, 6)


def test_answers_about_isrs_are_grouped_by_topic():
    ids = (TOPIC_ID, OTHER_ID, TOPIC_ID)
    controller = Controller([IsrAnswer(one, index) for index, one in enumerate(ids)])
    answer = answered(controller, "alter_partitions", AlterPartitionRequest(), 3)
    found = {
        one.topic_id: [each.partition_index for each in one.partitions] for one in answer.topics
    }
    assert found == {TOPIC_ID: [0, 2], OTHER_ID: [1]}


def test_many_proposals_are_read_and_answered_in_many_turns():
    count = 10 * PROPOSALS_PER_STEP
    states = [AlterPartitionState(index, 0, [7], [], 0, 0) for index in range(count)]
    request = AlterPartitionRequest(7, 900, [AlterPartitionTopic(TOPIC_ID, states)])
    controller = Controller([IsrAnswer(TOPIC_ID, index) for index in range(count)])
    handling = MemberHandlers(controller).alter_partitions(request, context(version=2))
    assert asyncio.run(count_turns(handling)) >= 2 * 10
    ((_, _, proposals),) = controller.asked
    assert [one.index for one in proposals] == list(range(count))


def test_more_proposals_than_any_broker_sends_are_refused():
    topics = [
        AlterPartitionTopic(bytes([number] * 16), [AlterPartitionState()] * (PROPOSALS_MAX // 2))
        for number in range(3)
    ]
    controller = Controller([])
    request = AlterPartitionRequest(7, 900, topics)
    answer = answered(controller, "alter_partitions", request, 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert controller.asked == []


@pytest.mark.parametrize("version", [2, 3])
def test_of_an_absurd_isr_no_more_is_read_than_shows_that_it_is_none(version):
    controller = Controller([])
    members = [AlterPartitionIsrMember(one, -1) for one in range(5 * BROKERS_MAX)]
    state = AlterPartitionState(0, 0, [one.broker_id for one in members], members, 0, 0)
    request = AlterPartitionRequest(7, 900, [AlterPartitionTopic(TOPIC_ID, [state])])
    answered(controller, "alter_partitions", request, version)
    ((_, _, (proposal,)),) = controller.asked
    assert len(proposal.isr) == BROKERS_MAX + 1


def test_where_replicas_lie_is_passed_on_and_answered_by_directory_and_topic():
    first, second = b"d" * 16, b"e" * 16
    places = [
        (first, TOPIC_ID, 0),
        (first, OTHER_ID, 1),
        (first, TOPIC_ID, 2),
        (second, TOPIC_ID, 3),
    ]
    replicas = [ReplicaDirectory(topic, index, directory) for directory, topic, index in places]
    answers = [DirectoryAnswer(one) for one in replicas[:-1]]
    answers.append(DirectoryAnswer(replicas[-1], ErrorCode.UNKNOWN_TOPIC_ID))
    controller = Controller(answers)
    parts = [AssignReplicasPartition(0), AssignReplicasPartition(2)]
    request = AssignReplicasToDirsRequest(
        7,
        900,
        [
            AssignReplicasDirectory(
                first,
                [
                    AssignReplicasTopic(TOPIC_ID, parts),
                    AssignReplicasTopic(OTHER_ID, [AssignReplicasPartition(1)]),
                ],
            ),
            AssignReplicasDirectory(
                second, [AssignReplicasTopic(TOPIC_ID, [AssignReplicasPartition(3)])]
            ),
        ],
    )
    answer = answered(controller, "assign_directories", request, 0)
    ((broker_id, broker_epoch, asked),) = controller.asked
    assert (broker_id, broker_epoch) == (7, 900)
    assert sorted(asked, key=str) == sorted(replicas, key=str)
    assert [
        (
            one.id,
            topic.topic_id,
            [(each.partition_index, each.error_code) for each in topic.partitions],
        )
        for one in answer.directories
        for topic in one.topics
    ] == [
        (first, TOPIC_ID, [(0, 0), (2, 0)]),
        (first, OTHER_ID, [(1, 0)]),
        (second, TOPIC_ID, [(3, ErrorCode.UNKNOWN_TOPIC_ID)]),
    ]


def test_more_replicas_than_a_broker_assigns_at_once_are_refused():
    def request(count):
        topic = AssignReplicasTopic(TOPIC_ID, [AssignReplicasPartition(0)] * count)
        return AssignReplicasToDirsRequest(7, 900, [AssignReplicasDirectory(b"d" * 16, [topic])])

    controller = Controller([])
    answer = answered(controller, "assign_directories", request(ASSIGNED_MAX + 1), 0)
    assert (answer.error_code, controller.asked) == (ErrorCode.INVALID_REQUEST, [])
    answer = answered(controller, "assign_directories", request(ASSIGNED_MAX), 0)
    assert answer.error_code == ErrorCode.NONE


def test_a_block_of_producer_ids():
    answer = answered(
        Controller(ProducerIdBlock(4000, 5000)),
        "allocate_producer_ids",
        AllocateProducerIdsRequest(7, 900),
        0,
    )
    assert answer == AllocateProducerIdsResponse(0, 0, 4000, 1000)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ApiError(ErrorCode.STALE_BROKER_EPOCH), ErrorCode.STALE_BROKER_EPOCH),
        (StoreFailed("full"), ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
@pytest.mark.parametrize(
    ("method", "request_of"),
    [
        ("register", registration),
        ("heartbeat", BrokerHeartbeatRequest),
        ("alter_partitions", AlterPartitionRequest),
        ("allocate_producer_ids", AllocateProducerIdsRequest),
        ("assign_directories", AssignReplicasToDirsRequest),
    ],
)
def test_a_refusal_is_an_error_of_the_answer(error, code, method, request_of):
    assert answered(Controller(error), method, request_of(), 0).error_code == code
