"""What one broker answers about replicas, elections, quorum, features, quotas and access.

Codes are those that Kafka 4.3.1 gives; `tests/differential` compares them field by field.
"""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kits.filled_messages import filled
from kits.metadata_samples import controller, with_brokers, with_topic
from kits.slicing import answered, count_pauses, finished
from moldau.base.clock import SystemClock
from moldau.base.errors import ProtocolError
from moldau.base.ids import ZERO_TOPIC_ID, PartitionKey
from moldau.cluster.changes import FeatureLevelSet, PartitionChanged
from moldau.cluster.controller import Controller
from moldau.cluster.feature_updates import QuorumContext
from moldau.cluster.features import KraftLevels, levels_in_force, supported_features
from moldau.cluster.formatting import FIRST_FEATURES
from moldau.cluster.quorum_description import DescribedNode, DescribedReplica, QuorumDescription
from moldau.cluster.raft.voters import VoterEndpoint
from moldau.cluster.topics import NewTopic, TopicDefaults
from moldau.protocol.errors import ErrorCode
from moldau.protocol.fields import Versions
from moldau.protocol.messages.brokers import (
    ControllerRegistrationRequest,
    FeatureUpdateKey,
    RegistrationFeature,
    RegistrationListener,
    UnregisterBrokerRequest,
    UnregisterControllerRequest,
    UpdateFeaturesRequest,
)
from moldau.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.protocol.messages.metadata import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from moldau.protocol.messages.quotas import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    ClientQuotaEntity,
    ClientQuotaOperation,
)
from moldau.protocol.messages.raft import AddRaftVoterRequest, RemoveRaftVoterRequest
from moldau.protocol.messages.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ElectLeadersTopic,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.security import (
    AclCreation,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    ScramUserName,
)
from moldau.protocol.registry import encode_response, find_api
from moldau.server.handlers import access, quotas
from moldau.server.handlers.controller_registration import ControllerRegistrationHandler
from moldau.server.handlers.disabled_groups import DISABLED_ROWS
from moldau.server.handlers.quorum import QuorumHandlers
from moldau.server.handlers.reassignment import ReassignmentHandlers
from moldau.server.handlers.replica_directories import ReplicaDirectoryHandler

MANY = 5_000
SMALL_STEPS = 100
"""Far fewer pauses than this for `MANY` elements would mean that one step is long."""
PREFERRED, UNCLEAN = 0, 1


@pytest.fixture
def image():
    made = with_topic(with_brokers([1]), NewTopic("t", 2, 1))
    return made.apply(FIRST_FEATURES, made.version)


class Decided:
    """A store that shows an image, and the controller that changes it."""

    def __init__(self, image, quorum=None):
        self.image = image
        self.epoch = 1
        self.controller = Controller(
            self, TopicDefaults(), None, None, lambda: True, SystemClock(), quorum=quorum
        )
        self.handlers = ReassignmentHandlers(lambda: self.image, self.controller)
        asyncio.run(self.controller.claim())

    async def claim(self):
        return self

    def on_lost(self, callback):
        pass

    async def commit(self, expected_version, changes):
        self.image = self.image.apply(changes, expected_version + len(changes))
        return self.image.version


@pytest.fixture
def replicas(image):
    return Decided(image).handlers


def described_alone(image):
    """What a voter that is alone tells of its quorum; others reach its broker."""
    own = DescribedReplica(1, ZERO_TOPIC_ID, image.version, 0, 0)
    endpoints = [VoterEndpoint(*one[:3]) for one in image.brokers[1].endpoints]
    return QuorumDescription(1, 7, image.version, [own], [], [DescribedNode(1, endpoints)])


def quorum_handlers(decided):
    state = SimpleNamespace(
        image=decided.image, leader_epoch=7, kraft_version=0, metadata_directory_id=b"d" * 16
    )
    return QuorumHandlers(state, 1, decided.controller, lambda: described_alone(decided.image))


@pytest.fixture
def decided(image):
    """The metadata of a quorum of one, and their controller."""
    return Decided(image, lambda: QuorumContext(1, {1}, KraftLevels(0, 0), 1))


@pytest.fixture
def quorum(decided):
    return quorum_handlers(decided)


def at(version):
    return SimpleNamespace(version=version, session=None)


# Replicas and elections


def reassigned(replicas, *partitions, topic="t", version=1, **options):
    topics = [ReassignableTopic(topic, [ReassignablePartition(*one) for one in partitions])]
    request = AlterPartitionReassignmentsRequest(topics=topics, **options)
    (topic_answer,) = answered(replicas.alter(request, at(version))).responses
    return [(one.partition_index, one.error_code) for one in topic_answer.partitions]


