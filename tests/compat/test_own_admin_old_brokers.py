"""The admin held to the versions of an old broker: what works, and what says that it cannot."""

from __future__ import annotations

import uuid

import pytest

from kafka_harness.kinds import kind_under_test
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import send
from kafka_harness.waiting import eventually
from kits.admin_kit import VERSIONS_OF_1_1
from moldau import Admin, TopicPartition
from moldau.client.admin import (
    ConfigResource,
    ConfigSource,
    OffsetSpec,
)
from moldau.client.errors import (
    GroupIdNotFound,
    UnsupportedVersion,
)


@pytest.fixture
def old_admin(broker):
    if kind_under_test() == "kafka":
        pytest.skip("Kafka 4 does not speak to clients of 1.1 (KIP-896)")
    with Admin(broker.address, version_ceilings=VERSIONS_OF_1_1) as running:
        yield running


def fresh(kind):
    return f"{kind}-{uuid.uuid4().hex[:12]}"


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
    assert old_admin.describe_group(group_id).state == "Empty"
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
