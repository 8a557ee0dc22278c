"""Nodes that somebody has spoilt are written again, as they were known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import topic_id
from kits.zookeeper_nodes import encode_topic, finish
from kits.zookeeper_tree import tree_of
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    ConfigChanged,
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, Partition, ResourceType
from moldau.cluster.zookeeper.client.port import DeleteNode, SetData
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.cluster_nodes import ProducerIdBlock, encode_producer_ids
from moldau.cluster.zookeeper.nodes.state_nodes import encode_state, state_of
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode, encode_id_copy
from moldau.cluster.zookeeper.nodes.topic_reading import assignment_of
from moldau.cluster.zookeeper.nodes.tree_repair import TreeRepair

REPLICAS = (BrokerId(1), BrokerId(2))
FIRST = Partition(0, REPLICAS, REPLICAS, BrokerId(1), 5, 7)
SECOND = Partition(1, REPLICAS, (BrokerId(2),), BrokerId(2), 3, 4)
KNOWN = MetadataImage(cluster_id="a-cluster").apply(
    [
        TopicCreated("t", topic_id(1)),
        PartitionCreated(topic_id(1), FIRST),
        PartitionCreated(topic_id(1), SECOND),
    ],
    9,
)
STATE, TOPIC = paths.state("t", 0), paths.topic("t")
EPOCH = 12


def repair(tree, known=KNOWN):
    """Repair a tree as a new controller does; return what was wrong, and the image after it."""
    made = TreeRepair(dict(tree.nodes))
    reading = tree.read(9)
    finish(made.repair_topics(known, reading.image, reading.refused))
    finish(made.repair_states(reading.image, EPOCH))
    finish(made.repair_others(known))
    for multi in made.multis:
        tree.apply(multi)
    assert {path: node[:2] for path, node in made.nodes.items()} == {
        path: node[:2] for path, node in tree.nodes.items()
    }
    return [one.path for one in made.refused], tree.read(9).image


def with_first(epoch, **changes):
    partitions = (replace(FIRST, partition_epoch=epoch, **changes), SECOND)
    changed = [PartitionCreated(topic_id(1), one) for one in partitions]
    return KNOWN.apply(changed, 9)


def state(**changes):
    return encode_state(replace(state_of(FIRST, 1), **changes))


def test_a_sound_tree_stays_as_it_is():
    tree = tree_of(KNOWN)
    assert repair(tree) == ([], KNOWN)
    assert tree.nodes == tree_of(KNOWN).nodes


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense",
        b"",
        b"{}",
        state(leader_epoch=4),
        state(leader_epoch=2**31 - 1),
        state(leader=BrokerId(2)),
        state(leader=BrokerId(9), leader_epoch=6),
        state(isr=(BrokerId(1), BrokerId(9))),
    ],
)
def test_a_state_that_is_malformed_or_goes_back_is_written_as_it_was(data):
    tree = tree_of(KNOWN)
    tree.put(STATE, data)
    assert tree.nodes[STATE].version == 8
    assert repair(tree) == ([STATE], with_first(9))
    assert tree.nodes[STATE].data == state(controller_epoch=EPOCH)


@pytest.mark.parametrize("data", [b"nonsense", state(), state(leader=BrokerId(2), leader_epoch=6)])
def test_a_state_that_was_made_again_is_written_as_it_was(data):
    tree = tree_of(KNOWN)
    tree.write(DeleteNode(STATE))
    tree.create(STATE, data)
    assert repair(tree) == ([STATE], with_first(8))


@pytest.mark.parametrize("data", [b"nonsense", state(isr=(BrokerId(1),))])
def test_a_state_of_the_known_version_has_what_is_known(data):
    tree = tree_of(KNOWN)
    tree.nodes[STATE] = tree.nodes[STATE]._replace(data=data)
    assert repair(tree) == ([STATE], with_first(8))


def test_a_later_state_counts():
    tree = tree_of(KNOWN)
    tree.put(STATE, state(leader=BrokerId(2), leader_epoch=6))
    assert repair(tree) == ([], with_first(8, leader=BrokerId(2), leader_epoch=6))


def test_a_state_that_is_missing_comes_back_with_a_later_version():
    tree = tree_of(KNOWN)
    for path in (STATE, paths.partition("t", 0)):
        tree.write(DeleteNode(path))
    refused, image = repair(tree)
    assert STATE in refused
    assert image == with_first(8)


def assigned(*partitions, topic=1):
    return encode_topic(TopicNode(partitions, topic_id(topic)))


BOTH = (assignment_of(FIRST), assignment_of(SECOND))
MOVED = Assignment((BrokerId(2), BrokerId(3)))


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense",
        b'{"topic_id"',
        assigned(BOTH[0]),
        assigned(MOVED, BOTH[1]),
        assigned(*BOTH).replace(b'"topic_id":"', b'"topic_id":"no'),
        assigned(*BOTH, topic=2),
    ],
    ids=["nonsense", "half", "fewer partitions", "leader left out", "no id", "another id"],
)
def test_an_assignment_that_is_spoilt_is_written_as_it_was(data):
    tree = tree_of(KNOWN)
    tree.create(paths.partitions("t"))
    tree.write(SetData(paths.partitions("t"), encode_id_copy(topic_id(1))))
    tree.put(TOPIC, data)
    assert repair(tree) == ([TOPIC], KNOWN)


def test_a_topic_keeps_its_id_although_another_one_has_been_given_it():
    other = KNOWN.apply(
        [TopicCreated("s", topic_id(2)), PartitionCreated(topic_id(2), FIRST)], KNOWN.version
    )
    tree = tree_of(other)
    tree.put(paths.partitions("s"), encode_id_copy(topic_id(2)))
    tree.put(paths.topic("s"), assigned(BOTH[0]))
    refused, image = repair(tree, other)
    assert set(refused) == {paths.topic("s"), TOPIC}
    assert image == other


def test_topics_that_were_made_after_a_backup_come_back_with_their_configs():
    tree = tree_of(KNOWN)
    tree.nodes[STATE] = tree.nodes[STATE]._replace(version=6)
    resource = ConfigResource(ResourceType.TOPIC, "u")
    since = [
        TopicCreated("u", topic_id(2)),
        PartitionCreated(topic_id(2), FIRST),
        ConfigChanged(resource, "retention.ms", "-1"),
    ]
    known = KNOWN.apply(since, 9)
    refused, image = repair(tree, known)
    assert {STATE, paths.topic("u")} <= set(refused)
    assert image.topics["u"].partitions == (replace(FIRST, partition_epoch=8),)
    assert image.topic_config("u") == {"retention.ms": "-1"}


def test_topics_that_another_controller_has_deleted_do_not_come_back():
    tree = tree_of(MetadataImage())
    assert repair(tree) == ([], tree.read(9).image)


def test_a_partition_that_nobody_has_heard_of_does_not_spoil_the_others():
    tree = tree_of(KNOWN)
    tree.put(TOPIC, assigned(*BOTH, BOTH[0]))
    tree.put(paths.state("t", 2), b"nonsense")
    assert repair(tree) == ([TOPIC], KNOWN)


def test_another_topic_of_the_name_is_left_alone():
    tree = tree_of(KNOWN)
    tree.put(TOPIC, encode_topic(TopicNode((assignment_of(FIRST),) * 2, topic_id(2))))
    tree.put(STATE, state(leader_epoch=0))
    before = dict(tree.nodes)
    assert repair(tree)[0] == []
    assert tree.nodes == before


def test_a_topic_that_is_being_deleted_does_not_come_back():
    tree = tree_of(KNOWN)
    tree.create(paths.delete_topic("t"))
    tree.write(DeleteNode(STATE))
    before = dict(tree.nodes)
    assert repair(tree)[0] == []
    assert tree.nodes == before


def test_what_is_not_known_cannot_be_repaired():
    tree = tree_of(KNOWN)
    tree.put(STATE, b"nonsense")
    refused, image = repair(tree, MetadataImage())
    assert refused == []
    assert image.topics == {}


COMPACTED = ConfigResource(ResourceType.TOPIC, "t")
EVERY_BROKER = ConfigResource(ResourceType.BROKER, "")
GIVEN_OUT = KNOWN.apply(
    [
        FeatureLevelSet("metadata.version", 20),
        ConfigChanged(COMPACTED, "cleanup.policy", "compact"),
        ConfigChanged(EVERY_BROKER, "log.cleaner.threads", "2"),
        ProducerIdsAllocated(BrokerId(1), -1, 3000),
    ],
    9,
)


def block(first, last):
    return encode_producer_ids(ProducerIdBlock(BrokerId(1), first, last))


@pytest.mark.parametrize("data", [b"nonsense", b"", block(0, 999), block(2000, 2998)])
def test_producer_ids_are_not_given_out_twice(data):
    tree = tree_of(GIVEN_OUT)
    tree.put(paths.PRODUCER_ID_BLOCK, data)
    assert repair(tree, GIVEN_OUT) == ([paths.PRODUCER_ID_BLOCK], GIVEN_OUT)


def test_later_producer_ids_count():
    tree = tree_of(GIVEN_OUT)
    tree.put(paths.PRODUCER_ID_BLOCK, block(3000, 3999))
    refused, image = repair(tree, GIVEN_OUT)
    assert (refused, image.next_producer_id) == ([], 4000)


@pytest.mark.parametrize("path", ["/feature", "/config/topics/t", "/config/brokers/<default>"])
@pytest.mark.parametrize("data", [b"nonsense", b'{"version":1,"config":[],"features":7}'])
def test_features_and_configs_stay_what_they_were(path, data):
    tree = tree_of(GIVEN_OUT)
    tree.put(path, data)
    assert repair(tree, GIVEN_OUT) == ([path], GIVEN_OUT)


def test_other_configs_count():
    tree = tree_of(GIVEN_OUT)
    tree.put("/config/topics/t", b'{"version":1,"config":{"cleanup.policy":"delete"}}')
    refused, image = repair(tree, GIVEN_OUT)
    assert (refused, image.topic_config("t")) == ([], {"cleanup.policy": "delete"})
