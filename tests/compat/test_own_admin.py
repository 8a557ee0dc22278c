"""The admin against a real broker: Moldau, or Kafka where the suite runs on that."""

from __future__ import annotations

import contextlib
import threading
import uuid

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from admin_kit import VERSIONS_OF_1_1
from kafka_harness.kinds import kind_under_test
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import send
from kafka_harness.waiting import eventually
from leaks import run_without_leaks
from moldau import Admin, AsyncAdmin, OffsetAndMetadata, TopicPartition
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
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopic,
    InvalidTransactionState,
    NoBrokerReachable,
    NonEmptyGroup,
    OffsetOutOfRange,
    TopicAlreadyExists,
    TransactionalIdNotFound,
    UnknownMember,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.records.builder import BatchBuilder
from process.raw_client import RawClient

NOW_MS = 1_700_000_000_000
TOO_LONG_MS = 1 << 50
"""Nothing has been open for 36 thousand years."""
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def admin(broker):
    with Admin(broker.address, client_id="admin-test") as running:
        yield running


@pytest.fixture
def old_admin(broker):
    if kind_under_test() == "kafka":
        pytest.skip("Kafka 4 does not speak to clients of 1.1 (KIP-896)")
    with Admin(broker.address, version_ceilings=VERSIONS_OF_1_1) as running:
        yield running


@pytest.fixture
def topic(admin):
    return admin.create_topic(fresh_topic("admin"), 2, 1).name


def fresh(kind):
    return f"{kind}-{uuid.uuid4().hex[:12]}"


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
    assert admin.list_config_resources([ResourceType.CLIENT_METRICS]) == []


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


# Groups


@contextlib.contextmanager
def member(broker, group_id, topic, **settings):
    """Have a consumer of another library in a group, with partitions assigned."""
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": group_id, "client.id": "somebody",
         **settings}
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        eventually(lambda: consumer.poll(0.05) or consumer.assignment(), "partitions are assigned")
        yield
    finally:
        consumer.close()


def state_of(admin, group_id):
    return admin.describe_group(group_id).state


def test_a_group_with_members_is_shown_and_cannot_be_changed(broker, admin, topic):
    group_id = fresh("group")
    with member(broker, group_id, topic, **{"group.instance.id": "first"}):
        eventually(lambda: state_of(admin, group_id) == "Stable", "the group is stable")
        group = admin.describe_group(group_id)
        (only,) = group.members
        assert (group.type, group.protocol_type, group.coordinator) == ("classic", "consumer", 1)
        assert only.assignment == {(topic, 0), (topic, 1)}
        assert only.topics == {topic}
        assert (only.client_id, only.instance_id) == ("somebody", "first")
        assert only.host
        (listed,) = [one for one in admin.list_groups() if one.group_id == group_id]
        assert (listed.protocol_type, listed.state, listed.type) == (
            "consumer",
            "Stable",
            "classic",
        )
        stable = admin.list_groups(states=["Stable"], types=["classic"])
        assert group_id in {one.group_id for one in stable}
        assert group_id not in {one.group_id for one in admin.list_groups(states=["Empty"])}

        with pytest.raises(NonEmptyGroup):
            admin.delete_group(group_id)
        altered = admin.alter_group_offsets(group_id, {(topic, 0): 1})
        assert isinstance(altered.errors[topic, 0], UnknownMember)
        deleted = admin.delete_group_offsets(group_id, [(topic, 0)])
        assert isinstance(deleted.errors[topic, 0], GroupSubscribedToTopic)


def test_members_are_sent_away(broker, admin, topic):
    group_id = fresh("group")
    with member(broker, group_id, topic, **{"group.instance.id": "first"}):
        results = admin.remove_members(group_id, instance_ids=["nobody"], member_ids=["nothing"])
        assert {type(error) for error in results.errors.values()} == {UnknownMember}
        assert admin.remove_members(group_id, instance_ids=["first"]).ok == {"first": None}
    again = fresh("group")
    with member(broker, again, topic):
        eventually(lambda: state_of(admin, again) == "Stable", "the group is stable")
        (member_id,) = admin.remove_all_members(again).ok
        assert member_id.startswith("somebody")


def test_a_group_whose_broker_assigns_is_described(broker, admin, topic):
    if kind_under_test() != "kafka":
        pytest.skip("only Kafka 4 serves the consumer group protocol by default (KIP-848)")
    group_id = fresh("group")
    with member(broker, group_id, topic, **{"group.protocol": "consumer"}):
        eventually(lambda: state_of(admin, group_id) == "Stable", "the group is stable")
        group = admin.describe_group(group_id)
        assert (group.type, group.assignor) == ("consumer", "uniform")
        assert group.members[0].assignment == {(topic, 0), (topic, 1)}
        assert group.members[0].target_assignment == {(topic, 0), (topic, 1)}
        assert group.epoch