def test_replicas_may_be_where_they_are_and_nowhere_else(replicas):
    assert reassigned(replicas, (0, [1]), (1, [1])) == [(0, 0), (1, 0)]
    for wanted in ([2], [1, 2], [], [1, 1], [-1]):
        assert reassigned(replicas, (0, wanted)) == [(0, ErrorCode.INVALID_REPLICA_ASSIGNMENT)]
    assert reassigned(replicas, (0, None)) == [(0, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassigned(replicas, (2, [1]), (-1, [1])) == [(2, unknown), (-1, unknown)]
    assert reassigned(replicas, (0, None), topic="nowhere") == [(0, unknown)]


def ongoing(replicas, topics=None):
    request = ListPartitionReassignmentsRequest(topics=topics)
    response = finished(replicas.list_ongoing(request, at(0)))
    return [(one.name, one.partitions) for one in response.topics]


def test_a_move_that_has_to_wait_is_listed_until_it_is_cancelled():
    decided = Decided(with_topic(with_brokers([1, 2]), NewTopic("t", assignments={0: [1]})))
    replicas = decided.handlers
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    kept = {"allow_replication_factor_change": False}
    assert reassigned(replicas, (0, [1, 2]), **kept) == [(0, refused)]
    assert ongoing(replicas) == []
    assert reassigned(replicas, (0, [2])) == [(0, 0)]
    listed = [("t", [OngoingPartitionReassignment(0, [2, 1], [2], [1])])]
    assert ongoing(replicas) == listed
    assert ongoing(replicas, [ListPartitionReassignmentsTopics("t", [0, 0, 7, -1])]) == listed
    for name, indexes in (("t", [1]), ("nowhere", [0])):
        assert ongoing(replicas, [ListPartitionReassignmentsTopics(name, indexes)]) == []
    assert reassigned(replicas, (0, None)) == [(0, 0)]
    assert ongoing(replicas) == []
    assert decided.image.topics["t"].partitions[0].replicas == (1,)


def test_what_is_named_often_is_answered_once_and_in_small_steps(replicas):
    many = [ReassignableTopic("t", [ReassignablePartition(0, [1])] * 10)] * MANY
    work = replicas.alter(AlterPartitionReassignmentsRequest(topics=many), at(1))
    assert count_pauses(work) > SMALL_STEPS
    answer = answered(replicas.alter(AlterPartitionReassignmentsRequest(topics=many), at(1)))
    assert [len(topic.partitions) for topic in answer.responses] == [1]
    elections = ElectLeadersRequest(PREFERRED, [ElectLeadersTopic("t", [0] * 10)] * MANY)
    (topic_answer,) = answered(replicas.elect(elections, at(2))).replica_election_results
    assert len(topic_answer.partition_result) == 1


def elected(replicas, kind, *partitions):
    topics = [ElectLeadersTopic("t", list(partitions))]
    response = answered(replicas.elect(ElectLeadersRequest(kind, topics), at(2)))
    (topic_answer,) = response.replica_election_results
    return response.error_code, [one.error_code for one in topic_answer.partition_result]


def test_nobody_needs_an_election(replicas):
    unknown, not_needed = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.ELECTION_NOT_NEEDED
    for kind in (PREFERRED, UNCLEAN):
        assert elected(replicas, kind, 0, 7) == (0, [not_needed, unknown])
        every = answered(replicas.elect(ElectLeadersRequest(kind, None), at(2)))
        assert [one.partition_result for one in every.replica_election_results] == [[]]
    refused = ErrorCode.INVALID_REQUEST
    assert elected(replicas, 2, 0) == (refused, [refused])


def test_a_leader_that_is_gone_has_no_successor_but_an_eligible_one():
    image = with_topic(with_brokers([1, 2]), NewTopic("t", 1, 2))
    handlers = Decided(image).handlers
    preferred = image.topics["t"].partitions[0].replicas[0]
    assert elected(handlers, PREFERRED, 0) == (0, [ErrorCode.ELECTION_NOT_NEEDED])
    moved = Decided(_led_by(image, 3 - preferred))
    assert elected(moved.handlers, PREFERRED, 0) == (0, [ErrorCode.NONE])
    assert moved.image.topics["t"].partitions[0].leader == preferred
    image = _led_by(image, 3 - preferred, isr=(3 - preferred,))
    handlers = Decided(image).handlers
    assert elected(handlers, PREFERRED, 0) == (0, [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE])
    handlers = Decided(replace(_led_by(image, -1), brokers={})).handlers
    assert elected(handlers, UNCLEAN, 0) == (0, [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE])


def test_without_a_controller_nothing_is_moved(replicas, image):
    decided = Decided(image)
    decided.controller._lost()
    request = AlterPartitionReassignmentsRequest(topics=[])
    assert answered(decided.handlers.alter(request, at(1))).error_code == 41
    assert answered(decided.handlers.elect(ElectLeadersRequest(0, None), at(2))).error_code == 41


def _led_by(image, leader, **parts):
    change = PartitionChanged(image.topics["t"].id, 0, leader=leader, **parts)
    return image.apply([change], image.version + 1)


# The quorum


def test_the_one_broker_leads_its_quorum(quorum, image):
    asked = DescribeQuorumTopic("__cluster_metadata", [DescribeQuorumPartition(0)])
    answer = finished(quorum.describe(DescribeQuorumRequest([asked]), at(2)))
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 7)
    assert partition.high_watermark == image.version
    assert [voter.log_end_offset for voter in partition.current_voters] == [image.version]
    assert [node.node_id for node in answer.nodes] == [1]


def test_no_other_log_has_a_quorum(quorum):
    asked = DescribeQuorumTopic("t", [DescribeQuorumPartition(0)] * MANY)
    answer = finished(quorum.describe(DescribeQuorumRequest([asked]), at(2)))
    (partition,) = answer.topics[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Features


def updated(quorum, *updates, version=2, validate_only=False):
    keys = [FeatureUpdateKey(name, level, False, kind) for name, level, kind in updates]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    return answered(quorum.update_features(request, at(version)))


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("metadata.version", 30, 1),
        ("metadata.version", 30, 2),
        ("transaction.version", 2, 1),
        ("group.version", 1, 1),
        ("kraft.version", 0, 1),
    ],
)
def test_a_feature_may_have_the_level_it_has(quorum, name, level, kind):
    answer = updated(quorum, (name, level, kind), version=1)
    assert answer.error_code == 0
    assert [(one.feature, one.error_code) for one in answer.results] == [(name, 0)]
    assert not updated(quorum, (name, level, kind)).results


