"""The admin against a real broker: Moldau, or Kafka where the suite runs on that.

Groups and transactions are in `test_own_admin_groups`, what old brokers can do in
`test_own_admin_old_brokers`.
"""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer

from kafka_harness.kinds import kind_under_test
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import send
from kafka_harness.waiting import eventually
from kits.leaks import run_without_leaks
from moldau import Admin, AsyncAdmin, TopicPartition
from moldau.client.admin import (
    END,
    Append,
    ConfigResource,
    ConfigSource,
    ConfigType,
    NewTopic,
    OffsetSpec,
    ResourceType,
    Subtract,
)
from moldau.client.errors import (
    BrokerError,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidTopic,
    NoBrokerReachable,
    OffsetOutOfRange,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)

NOW_MS = 1_700_000_000_000


@pytest.fixture
def admin(broker):
    with Admin(broker.address, client_id="admin-test") as running:
        yield running


@pytest.fixture
def topic(admin):
    return admin.create_topic(fresh_topic("admin"), 2, 1).name


# Topics


def test_topics_are_created_found_and_deleted_by_name_and_id(admin):
    name, other = fresh_topic("admin"), fresh_topic("admin")
    made = admin.create_topic(name, 3, 1, configs={"retention.ms": "1000"})
    assert (made.name, made.partitions, made.replication_factor) == (name, 3, 1)
    assert made.configs["retention.ms"] == "1000"
    chosen = admin.create_topic(other)
    assert chosen.partitions == 1

    listed = admin.list_topics()
    assert listed[name].topic_id == made.topic_id
    assert listed[name].partition_count == 3
    described = admin.describe_topics([name, chosen.topic_id, "nobody", bytes(15) + b"\1"])
    assert [one.leader for one in described[name].partitions] == [1, 1, 1]
    assert described[name].partitions[2].isr == (1,)
    assert described[chosen.topic_id].name == other
    with pytest.raises(UnknownTopicOrPartition, match="nobody"):
        described["nobody"]
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_ID"):
        described[bytes(15) + b"\1"]

    deleted = admin.delete_topics([name, chosen.topic_id, "nobody"])
    assert set(deleted.ok) == {name, chosen.topic_id}
    assert isinstance(deleted.errors["nobody"], UnknownTopicOrPartition)
    eventually(lambda: {name, other}.isdisjoint(admin.list_topics()), "the topics are gone")


def test_each_topic_that_cannot_be_created_says_why(admin, topic):
    results = admin.create_topics(
        [
            NewTopic(topic, 1, 1),
            NewTopic("not a name", 1, 1),
            NewTopic(fresh_topic("a"), 0, 1),
            NewTopic(fresh_topic("b"), 1, 9),
            NewTopic(fresh_topic("c"), 1, 1, {"no.such.config": "1"}),
            NewTopic(good := fresh_topic("d"), assignments={0: [1], 1: [1]}),
        ]
    )
    assert [type(error) for error in results.errors.values()] == [
        TopicAlreadyExists,
        InvalidTopic,
        InvalidPartitions,
        InvalidReplicationFactor,
        InvalidConfig,
    ]
    assert results[good].partitions == 2
    with pytest.raises(ValueError, match="twice"):
        admin.create_topics([NewTopic("x"), NewTopic("x")])


def test_a_topic_is_validated_without_being_created(admin):
    name = fresh_topic("admin")
    assert admin.create_topic(name, 5, 1, validate_only=True).partitions == 5
    assert name not in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartition):
        admin.describe_topic(name)
    assert name not in admin.list_topics()


def test_a_topic_is_enlarged_and_never_made_smaller(admin, topic):
    admin.create_partitions(topic, 4, validate_only=True)
    admin.create_partitions(topic, 3, assignments=[[1]])
    assert len(admin.describe_topic(topic).partitions) == 3
    results = admin.create_partitions_of({topic: 2, "nobody": 4})
    assert isinstance(results.errors[topic], InvalidPartitions)
    assert isinstance(results.errors["nobody"], UnknownTopicOrPartition)