def test_offsets_of_groups_are_committed_read_and_forgotten(admin, topic):
    group_id, other = fresh("group"), fresh("group")
    results = admin.alter_group_offsets(
        group_id,
        {(topic, 0): 5, (topic, 1): OffsetAndMetadata(6, "note", 0), ("nobody", 0): 1},
    )
    assert isinstance(results.errors["nobody", 0], UnknownTopicOrPartition)
    kept = {(topic, 0): OffsetAndMetadata(5), (topic, 1): OffsetAndMetadata(6, "note", 0)}
    assert admin.list_group_offsets(group_id) == kept
    assert admin.list_group_offsets(group_id, [(topic, 0), (topic, 9)]) == {
        (topic, 0): OffsetAndMetadata(5)
    }
    assert admin.list_group_offsets(group_id, require_stable=True) == kept
    assert admin.list_offsets_of_groups([group_id, other]).or_raise() == {group_id: kept, other: {}}

    assert admin.delete_group_offsets(group_id, [(topic, 0)]).ok == {(topic, 0): None}
    assert set(admin.list_group_offsets(group_id)) == {(topic, 1)}
    deleted = admin.delete_groups([group_id, other])
    assert set(deleted.ok) == {group_id}
    assert isinstance(deleted.errors[other], GroupIdNotFound)
    with pytest.raises(GroupIdNotFound, match=group_id):
        admin.describe_group(group_id)


# Transactions


def transactional(broker, topic, transactional_id):
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": transactional_id})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    producer.flush(30)
    return producer


def test_an_open_transaction_is_shown_and_its_producer_fenced(broker, admin, topic):
    transactional_id, partition = fresh("copier"), TopicPartition(topic, 1)
    producer = transactional(broker, topic, transactional_id)
    found = admin.describe_transactions([transactional_id, "nobody"])
    described = found[transactional_id]
    assert (described.state, described.timeout_ms, described.coordinator) == ("Ongoing", 60_000, 1)
    assert described.partitions == {partition}
    assert described.start_time_ms
    assert isinstance(found.errors["nobody"], TransactionalIdNotFound)
    (listed,) = admin.list_transactions(producer_ids=[described.producer_id])
    assert (listed.transactional_id, listed.state) == (transactional_id, "Ongoing")
    ongoing = admin.list_transactions(states=["Ongoing"], min_duration_ms=0)
    assert transactional_id in {one.transactional_id for one in ongoing}
    assert admin.list_transactions(min_duration_ms=3_600_000, states=["Ongoing"]) == []
    with pytest.raises(InvalidRequest, match="Nonsense"):
        admin.list_transactions(states=["Nonsense"])

    results = admin.describe_producers([partition, ("nobody", 0)])
    (active,) = results[partition]
    assert active.producer_id == described.producer_id
    assert active.transaction_start_offset == 0
    assert isinstance(results.errors["nobody", 0], UnknownTopicOrPartition)
    assert admin.describe_producers([partition], broker_id=1)[partition] == (active,)
    assert admin.find_hanging_transactions([partition], max_transaction_timeout_ms=0) == []

    fenced = admin.fence_producers([transactional_id])[transactional_id]
    assert fenced.producer_epoch > described.producer_epoch
    with pytest.raises(KafkaException):
        producer.commit_transaction(10)
    eventually(
        lambda: (
            admin.describe_producers([partition])[partition][0].transaction_start_offset is None
        ),
        "what was open is aborted",
    )
    assert admin.describe_transaction(transactional_id).state != "Ongoing"


def test_transactions_are_listed_by_a_pattern_where_the_broker_can(admin):
    admin.fence_producer(name := fresh("pattern"))
    if kind_under_test() == "kafka-3.9":
        with pytest.raises(UnsupportedVersion, match="needs version 2"):
            admin.list_transactions(pattern="pattern-.*")
    else:
        found = admin.list_transactions(pattern="pattern-.*")
        assert name in {one.transactional_id for one in found}


def test_a_transaction_that_hangs_is_found_and_aborted(broker, admin, topic):
    partition, name = TopicPartition(topic, 0), fresh("hanging")
    everywhere = ConfigResource.broker()
    admin.alter_config(everywhere, {VERIFICATION: "false"})
    eventually(
        lambda: admin.describe_config(ConfigResource.broker(1))[VERIFICATION].value == "false",
        "brokers let it begin",
    )
    try:
        leave_hanging(broker, partition, name, admin.fence_producer(name))
    finally:
        admin.alter_config(everywhere, {VERIFICATION: None})
    assert partition not in {
        one.partition
        for one in admin.find_hanging_transactions(max_transaction_timeout_ms=TOO_LONG_MS)
    }
    (hanging,) = admin.find_hanging_transactions([partition])
    assert (hanging.partition, hanging.transactional_id) == (partition, name)
    assert hanging in admin.find_hanging_transactions()
    with pytest.raises(InvalidTransactionState, match="offset 7"):
        admin.abort_hanging_transaction(partition, 7)
    admin.abort_hanging_transaction(partition, hanging.producer.transaction_start_offset)
    assert admin.find_hanging_transactions([partition]) == []
    stable = admin.list_offsets({partition: OffsetSpec.LATEST}, isolation_level="read_committed")
    assert stable[partition].offset == 2