@pytest.mark.parametrize(
    ("name", "level", "kind"),
    [
        ("metadata.version", 31, 1),
        ("metadata.version", 7, 1),
        ("metadata.version", 7, 2),
        ("metadata.version", 1, 3),
        ("metadata.version", -1, 1),
        ("metadata.version", 30, 0),
        ("transaction.version", 3, 1),
        ("kraft.version", 1, 1),
        ("cats", 1, 1),
        ("cats", 0, 2),
    ],
)
def test_a_level_that_cannot_be_is_refused_with_all_others(decided, quorum, name, level, kind):
    before = decided.image
    answer = updated(quorum, ("transaction.version", 1, 2), (name, level, kind), version=1)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert name in answer.error_message
    assert not answer.results
    assert decided.image is before


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_feature_gets_another_level(decided, quorum, version):
    names = ("transaction.version", "group.version")
    keys = [FeatureUpdateKey(names[0], 1), FeatureUpdateKey(names[1], 0)]
    for key in keys:
        # Version 0 has a flag where later ones have the kind of the change.
        key.allow_downgrade, key.upgrade_type = (True, 1) if version == 0 else (False, 2)
    request = UpdateFeaturesRequest(feature_updates=keys)
    answer = answered(quorum.update_features(request, at(version)))
    assert (answer.error_code, answer.error_message) == (0, None)
    told = [(name, 0) for name in names] if version < 2 else []
    assert [(one.feature, one.error_code) for one in answer.results] == told
    assert decided.image.features["transaction.version"] == 1
    assert "group.version" not in decided.image.features


def test_only_asked_for_a_feature_keeps_its_level(decided, quorum):
    before = decided.image
    assert updated(quorum, ("transaction.version", 1, 2), validate_only=True).error_code == 0
    assert decided.image is before


@pytest.mark.parametrize("level", [0, 1, 3])
def test_in_a_cluster_on_zookeeper_levels_stay(image, level):
    decided = Decided(image)
    handlers = quorum_handlers(decided)
    for kind in (1, 2, 3):
        answer = updated(handlers, ("transaction.version", level, kind))
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert updated(handlers, ("transaction.version", 2, 1)).error_code == 0
    assert decided.image is image


def test_many_names_are_refused_without_a_look_at_them(quorum):
    names = [(f"feature-{number}", 1, 1) for number in range(MANY)]
    assert updated(quorum, *names).error_code == ErrorCode.INVALID_REQUEST
    same = [("transaction.version", 2, 1)] * MANY
    answer = updated(quorum, *same, version=1)
    assert (answer.error_code, len(answer.results)) == (0, 1)