# Records and offsets


def test_offsets_are_listed_by_every_question_the_broker_knows(broker, admin, topic):
    producer = Producer({"bootstrap.servers": broker.address})
    for index, time_ms in enumerate((10, 50, 30)):
        producer.produce(topic, b"%d" % index, partition=0, timestamp=NOW_MS + time_ms)
        producer.flush(30)
    questions = {
        OffsetSpec.EARLIEST: 0,
        OffsetSpec.LATEST: 3,
        OffsetSpec.MAX_TIMESTAMP: 1,
        OffsetSpec.EARLIEST_LOCAL: 0,
        NOW_MS + 11: 1,
        NOW_MS + 51: None,
    }
    for question, offset in questions.items():
        found = admin.list_offsets({(topic, 0): question}, isolation_level="read_committed")
        assert found[TopicPartition(topic, 0)].offset == offset, question
    assert admin.list_offsets({(topic, 0): NOW_MS})[TopicPartition(topic, 0)].timestamp_ms == (
        NOW_MS + 10
    )
    mixed = admin.list_offsets({(topic, 1): -1, (topic, 7): -1, ("nobody", 0): -2})
    assert set(mixed.ok) == {(topic, 1)}
    assert {type(error) for error in mixed.errors.values()} == {UnknownTopicOrPartition}
    with pytest.raises(ValueError, match="-7"):
        admin.list_offsets({(topic, 0): -7})


def test_records_are_deleted_up_to_an_offset(broker, admin, topic):
    send(broker.address, topic, [b"%d" % index for index in range(10)])
    assert admin.delete_records({(topic, 0): 4}).or_raise() == {(topic, 0): 4}
    first = admin.list_offsets({(topic, 0): OffsetSpec.EARLIEST})
    assert first[TopicPartition(topic, 0)].offset == 4
    results = admin.delete_records({(topic, 0): 11, (topic, 1): END, ("nobody", 0): 1})
    assert results[TopicPartition(topic, 1)] == 0
    assert isinstance(results.errors[topic, 0], OffsetOutOfRange)
    assert isinstance(results.errors["nobody", 0], UnknownTopicOrPartition)
    assert admin.delete_records({(topic, 0): END})[TopicPartition(topic, 0)] == 10


# Configs


def test_configs_are_read_with_where_they_come_from(admin, topic):
    resource = ConfigResource.topic(topic)
    entries = admin.describe_config(resource, include_synonyms=True, include_documentation=True)
    retention = entries["retention.ms"]
    assert (retention.value, retention.source) == ("604800000", ConfigSource.DEFAULT)
    assert retention.is_default
    assert retention.type is ConfigType.LONG
    assert retention.documentation
    (synonym,) = entries["segment.bytes"].synonyms
    assert synonym == ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT)
    only = admin.describe_config(resource, names=["retention.ms"])
    assert set(only) == {"retention.ms"}
    results = admin.describe_configs([ConfigResource.broker(1), ConfigResource.topic("nobody")])
    assert results[ConfigResource.broker(1)]["log.dirs"].value
    assert isinstance(results.errors[ConfigResource.topic("nobody")], UnknownTopicOrPartition)


def test_single_configs_are_changed_and_the_others_left_alone(admin, topic):
    resource = ConfigResource.topic(topic)

    def values():
        entries = admin.describe_config(resource)
        return [entries[name].value for name in ("cleanup.policy", "retention.ms", "segment.ms")]

    admin.alter_config(resource, {"retention.ms": "1000", "segment.ms": "5000"})
    admin.alter_config(resource, {"cleanup.policy": Append("compact"), "segment.ms": None})
    eventually(lambda: values() == ["delete,compact", "1000", "604800000"], "both are in force")
    admin.alter_config(resource, {"cleanup.policy": Subtract("delete")})
    eventually(lambda: values()[0] == "compact", "the list is shorter")
    admin.alter_config(resource, {"retention.ms": "7"}, validate_only=True)
    assert values()[1] == "1000"

    admin.replace_configs({resource: {"segment.ms": "9000"}}).or_raise()
    eventually(lambda: values() == ["delete", "604800000", "9000"], "all are replaced")
    results = admin.alter_configs(
        {resource: {"retention.ms": "soon"}, ConfigResource.topic("nobody"): {"segment.ms": "1"}}
    )
    assert isinstance(results.errors[resource], InvalidConfig)
    assert isinstance(results.errors[ConfigResource.topic("nobody")], UnknownTopicOrPartition)