def leave_hanging(broker, partition, name, identity):
    """Write in a transaction without telling its coordinator, as clients before KIP-890 could."""
    with RawClient((broker.host, broker.port)) as client:
        builder = BatchBuilder(**identity._asdict(), base_sequence=0, transactional=True)
        builder.append(NOW_MS, b"k", b"v")
        data = [PartitionProduceData(partition.partition, builder.build())]
        request = ProduceRequest(
            name, -1, 10_000, [TopicProduceData(partition.topic, partition_data=data)]
        )
        answer = client.call(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


# Old brokers


def test_the_versions_of_kafka_1_1_do_for_topics_and_configs(broker, old_admin):
    name = fresh_topic("old")
    made = old_admin.create_topic(name, 2, 1)
    assert made.topic_id is None
    old_admin.create_partitions(name, 3)
    assert old_admin.list_topics()[name].topic_id is None
    described = old_admin.describe_topic(name)
    assert [one.leader for one in described.partitions] == [1, 1, 1]
    assert described.partitions[0].leader_epoch is None
    send(broker.address, name, [b"1", b"2"])
    assert old_admin.delete_records({(name, 0): 1}).or_raise() == {(name, 0): 1}
    found = old_admin.list_offsets({(name, 0): OffsetSpec.LATEST, (name, 1): OffsetSpec.EARLIEST})
    assert [one.offset for one in found.or_raise().values()] == [2, 0]
    resource = ConfigResource.topic(name)
    old_admin.replace_configs({resource: {"retention.ms": "1000"}}).or_raise()
    eventually(
        lambda: old_admin.describe_config(resource)["retention.ms"].value == "1000",
        "it is in force",
    )
    assert old_admin.describe_cluster().brokers[0].broker_id == 1
    assert (name, 0) in old_admin.describe_log_dirs()[1][0].replicas
    old_admin.delete_topic(name)
    assert name not in old_admin.list_topics()


def test_the_first_brokers_with_configs_told_only_whether_a_value_was_a_default(broker, old_admin):
    if kind_under_test() != "moldau":
        pytest.skip("later Kafka says in version 0 that no value is a default")
    name = fresh_topic("old")
    old_admin.create_topic(name, 1, 1, configs={"retention.ms": "5"})
    with Admin(broker.address, version_ceilings={32: 0}) as older:
        entries = older.describe_config(ConfigResource.topic(name))
        assert entries["retention.ms"].source is ConfigSource.TOPIC
        assert entries["segment.ms"].is_default
        assert entries["segment.ms"].documentation is None
        of_broker = older.describe_config(ConfigResource.broker(1))
        assert of_broker["log.dirs"].source is ConfigSource.STATIC_BROKER


def test_the_versions_of_kafka_1_1_do_for_groups(old_admin):
    topic, group_id = old_admin.create_topic(fresh_topic("old"), 1, 1).name, fresh("old")
    old_admin.alter_group_offsets(group_id, {(topic, 0): 3}).or_raise()
    assert old_admin.list_group_offsets(group_id)[TopicPartition(topic, 0)].offset == 3
    assert state_of(old_admin, group_id) == "Empty"
    (listed,) = [one for one in old_admin.list_groups() if one.group_id == group_id]
    assert (listed.state, listed.type) == (None, None)
    old_admin.delete_group(group_id)
    with pytest.raises(GroupIdNotFound):
        old_admin.describe_group(group_id)
    assert old_admin.fence_producer(group_id).producer_epoch >= 0


def test_what_a_broker_of_1_1_cannot_do_says_so(old_admin):
    resource = ConfigResource.topic("t")
    refused = [
        lambda: old_admin.create_topic("t"),
        lambda: old_admin.delete_topic(bytes(16)),
        lambda: old_admin.describe_topic(bytes(16)),
        lambda: old_admin.alter_config(resource, {"a": "b"}),
        old_admin.list_config_resources,
        lambda: old_admin.describe_cluster(include_fenced=True),
        old_admin.describe_features,
        lambda: old_admin.list_groups(states=["Empty"]),
        lambda: old_admin.list_group_offsets("g", require_stable=True),
        lambda: old_admin.delete_group_offsets("g", [("t", 0)]).or_raise(),
        lambda: old_admin.remove_members("g", instance_ids=["a"]).or_raise(),
        old_admin.list_transactions,
        lambda: old_admin.describe_transaction("t"),
    ]
    for call in refused:
        with pytest.raises(UnsupportedVersion):
            call()


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
        Admin("127.0.0.1:1").start()
    assert not any(one.name == "moldau-admin" for one in threading.enumerate())
