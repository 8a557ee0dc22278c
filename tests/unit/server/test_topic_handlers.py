"""Answers about topics, where clients and tools would see the difference to Kafka's."""

from __future__ import annotations

import asyncio
import random

import pytest

from kits.metadata_samples import with_brokers
from kits.request_kit import context as at
from kits.slicing import answered, count_pauses, count_turns, finished
from moldau.base.clock import SystemClock
from moldau.base.ids import ZERO_TOPIC_ID
from moldau.cluster.controller import Controller
from moldau.cluster.features import KraftLevels
from moldau.cluster.topics import NewTopic, TopicDefaults, create_topic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.metadata import (
    ApiVersionsRequest,
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
from moldau.server.handlers.api_versions import ApiVersionsHandler
from moldau.server.handlers.discovery import DiscoveryHandlers
from moldau.server.handlers.topics import TopicHandlers
from moldau.server.handlers.transactions import TransactionHandlers
from moldau.server.lifecycle.topic_admin import TopicAdmin
from moldau.server.network.repeats import sort

STRANGE_ID = bytes(range(16))
DEFAULTS = TopicDefaults()


class Decided:
    """The metadata store of one broker, which stores nothing, and what follows it."""

    can_make_logs = True
    epoch = 1

    def __init__(self):
        self.image = with_brokers([1])
        for name in ("one", "two"):
            self.apply(create_topic(self.image, NewTopic(name, 3), TopicDefaults(), RANDOM))

    def apply(self, changes):
        self.image = self.image.apply(changes, self.image.version + 1)

    async def claim(self):
        return self

    def on_lost(self, callback):
        pass

    async def commit(self, expected_version, changes):
        self.apply(changes)
        return self.image.version

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
    return TopicHandlers(
        lambda: decided.image, topics_of(decided), Configs(), deletion_enabled=True
    )


def topics_of(decided):
    controller = Controller(
        decided, DEFAULTS, None, RANDOM, lambda: decided.can_make_logs, SystemClock()
    )
    asyncio.run(controller.claim())
    return TopicAdmin(controller, lambda: decided.image, decided)


@pytest.fixture
def discovery(decided):
    return DiscoveryHandlers(
        lambda: decided.image,
        lambda: 1,
        None,
        None,
        auto_create=False,
        partition_limit=2000,
    )


def create(administration, *topics):
    response = answered(administration.create_topics(CreateTopicsRequest(list(topics)), at(7)))
    return [(each.name, each.error_code) for each in response.topics]


def test_a_topic_named_twice_is_refused_once(administration):
    new = CreatableTopic("new", 1, 1)
    assert create(administration, new, new) == [("new", ErrorCode.INVALID_REQUEST)]
    request = CreatePartitionsRequest([CreatePartitionsTopic("one", 4, None)] * 2)
    grown = answered(administration.create_partitions(request, at(3)))
    assert [each.error_code for each in grown.results] == [ErrorCode.INVALID_REQUEST]
    deleted = answered(
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
    for validate_only in (True, False):
        request = CreatePartitionsRequest(
            [CreatePartitionsTopic("two", 4, None)], validate_only=validate_only
        )
        (grown,) = answered(administration.create_partitions(request, at(3))).results
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
    response = answered(administration.delete_topics(DeleteTopicsRequest(wanted), at(6)))
    refused, deleted = response.responses
    assert (refused.name, refused.topic_id) == ("one", topic_id)
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    assert (deleted.name, deleted.error_code) == ("two", 0)
    assert list(decided.image.topics) == ["one"]


def ask(discovery, version, *topics):
    request = MetadataRequest(list(topics), include_topic_authorized_operations=True)
    return finished(discovery.metadata(request, at(version)))


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
    response = finished(discovery.describe_topic_partitions(request, at(0)))
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
    ("version", "name", "kept"),
    [(3, "librdkafka", ("librdkafka", "2.8.0")), (3, "-no name-", ("", "")), (2, "x", ("", ""))],
)
def test_a_session_knows_the_library_that_its_client_has_named(decided, version, name, kept):
    asked = at(version)
    handler = ApiVersionsHandler(lambda: decided.image, 1, lambda: KraftLevels(0, 0))
    handler(ApiVersionsRequest(name, "2.8.0"), asked)
    session = asked.session
    assert (session.client_software_name, session.client_software_version) == kept


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


class TestRepeats:
    """What one request names again and again."""

    def test_a_topic_to_delete_by_one_id_twice_is_refused_once(self, decided, administration):
        topic_id = decided.image.topics["one"].id
        wanted = [DeleteTopicState(None, topic_id)] * 1000 + [DeleteTopicState(None)] * 1000
        wanted += [DeleteTopicState("two", topic_id)] * 1000
        response = answered(administration.delete_topics(DeleteTopicsRequest(wanted), at(6)))
        assert [(one.error_code, one.error_message) for one in response.responses] == [
            (ErrorCode.INVALID_REQUEST, "Duplicate topic id."),
            (ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
            (ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        ]
        assert set(decided.image.topics) == {"one", "two"}

    def test_metadata_of_one_name_or_id_is_told_once(self, decided, discovery):
        topic_id = decided.image.topics["two"].id
        for wanted in (MetadataRequestTopic(name="two"), MetadataRequestTopic(topic_id, None)):
            response = ask(discovery, 13, *[wanted] * 1000)
            assert [each.name for each in response.topics] == ["two"]
        response = ask(discovery, 10, *[MetadataRequestTopic(topic_id, None)] * 1000)
        assert [each.error_code for each in response.topics] == [ErrorCode.INVALID_REQUEST]


TOO_MANY = 10_001


class TestAmounts:
    """Requests for more than one turn of the loop can do, or than one batch can hold."""

    @pytest.mark.parametrize(
        "topics",
        [
            [CreatableTopic(f"t{number}", 1, 1) for number in range(TOO_MANY)],
            [CreatableTopic("t", TOO_MANY, 1)],
            [CreatableTopic("t", 5_000, 1), CreatableTopic("u", 5_001, 1)],
        ],
    )
    def test_too_many_topics_or_partitions_are_refused_as_a_whole(
        self, decided, administration, topics
    ):
        created = create(administration, *topics)
        assert created == [(topic.name, ErrorCode.POLICY_VIOLATION) for topic in topics]
        assert set(decided.image.topics) == {"one", "two"}

    def test_too_many_to_delete_or_to_grow_are_refused_as_a_whole(self, decided, administration):
        names = ["one", *(f"t{number}" for number in range(TOO_MANY))]
        request = DeleteTopicsRequest(topic_names=names)
        deleted = answered(administration.delete_topics(request, at(5))).responses
        grown = answered(
            administration.create_partitions(
                CreatePartitionsRequest([CreatePartitionsTopic(name, 9, None) for name in names]),
                at(3),
            )
        ).results
        for results in (deleted, grown):
            assert {one.error_code for one in results} == {ErrorCode.POLICY_VIOLATION}
            assert [one.name for one in results] == names
        assert len(decided.image.topics["one"].partitions) == 3

    def test_each_topic_has_a_turn_of_its_own(self, administration):
        wrong = [f"t/{number}" for number in range(100)]
        new = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in wrong])
        grown = CreatePartitionsRequest([CreatePartitionsTopic(name, 4, None) for name in wrong])
        gone = DeleteTopicsRequest(topic_names=wrong)
        for work in (
            administration.create_topics(new, at(7)),
            administration.create_partitions(grown, at(3)),
            administration.delete_topics(gone, at(5)),
        ):
            assert asyncio.run(count_turns(finished(work))) >= 100

    def test_metadata_may_be_paused_at_each_topic_and_within_a_large_one(self, decided, discovery):
        request = MetadataRequest([MetadataRequestTopic(name=f"t{n}") for n in range(100)])
        assert count_pauses(discovery.metadata(request, at(13))) >= 100
        decided.apply(create_topic(decided.image, NewTopic("large", 1_000), DEFAULTS, RANDOM))
        assert count_pauses(discovery.metadata(MetadataRequest(None), at(13))) >= 12

    def test_a_page_may_be_paused_at_each_topic_and_within_a_large_one(self, decided, discovery):
        decided.apply(create_topic(decided.image, NewTopic("large", 1_000), DEFAULTS, RANDOM))
        request = DescribeTopicPartitionsRequest(response_partition_limit=2000)
        assert count_pauses(discovery.describe_topic_partitions(request, at(0))) >= 12

    def test_metadata_is_of_one_moment(self, decided, discovery):
        work = discovery.metadata(MetadataRequest(None), at(13))
        next(work)
        decided.apply(create_topic(decided.image, NewTopic("late"), DEFAULTS, RANDOM))
        assert [each.name for each in finished(work).topics] == ["one", "two"]


class TestCreatingByAsking:
    """Metadata that creates what is missing."""

    def test_too_many_missing_topics_are_not_created(self, decided):
        creating = DiscoveryHandlers(
            lambda: decided.image,
            lambda: 1,
            topics_of(decided),
            None,
            auto_create=True,
            partition_limit=2000,
        )
        few = [MetadataRequestTopic(name=name) for name in ("new", "one", "a/b")]
        response = answered(creating.metadata(MetadataRequest(few), at(9)))
        assert [(each.name, each.error_code) for each in response.topics] == [
            ("new", 0),
            ("one", 0),
            ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]
        many = [MetadataRequestTopic(name=f"t{number}") for number in range(TOO_MANY)]
        response = answered(creating.metadata(MetadataRequest(many), at(9)))
        codes = {each.error_code for each in response.topics}
        assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert set(decided.image.topics) == {"one", "two", "new"}


def test_many_topics_asked_for_are_sorted_in_parts(discovery):
    names = [f"t{number}" for number in range(10_000)]
    request = DescribeTopicPartitionsRequest(
        [DescribeTopicPartitionsTopic(name) for name in reversed(names)]
    )
    work = discovery.describe_topic_partitions(request, at(0))
    assert [topic.name for topic in finished(work).topics] == sorted(names)
    assert count_pauses(sort(names)) == 10
