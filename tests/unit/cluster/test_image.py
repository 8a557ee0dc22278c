"""An image is what its changes add up to, never changes itself, and shares what it can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import every_change, topic_id, with_brokers, with_topic
from moldau.base.errors import InvariantViolated
from moldau.base.ids import PartitionKey
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    ConfigChanged,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Partition, ResourceType
from moldau.cluster.topics import NewTopic


def one_partition(index=0, replicas=(1,), leader=1):
    return Partition(index, replicas, replicas, leader)


def test_topics_are_found_by_name_and_by_id():
    image = with_topic(with_brokers([1]), NewTopic("a", 2))
    topic = image.topic("a")
    assert image.topic_by_id(topic.id) is topic
    assert image.partition(PartitionKey("a", 1)) is topic.partitions[1]
    for missing in (PartitionKey("a", 2), PartitionKey("a", -1), PartitionKey("b", 0)):
        assert image.partition(missing) is None
    assert image.topic("b") is None
    assert image.topic_by_id(topic_id(99)) is None


def test_an_image_stays_as_it_was_when_the_next_is_made():
    before = with_topic(with_brokers([1]), NewTopic("a", 2))
    partitions, topics = before.topic("a").partitions, dict(before.topics)
    changes = [
        PartitionChanged(before.topic("a").id, 0, isr=()),
        TopicCreated("b", topic_id(2)),
        BrokerChanged(1, before.brokers[1].epoch, fenced=True),
        ConfigChanged(ConfigResource(ResourceType.TOPIC, "a"), "k", "v"),
    ]
    after = before.apply(changes, 100)
    assert before.topic("a").partitions == partitions
    assert dict(before.topics) == topics
    assert before.brokers[1].active
    assert not before.topic_config("a")
    assert after.topic("a").partitions[0].isr == ()
    assert after.version == 100


def test_what_was_not_touched_is_shared():
    before = with_topic(with_topic(with_brokers([1]), NewTopic("a", 2)), NewTopic("b", 1))
    after = before.apply([PartitionChanged(before.topic("a").id, 0, isr=())], 50)
    assert after.topic("b") is before.topic("b")
    assert after.topic("a").partitions[1] is before.topic("a").partitions[1]
    assert after.brokers is before.brokers
    assert after.configs is before.configs
    assert after.topic_names is before.topic_names


def test_only_naming_a_leader_raises_the_leader_epoch():
    image = with_topic(with_brokers([1]), NewTopic("a", 1))
    topic = image.topic("a").id
    image = image.apply([PartitionChanged(topic, 0, isr=(1,))], image.version + 1)
    assert image.topic("a").partitions[0].leader_epoch == 0
    assert image.topic("a").partitions[0].partition_epoch == 1
    image = image.apply([PartitionChanged(topic, 0, leader=1)], image.version + 1)
    assert image.topic("a").partitions[0].leader_epoch == 1
    assert image.topic("a").partitions[0].partition_epoch == 2


def test_a_removed_topic_takes_its_configs_with_it_and_frees_its_name():
    brokers = with_brokers([1])
    image = with_topic(brokers, NewTopic("a.b", 2, configs={"retention.ms": "1"}))
    image = image.apply([TopicRemoved(image.topic("a.b").id)], image.version + 1)
    assert image == replace(brokers, version=image.version)
    assert with_topic(image, NewTopic("a_b", 1)).topic("a_b")


def test_a_topic_created_grown_and_removed_in_one_step_leaves_nothing():
    changes = [
        TopicCreated("a", topic_id(1)),
        PartitionCreated(topic_id(1), one_partition()),
        TopicRemoved(topic_id(1)),
    ]
    assert MetadataImage().apply(changes, 0) == MetadataImage()


def test_sums_follow_the_partitions():
    image = with_brokers([1, 2])
    image = with_topic(image, NewTopic("a", 3))
    image = with_topic(image, NewTopic("b", 1))
    assert image.partition_count == 4
    assert image.preferred_leaders == {1: 2, 2: 2}
    moved = PartitionChanged(image.topic("a").id, 0, replicas=(2,))
    image = image.apply([moved], image.version + 1)
    assert image.preferred_leaders == {1: 1, 2: 3}
    image = image.apply([TopicRemoved(image.topic("a").id)], image.version + 1)
    assert image.partition_count == 1
    assert image.preferred_leaders == {2: 1}


def test_partitions_may_come_in_any_order_within_one_step():
    changes = [
        TopicCreated("a", topic_id(1)),
        *(PartitionCreated(topic_id(1), one_partition(index)) for index in (2, 0, 1)),
    ]
    image = MetadataImage().apply(changes, 4)
    assert [partition.index for partition in image.topic("a").partitions] == [0, 1, 2]


@pytest.mark.parametrize(
    "changes",
    [
        [PartitionCreated(topic_id(1), one_partition())],
        [TopicCreated("a", topic_id(1)), TopicCreated("a", topic_id(2))],
        [TopicCreated("a", topic_id(1)), PartitionCreated(topic_id(1), one_partition(1))],
        [TopicCreated("a", topic_id(1)), PartitionChanged(topic_id(1), 0, isr=())],
        [TopicRemoved(topic_id(1))],
        [BrokerChanged(1, 0, fenced=True)],
    ],
    ids=["no topic", "twice", "gap", "no partition", "not there", "no broker"],
)
def test_changes_that_contradict_the_image_are_caught(changes):
    with pytest.raises(InvariantViolated):
        MetadataImage().apply(changes, 1)


def test_the_version_never_decreases():
    image = MetadataImage().apply([], 7)
    assert image.apply([], 7).version == 7
    with pytest.raises(InvariantViolated, match="from version 7 back to 6"):
        image.apply([], 6)


def test_producer_ids_are_given_out_once():
    image = MetadataImage().apply([ProducerIdsAllocated(1, 0, 1000)], 1)
    assert image.apply([ProducerIdsAllocated(1, 0, 2000)], 2).next_producer_id == 2000
    for again in (999, 1000):
        with pytest.raises(InvariantViolated, match="given out twice"):
            image.apply([ProducerIdsAllocated(1, 0, again)], 2)


@pytest.mark.parametrize("epoch", ["leader_epoch", "partition_epoch"])
def test_a_partition_is_not_stated_again_with_older_epochs(epoch):
    partition = replace(one_partition(), **{epoch: 5})
    image = MetadataImage().apply(
        [TopicCreated("a", topic_id(1)), PartitionCreated(topic_id(1), partition)], 2
    )
    image = image.apply([PartitionCreated(topic_id(1), replace(partition, isr=()))], 3)
    assert image.topic("a").partitions[0].isr == ()
    with pytest.raises(InvariantViolated, match="with older epochs"):
        image.apply([PartitionCreated(topic_id(1), replace(partition, **{epoch: 4}))], 4)


def test_a_broker_that_starts_again_has_a_larger_epoch():
    first = Broker(1, 5, b"first")
    image = MetadataImage().apply([BrokerRegistered(first)], 1)
    image.apply([BrokerRegistered(first)], 2)
    image.apply([BrokerRegistered(Broker(1, 6, b"second"))], 2)
    for epoch in (4, 5):
        with pytest.raises(InvariantViolated, match=f"again with epoch {epoch}"):
            image.apply([BrokerRegistered(Broker(1, epoch, b"second"))], 2)


def test_an_image_stated_as_changes_gives_the_same_image():
    image = MetadataImage(cluster_id="c").apply(every_change(), 77)
    again = MetadataImage(cluster_id="c").apply(image.as_changes(), 77)
    assert again == image


def test_active_brokers_are_neither_fenced_nor_leaving():
    image = with_brokers([3, 1, 2])
    image = image.apply(
        [
            BrokerChanged(1, image.brokers[1].epoch, fenced=True),
            BrokerChanged(2, image.brokers[2].epoch, in_controlled_shutdown=True),
        ],
        image.version + 2,
    )
    assert [broker.id for broker in image.active_brokers()] == [3]
    assert [broker.id for broker in with_brokers([3, 1, 2]).active_brokers()] == [1, 2, 3]
