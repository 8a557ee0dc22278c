"""Answers about topics, where clients and tools would see the difference to Kafka's."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from kits.metadata_samples import with_brokers
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.metadata import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopic,
    MetadataRequest,
    MetadataRequestTopic,
    TopicPartitionsCursor,
)
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.security.operations import TOPIC_OPERATIONS, bit_field
from moldau.server.handlers.discovery import DiscoveryHandlers
from moldau.server.handlers.topics import TopicHandlers
from moldau.server.handlers.transactions import TransactionHandlers
from moldau.server.topic_admin import TopicAdmin

STRANGE_ID = bytes(range(16))


class Decided:
    """The metadata of one broker, changed as soon as something is decided."""

    can_make_logs = True

    def __init__(self):
        self.image = with_brokers([1])
        for name in ("one", "two"):
            self.apply(create_topic(self.image, NewTopic(name, 3), TopicDefaults(), RANDOM))

    def apply(self, changes):
        self.image = self.image.apply(changes, self.image.version + 1)

    async def commit(self, decide):
        self.apply(decide(self.image))
        return self.image

    async def reached(self, version):
        pass


RANDOM = random.Random(4)


class Configs:
    """Topic configs of which all are right but those named `wrong`."""

    def check(self, configs):
        if "wrong" in configs:
            raise ApiError(ErrorCode.INVALID_CONFIG)

    def described(self, topic, configs):
        return []


@pytest.fixture
def decided():
    return Decided()


@pytest.fixture
def administration(decided):
    topics = TopicAdmin(decided, decided, TopicDefaults(), RANDOM)
    return TopicHandlers(lambda: decided.image, topics, Configs(), deletion_enabled=True)


@pytest.fixture
def discovery(decided):
    return DiscoveryHandlers(
        lambda: decided.image, 1, None, None, auto_create=False, partition_limit=2000
    )


def at(version):
    endpoint = SimpleNamespace(name="PLAINTEXT")
    return SimpleNamespace(version=version, connection=SimpleNamespace(endpoint=endpoint))


def create(administration, *topics):
    response = asyncio.run(administration.create_topics(CreateTopicsRequest(list(topics)), at(7)))
    return [(each.name, each.error_code) for each in response.topics]


def test_a_topic_named_twice_is_refused_once(administration):
    new = CreatableTopic("new", 1, 1)
    assert create(administration, new, new) == [("new", ErrorCode.INVALID_REQUEST)]
    request = CreatePartitionsRequest([CreatePartitionsTopic("one", 4, None)] * 2)
    grown = asyncio.run(administration.create_partitions(request, at(3)))
    assert [each.error_code for each in grown.results] == [ErrorCode.INVALID_REQUEST]
    deleted = asyncio.run(
        administration.delete_topics(DeleteTopicsRequest(topic_names=["one", "one"]), at(5))
    )
    assert [each.error_code for each in deleted.responses] == [ErrorCode.INVALID_REQUEST]


def test_a_name_is_looked_at_before_configs(administration):
    configs = [CreatableTopicConfig("wrong", "1")]
    assert create(
        administration,
        CreatableTopic("one", 1, 1, configs=configs),
        CreatableTopic("a/b", 1, 1, configs=configs),
        CreatableTopic("new", 0, 1, configs=configs),
    ) == [
        ("one", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("new", ErrorCode.INVALID_CONFIG),
    ]


def test_a_partition_assigned_twice_is_refused(administration):
    assigned = [CreatableReplicaAssignment(0, [1])] * 2
    assert create(administration, CreatableTopic("new", -1, -1, assigned)) == [
        ("new", ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    ]


def test_without_a_log_directory_nothing_is_made_and_what_is_wrong_is_still_told(
    decided, administration
):
    decided.can_make_logs = False
    assert create(administration, CreatableTopic("new", 1, 1), CreatableTopic("one", 1, 1)) == [
        ("new", ErrorCode.KAFKA_STORAGE_ERROR),
        ("one", ErrorCode.TOPIC_ALREADY_EXISTS),
    ]
    request = CreatePartitionsRequest([CreatePartitionsTopic("two", 4, None)])
    (grown,) = asyncio.run(administration.create_partitions(request, at(3))).results
    assert grown.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "new" not in decided.image.topics
    assert len(decided.image.topics["two"].partitions) == 3


def test_a_topic_to_delete_by_name_and_by_id_is_spared_and_the_others_go(decided, administration):
    topic_id = decided.image.topics["one"].id
    wanted = [
        DeleteTopicState("one"),
        DeleteTopicState(None, topic_id),
        DeleteTopicState("two"),
    ]
    response = asyncio.run(administration.delete_topics(DeleteTopicsRequest(wanted), at(6)))
    refused, deleted = response.responses
    assert (refused.name, refused.topic_id) == ("one", topic_id)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert (deleted.name, deleted.error_code) == ("two", 0)
    assert list(decided.image.topics) == ["one"]


def ask(discovery, version, *topics):
    request = MetadataRequest(list(topics), include_topic_authorized_operations=True)
    return discovery.metadata(request, at(version))


@pytest.mark.parametrize("version", [1, 9, 13])
def test_a_topic_asked_for_twice_is_told_once(discovery, version):
    response = ask(discovery, version, *[MetadataRequestTopic(name="one")] * 2)
    assert [each.name for each in response.topics] == ["one"]


@pytest.mark.parametrize(
    ("name", "code", "internal"),
    [
        ("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("", ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        ("__consumer_offsets", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
    ],
)
def test_what_a_name_tells_of_a_topic_that_is_not_there(discovery, name, code, internal):
    (topic,) = ask(discovery, 9, MetadataRequestTopic(name=name)).topics
    assert (topic.error_code, topic.is_internal) == (code, internal)
    assert topic.topic_authorized_operations == bit_field(TOPIC_OPERATIONS)


def test_ids_count_where_ids_and_names_are_given(decided, discovery):
    topic_id = decided.image.topics["two"].id
    by_both = MetadataRequestTopic(topic_id, "one")
    response = ask(discovery, 12, by_both, MetadataRequestTopic(name="one"))
    assert [(each.name, each.topic_id) for each in response.topics] == [("two", topic_id)]
    (unknown,) = ask(discovery, 12, MetadataRequestTopic(STRANGE_ID, None)).topics
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


@pytest.mark.parametrize("version", [10, 11])
def test_a_version_that_only_tells_ids_refuses_to_look_up_by_them(decided, discovery, version):
    topic_id = decided.image.topics["two"].id
    for wanted in (MetadataRequestTopic(topic_id, "two"), MetadataRequestTopic(name=None)):
        response = ask(discovery, version, wanted, MetadataRequestTopic(name="one"))
        assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
        assert response.brokers == []
    (known,) = ask(discovery, version, MetadataRequestTopic(ZERO_TOPIC_ID, "two")).topics
    assert known.topic_id == topic_id


@pytest.mark.parametrize(
    ("cursor", "told"),
    [
        (("two", 1), {"two": 0}),
        (("two", -1), {"one": ErrorCode.INVALID_REQUEST, "two": ErrorCode.INVALID_REQUEST}),
        (("three", 0), {"one": ErrorCode.INVALID_REQUEST, "two": ErrorCode.INVALID_REQUEST}),
    ],
)
def test_a_page_begins_in_a_topic_that_is_asked_for(discovery, cursor, told):
    topics = [DescribeTopicPartitionsTopic(name) for name in ("one", "two")]
    request = DescribeTopicPartitionsRequest(topics, 10, TopicPartitionsCursor(*cursor))
    response = discovery.describe_topic_partitions(request, at(0))
    assert {each.name: each.error_code for each in response.topics} == told


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        (1, ErrorCode.NONE),
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ],
)
def test_only_brokers_are_told(discovery, endpoint, code):
    response = discovery.describe_cluster(DescribeClusterRequest(False, endpoint), at(1))
    assert response.error_code == code


@pytest.mark.parametrize(
    "request_",
    [
        InitProducerIdRequest("", 1000),
        InitProducerIdRequest(None, 1000, producer_id=5),
        InitProducerIdRequest(None, 1000, producer_epoch=5),
    ],
)
def test_a_producer_that_says_half_of_what_it_knows_gets_no_id(request_):
    response = asyncio.run(
        TransactionHandlers(None, None, None, None).init_producer_id(request_, at(5))
    )
    assert (response.error_code, response.producer_id, response.producer_epoch) == (
        ErrorCode.INVALID_REQUEST,
        -1,
        -1,
    )