def test_without_a_controller_no_feature_is_changed(decided, quorum):
    decided.controller._lost()
    assert updated(quorum, ("transaction.version", 1, 2)).error_code == ErrorCode.NOT_CONTROLLER


def test_clients_are_not_told_of_group_protocols_that_are_not_there(image):
    supported = supported_features(image, KraftLevels(0, 0))
    assert {name: (one.minimum, one.maximum) for name, one in supported.items()} == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 0),
        "kraft.version": (0, 0),
        "metadata.version": (7, 30),
        "share.version": (0, 0),
        "streams.version": (0, 0),
        "transaction.version": (0, 2),
    }
    assert levels_in_force(image, KraftLevels(0, 1)) == {
        "eligible.leader.replicas.version": 1,
        "metadata.version": 30,
        "transaction.version": 2,
    }


def test_levels_of_an_earlier_folder_are_told_as_they_are(image):
    earlier = image.apply([FeatureLevelSet("metadata.version", 21)], image.version)
    kraft = KraftLevels(1, 1)
    assert supported_features(earlier, kraft)["metadata.version"].maximum == 30
    assert levels_in_force(earlier, kraft)["metadata.version"] == 21
    assert levels_in_force(earlier, kraft)["kraft.version"] == 1


# Controllers


def registering(one, **parts):
    request = ControllerRegistrationRequest(
        one.id,
        one.incarnation_id,
        False,
        [RegistrationListener(*endpoint) for endpoint in one.endpoints],
        [RegistrationFeature(*feature) for feature in one.features],
    )
    for name, value in parts.items():
        setattr(request, name, value)
    return request


def test_a_controller_is_registered_and_forgotten(decided, quorum):
    wanted = replace(controller(3), zk_migration_ready=False)
    for _ in range(2):
        answer = answered(
            ControllerRegistrationHandler(decided.controller)(registering(wanted), at(0))
        )
        assert (answer.error_code, answer.error_message) == (0, None)
    assert decided.image.controllers == {3: wanted}
    forget = UnregisterControllerRequest(3)
    early = answered(quorum.unregister_controller(forget, at(0)))
    assert early.error_code == ErrorCode.UNSUPPORTED_VERSION
    decided.image = decided.image.apply([FeatureLevelSet("metadata.version", 33)], 99)
    assert answered(quorum.unregister_controller(forget, at(0))).error_code == 0
    assert not decided.image.controllers
    again = answered(quorum.unregister_controller(forget, at(0)))
    assert again.error_code == ErrorCode.UNKNOWN_CONTROLLER_ID
    voter = answered(quorum.unregister_controller(UnregisterControllerRequest(1), at(0)))
    assert voter.error_code == ErrorCode.INVALID_REQUEST


LONG = "n" * 256


@pytest.mark.parametrize(
    "parts",
    [
        {"controller_id": -1},
        {"listeners": [RegistrationListener("L", "h", 1, 0)] * 101},
        {"features": [RegistrationFeature("f", 0, 1)] * 101},
        {"listeners": [RegistrationListener(LONG, "h", 1, 0)]},
        {"listeners": [RegistrationListener("L", LONG, 1, 0)]},
        {"features": [RegistrationFeature(LONG, 0, 1)]},
    ],
)
def test_what_no_controller_says_is_not_kept(decided, quorum, parts):
    request = registering(controller(3), **parts)
    answer = answered(ControllerRegistrationHandler(decided.controller)(request, at(0)))
    assert answer.error_code == ErrorCode.INVALID_REGISTRATION
    assert not decided.image.controllers


def test_where_nobody_votes_no_controller_registers(image):
    unable = Decided(image)
    handlers = quorum_handlers(unable)
    answer = answered(
        ControllerRegistrationHandler(unable.controller)(registering(controller(3)), at(0))
    )
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    for controller_id in (1, 3):
        request = UnregisterControllerRequest(controller_id)
        answer = answered(handlers.unregister_controller(request, at(0)))
        assert answer.error_code == ErrorCode.UNKNOWN_CONTROLLER_ID


# Quotas and access


def altered(*operations, entity=(("user", "a"),), copies=1):
    entry = AlterClientQuotasEntry(
        [ClientQuotaEntity(*one) for one in entity],
        [ClientQuotaOperation(*one) for one in operations],
    )
    request = AlterClientQuotasRequest([entry] * copies)
    return [one.error_code for one in finished(quotas.alter_quotas(request, at(1))).entries]


