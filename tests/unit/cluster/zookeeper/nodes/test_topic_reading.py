"""A topic is read from its node and its states, whichever Kafka has written them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import topic_id
from kits.zookeeper_nodes import encode_topic, read_topic, restored_topic, states_to_read
from moldau.base.ids import uuid_text
from moldau.cluster.changes import (
    ConfigChanged,
    PartitionChanged,
    PartitionCreated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import ConfigResource, Partition, ResourceType
from moldau.cluster.zookeeper.client.port import SetData
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.state_nodes import StateNode, encode_state
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import PartitionsWanted, TopicNodeIncomplete
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode

EMPTY = MetadataImage()
ID = topic_id(1)
TWO = (Assignment((1, 2)), Assignment((2, 1)))


def topic(*assignments, of=ID, version=3, written=0):
    return StoredNode(encode_topic(TopicNode(assignments, of, version)), written)


def state(*isr, version=0, leader_epoch=0, leader=None):
    leader = isr[0] if leader is None else leader
    return StoredNode(encode_state(StateNode(1, leader, leader_epoch, isr)), version)


def partition(index, replicas, **parts):
    return Partition(index, replicas, replicas, replicas[0], **parts)


def known(*partitions, name="t", of=ID):
    changes = [TopicCreated(name, of), *(PartitionCreated(of, one) for one in partitions)]
    return EMPTY.apply(changes, 1)


KNOWN = known(partition(0, (1, 2)), partition(1, (2, 1)))


def test_a_topic_with_all_its_states_is_there():
    states = {0: state(1, 2, version=4), 1: state(2, version=0, leader_epoch=3)}
    reading = read_topic(EMPTY, "t", topic(*TWO), states)
    assert reading.requests == []
    assert reading.changes == [
        TopicCreated("t", ID),
        PartitionCreated(ID, partition(0, (1, 2), partition_epoch=4)),
        PartitionCreated(ID, Partition(1, (2, 1), (2,), 2, 3)),
    ]


def test_what_is_known_already_changes_nothing():
    reading = read_topic(KNOWN, "t", topic(*TWO), {0: state(1, 2), 1: state(2, 1)})
    assert reading == ([], [], [])
    assert states_to_read(KNOWN, "t", topic(*TWO)) == []


def test_a_topic_of_an_old_tool_gets_an_id_with_its_first_states():
    reading = read_topic(EMPTY, "t", topic(*TWO, of=None, version=1), {})
    assert reading == ([], [PartitionsWanted("t", None, 0, TWO)], [])


def test_a_topic_of_an_old_cluster_gets_an_id_before_anything_else():
    node = topic(*TWO, of=None, version=2, written=7)
    for states in ({0: state(1, 2), 1: state(2, 1)}, {0: state(1, 2)}):
        reading = read_topic(EMPTY, "t", node, states)
        assert reading == ([], [TopicNodeIncomplete("t", None)], [])
    write = restored_topic(EMPTY, "t", node, ID)
    assert write == SetData("/brokers/topics/t", topic(*TWO).data, 7)


def test_partitions_without_a_state_are_wanted():
    reading = read_topic(EMPTY, "t", topic(*TWO), {})
    assert reading == ([], [PartitionsWanted("t", ID, 0, TWO)], [])
    reading = read_topic(EMPTY, "t", topic(*TWO), {0: state(1, 2)})
    assert reading.changes == [TopicCreated("t", ID), PartitionCreated(ID, partition(0, (1, 2)))]
    assert reading.requests == [PartitionsWanted("t", ID, 1, TWO[1:])]


def test_an_old_tool_adds_a_partition_and_erases_the_id():
    """KAFKA-14190: the id stays, and no other is drawn."""
    node = topic(*TWO, Assignment((3,)), of=None, version=1)
    assert states_to_read(KNOWN, "t", node) == [2]
    reading = read_topic(KNOWN, "t", node, {})
    assert reading.changes == []
    assert reading.requests == [
        TopicNodeIncomplete("t", ID),
        PartitionsWanted("t", ID, 2, (Assignment((3,)),)),
    ]
    assert uuid_text(ID).encode() in restored_topic(KNOWN, "t", node, ID).data


def test_an_erased_id_is_restored_after_a_restart_too():
    states = {0: state(1, 2), 1: state(2, 1)}
    reading = read_topic(EMPTY, "t", topic(*TWO, of=None), states, known_id=ID)
    assert reading.changes[0] == TopicCreated("t", ID)
    assert reading.requests == [TopicNodeIncomplete("t", ID)]
    # A topic without states is another one that has the name now.
    reading = read_topic(EMPTY, "t", topic(*TWO, of=None), {}, known_id=ID)
    assert reading.requests == [PartitionsWanted("t", None, 0, TWO)]


def test_an_old_tool_erases_a_reassignment():
    moving = known(partition(0, (3, 1), adding_replicas=(3,), removing_replicas=(1,)))
    node = topic(Assignment((3, 1)), of=None, version=1)
    assert states_to_read(moving, "t", node) == []
    assert read_topic(moving, "t", node, {}) == ([], [TopicNodeIncomplete("t", ID)], [])
    restored = topic(Assignment((3, 1), (3,), (1,)))
    assert restored_topic(moving, "t", node, ID).data == restored.data
    # A newer tool knows reassignments. What it writes counts.
    reading = read_topic(moving, "t", topic(Assignment((3, 1))), {})
    assert reading.changes == [PartitionCreated(ID, partition(0, (3, 1)))]


def test_an_older_state_is_no_news():
    image = KNOWN.apply([PartitionChanged(ID, 0, isr=(1,), leader=1)], 2)
    assert read_topic(image, "t", topic(*TWO), {0: state(1, 2, version=0)}) == ([], [], [])


def test_a_topic_that_was_created_again_replaces_the_old_one():
    resource = ConfigResource(ResourceType.TOPIC, "t")
    image = KNOWN.apply([ConfigChanged(resource, "old", "1")], 2)
    node, other = topic(Assignment((1,)), of=topic_id(2)), topic_id(2)
    config = StoredNode(b'{"version":1,"config":{"new":"2"}}')
    assert states_to_read(image, "t", node) == [0]
    reading = read_topic(image, "t", node, {0: state(1)}, config)
    assert reading.changes == [
        TopicRemoved(ID),
        TopicCreated("t", other),
        PartitionCreated(other, partition(0, (1,))),
        ConfigChanged(resource, "new", "2"),
    ]
    after = image.apply(reading.changes, 3)
    assert after.topic_config("t") == {"new": "2"}
    assert len(after.topics["t"].partitions) == 1
    assert read_topic(image, "t", node, {}).changes == [TopicRemoved(ID)]


def test_configs_come_with_the_topic():
    config = StoredNode(b'{"version":1,"config":{"a":"b","min.insync.replicas":"x"}}')
    for of, version in ((None, 1), (ID, 3)):
        node = topic(TWO[0], of=of, version=version)
        reading = read_topic(EMPTY, "t", node, {}, config)
        assert reading.requests == [PartitionsWanted("t", of, 0, TWO[:1], {"a": "b"})]
        assert [one.path for one in reading.refused] == ["/config/topics/t"]
    reading = read_topic(EMPTY, "t", topic(*TWO), {0: state(1)}, config)
    assert reading.changes[-1] == ConfigChanged(ConfigResource(ResourceType.TOPIC, "t"), "a", "b")
    assert reading.requests == [PartitionsWanted("t", ID, 1, TWO[1:])]
    assert read_topic(KNOWN, "t", topic(*TWO), {}, config) == ([], [], [])


def test_malformed_configs_are_left_out_alone():
    reading = read_topic(EMPTY, "t", topic(TWO[0]), {0: state(1)}, StoredNode(b"x"))
    assert len(reading.changes) == 2
    assert [one.path for one in reading.refused] == ["/config/topics/t"]


def test_replicas_and_state_change_together():
    node = topic(Assignment((3, 1, 2), (3,), (1, 2)), TWO[1])
    assert states_to_read(KNOWN, "t", node) == [0]
    reading = read_topic(KNOWN, "t", node, {0: state(1, 2, version=1)})
    assert reading.changes == [
        PartitionCreated(
            ID,
            Partition(
                0,
                (3, 1, 2),
                (1, 2),
                1,
                partition_epoch=1,
                adding_replicas=(3,),
                removing_replicas=(1, 2),
            ),
        )
    ]


LAST = replace(KNOWN.topics["t"].partitions[0], leader_epoch=5, partition_epoch=9)


@pytest.mark.parametrize(
    ("image", "name", "node", "states", "problem"),
    [
        (EMPTY, "a b", topic(*TWO), {}, "/brokers/topics/a b: its name is no name of a topic"),
        (EMPTY, "..", topic(*TWO), {}, "/brokers/topics/..: its name is no name of a topic"),
        (EMPTY, "t", StoredNode(b""), {}, "/brokers/topics/t: it is empty"),
        (KNOWN, "u", topic(*TWO), {}, "/brokers/topics/u: topic_id is that of topic t"),
        (
            KNOWN,
            "t",
            topic(TWO[0]),
            {},
            "/brokers/topics/t: it has 1 partitions, but 2 are known",
        ),
        (
            EMPTY,
            "t",
            topic(*TWO),
            {1: state(2, 1)},
            "/brokers/topics/t/partitions/0/state: it is missing, but partition 1 has a state",
        ),
        (
            EMPTY,
            "t",
            topic(*TWO),
            {0: state(1, 2), 1: StoredNode(b"x")},
            "/brokers/topics/t/partitions/1/state: it is no JSON:",
        ),
        (
            EMPTY,
            "t",
            topic(*TWO),
            {0: state(3)},
            "/brokers/topics/t/partitions/0/state: leader 3 is no replica",
        ),
        (
            EMPTY,
            "t",
            topic(*TWO),
            {0: state(1, 3)},
            "/brokers/topics/t/partitions/0/state: isr has a broker that is no replica",
        ),
        (
            EMPTY,
            "t",
            topic(*TWO),
            {0: state(2, leader=1)},
            "/brokers/topics/t/partitions/0/state: leader 1 is not in isr",
        ),
        (
            EMPTY,
            "t",
            topic(*TWO),
            {0: StoredNode(encode_state(StateNode(1, 1, 0, (1,), eligible_leaders=(9,))))},
            "/brokers/topics/t/partitions/0/state: eligible_leader_replicas has a broker that is",
        ),
        (
            known(LAST),
            "t",
            topic(TWO[0]),
            {0: state(1, version=10, leader_epoch=4)},
            "/brokers/topics/t/partitions/0/state: leader_epoch goes from 5 back to 4",
        ),
        (
            KNOWN,
            "t",
            topic(Assignment((3,)), TWO[1]),
            {},
            "/brokers/topics/t/partitions/0/state: leader 1 is no replica",
        ),
    ],
)
def test_what_does_not_fit_is_refused(image, name, node, states, problem):
    with pytest.raises(MalformedNode) as caught:
        read_topic(image, name, node, states)
    assert str(caught.value).startswith(problem)


def test_a_state_that_is_newer_than_the_topic_node_is_ignored():
    states = {0: state(1, 2), 1: state(2, 1), 2: state(3), 5: state(3)}
    assert len(read_topic(EMPTY, "t", topic(*TWO), states).changes) == 3


def test_a_partition_without_a_leader_is_fine():
    reading = read_topic(EMPTY, "t", topic(TWO[0]), {0: state(2, leader=-1)})
    assert reading.changes[1].partition.leader == -1