def test_configs_of_brokers_are_changed_for_one_and_for_all(admin):
    name = "log.cleaner.threads"
    for resource, source in (
        (ConfigResource.broker(), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (ConfigResource.broker(1), ConfigSource.DYNAMIC_BROKER),
    ):
        admin.alter_config(resource, {name: "2"})
        eventually(
            lambda source=source: (
                admin.describe_config(ConfigResource.broker(1))[name].source is source
            ),
            "it is in force",
        )
        admin.alter_config(resource, {name: None})
    eventually(
        lambda: admin.describe_config(ConfigResource.broker(1))[name].is_default, "it is undone"
    )


def test_resources_with_configs_are_listed(admin, topic):
    if kind_under_test() == "kafka-3.9":
        with pytest.raises(UnsupportedVersion, match="needs version 1"):
            admin.list_config_resources()
    else:
        listed = admin.list_config_resources()
        assert {ConfigResource.topic(topic), ConfigResource.broker(1)} <= set(listed)
        assert ConfigResource.topic(topic) in admin.list_config_resources([ResourceType.TOPIC])
    # Others may have made some on this broker.
    metrics = admin.list_config_resources([ResourceType.CLIENT_METRICS])
    assert {one.type for one in metrics} <= {ResourceType.CLIENT_METRICS}


# The cluster


def test_the_cluster_is_described(broker, admin, topic):
    cluster = admin.describe_cluster()
    (one,) = cluster.brokers
    assert (one.broker_id, f"{one.host}:{one.port}") == (1, broker.address)
    assert cluster.controller_id == 1
    assert cluster.cluster_id
    features = admin.describe_features()
    level = features.finalized["metadata.version"].last
    assert level <= features.supported["metadata.version"].last
    versions = admin.describe_api_versions()[1]
    assert versions[0].name == "Produce"
    assert versions[3].first <= versions[3].last


def test_what_lies_on_the_disks_is_described(broker, admin, topic):
    send(broker.address, topic, [b"x" * 100])
    (directory,) = admin.describe_log_dirs()[1]
    assert directory.error is None
    assert directory.replicas[TopicPartition(topic, 0)].size > 100
    assert directory.replicas[TopicPartition(topic, 1)].size == 0
    assert 0 < directory.usable_bytes <= directory.total_bytes
    (directory,) = admin.describe_log_dirs([1], partitions=[(topic, 0)])[1]
    assert set(directory.replicas) == {(topic, 0)}
    with pytest.raises(BrokerError, match="no broker 5"):
        admin.describe_log_dirs([5])[5]


# Ways to use it


def test_asyncio_does_the_same_and_leaves_nothing_behind(broker):
    name = fresh_topic("async")

    async def scenario():
        async with AsyncAdmin(broker.address) as admin:
            await admin.create_topic(name, 2, 1)
            assert len((await admin.describe_topic(name)).partitions) == 2
            await admin.delete_topic(name)
            with pytest.raises(UnknownTopicOrPartition):
                await admin.delete_topic(name)

    run_without_leaks(scenario())


def test_threads_share_an_admin(admin):
    names = [fresh_topic("thread") for _ in range(4)]
    threads = [threading.Thread(target=admin.create_topic, args=(name, 1, 1)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(names) <= set(admin.list_topics())


def test_nobody_there_is_said_at_once_and_leaves_no_thread():
    with pytest.raises(NoBrokerReachable):
        Admin("127.0.0.1:1", bootstrap_timeout_ms=0).start()
    assert not any(one.name == "moldau-admin" for one in threading.enumerate())