def test_no_quota_is_set_that_would_not_be_kept_to():
    refused, rate = ErrorCode.INVALID_REQUEST, "producer_byte_rate"
    assert altered((rate, 1000.0, False)) == [ErrorCode.UNSUPPORTED_VERSION]
    assert altered((rate, 0.0, True)) == [0]
    assert altered((rate, float("nan"), False)) == [refused]
    assert altered((rate, float("inf"), False)) == [refused]
    assert altered((rate, 0.0, True), copies=MANY) == [refused]
    assert altered(("connection_creation_rate", 1.0, False), entity=[("ip", "127.0.0.1")]) == [
        ErrorCode.UNSUPPORTED_VERSION
    ]


def test_access_is_not_guarded():
    described = access.describe_acls(DescribeAclsRequest(1, None, 1, None, None, 1, 1), at(3))
    assert described.error_code == ErrorCode.SECURITY_DISABLED
    rules = [AclCreation(2, "t", 3, "User:a", "*", 3, 3)] * 3
    created = finished(access.create_acls(CreateAclsRequest(rules), at(3)))
    assert [one.error_code for one in created.results] == [ErrorCode.SECURITY_DISABLED] * 3
    with pytest.raises(ProtocolError):
        access.describe_acls(DescribeAclsRequest(0, None, 1, None, None, 1, 1), at(3))


def test_no_user_has_credentials():
    users = [ScramUserName("a"), *[ScramUserName("b")] * MANY]
    request = DescribeUserScramCredentialsRequest(users)
    answer = finished(access.describe_scram_credentials(request, at(0)))
    assert [(one.user, one.error_code) for one in answer.results] == [
        ("a", ErrorCode.RESOURCE_NOT_FOUND),
        ("b", ErrorCode.DUPLICATE_RESOURCE),
    ]


def test_users_get_no_credentials_that_nobody_could_log_in_with():
    added = [ScramCredentialUpsertion(name, 1, 5000, b"salt", b"hash") for name in "aab"]
    request = AlterUserScramCredentialsRequest([ScramCredentialDeletion("b", 1)], added)
    answer = finished(access.alter_scram_credentials(request, at(0)))
    assert [(one.user, one.error_code) for one in answer.results] == [
        ("a", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ("b", ErrorCode.RESOURCE_NOT_FOUND),
    ]


def test_voters_and_registrations_stay(quorum, image):
    for asked, code in ((None, 35), (image.cluster_id, 35), ("another", 104)):
        assert quorum.add_voter(AddRaftVoterRequest(asked), at(1)).error_code == code
        assert quorum.remove_voter(RemoveRaftVoterRequest(asked), at(0)).error_code == code
    unknown = asyncio.run(quorum.unregister_broker(UnregisterBrokerRequest(9), at(0)))
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    own = asyncio.run(quorum.unregister_broker(UnregisterBrokerRequest(1), at(0)))
    assert own.error_code == ErrorCode.INVALID_REQUEST


# Protocols that are disabled


@pytest.mark.parametrize(("key", "versions", "handler"), DISABLED_ROWS)
def test_a_disabled_protocol_is_unsupported_in_every_answer(key, versions, handler):
    api = find_api(key)
    for version in Versions.parse(versions):
        request = filled(api.request, version, "g", 3)
        answer = finished(handler(request, at(version)))
        assert set(codes_in(answer)) == {ErrorCode.UNSUPPORTED_VERSION}
        assert len(codes_in(answer)) == 1, "what is named three times is answered once"
        assert encode_response(api, version, 1, answer)


def codes_in(answer):
    """Return the codes of an answer: its own, or those of its elements."""
    found = []
    for field in answer.FIELDS:
        value = getattr(answer, field.name)
        if field.name == "error_code" and value:
            found.append(value)
        for one in value if isinstance(value, list) else ():
            found += codes_in(one) if hasattr(one, "FIELDS") else []
    return found


# Directories of replicas


def test_a_replica_may_lie_where_it_lies():
    here = SimpleNamespace(path="/a", offline=False, logs={PartitionKey("t", 0): 1})
    other = SimpleNamespace(path="/b", offline=False, logs={})
    gone = SimpleNamespace(path="/c", offline=True, logs={})
    logs = SimpleNamespace(directories=[here, other, gone], get=here.logs.get)
    handler = ReplicaDirectoryHandler(logs)

    def asked(path, *partitions):
        request = AlterReplicaLogDirsRequest(
            [AlterReplicaLogDir(path, [AlterReplicaLogDirTopic("t", list(partitions))])]
        )
        (topic,) = finished(handler(request, at(2))).results
        return [one.error_code for one in topic.partitions]

    assert asked("/a", 0, 7, 0) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert asked("/b", 0) == [ErrorCode.UNSUPPORTED_VERSION]
    assert asked("/c", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert asked("/nowhere", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
