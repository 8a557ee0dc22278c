"""The admin and who uses a cluster: groups, their offsets, transactions, on a real broker."""

from __future__ import annotations

import contextlib
import uuid

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from kafka_harness.kinds import kind_under_test
from kafka_harness.samples import fresh_topic
from kafka_harness.waiting import eventually
from moldau import Admin, OffsetAndMetadata, TopicPartition
from moldau.client.admin import (
    ConfigResource,
    OffsetSpec,
)
from moldau.client.errors import (
    GroupIdNotFound,
    GroupSubscribedToTopic,
    InvalidRequest,
    InvalidTransactionState,
    NonEmptyGroup,
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
def topic(admin):
    return admin.create_topic(fresh_topic("admin"), 2, 1).name


def fresh(kind):
    return f"{kind}-{uuid.uuid4().hex[:12]}"


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
