"""The tree as a whole becomes an image; what is malformed is left out alone."""

from __future__ import annotations

from kits.metadata_samples import topic_id
from kits.zookeeper_tree import DictTree, tree_of
from moldau.base.ids import BrokerId
from moldau.cluster.changes import (
    BrokerRegistered,
    ConfigChanged,
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Endpoint, Partition, ResourceType
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PartitionsWanted,
    TopicNodeIncomplete,
)
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment
from moldau.cluster.zookeeper.nodes.tree_image import read_tree


def broker(number, epoch):
    endpoints = (Endpoint("PLAINTEXT", f"h{number}", 9092, 0),)
    return Broker(BrokerId(number), epoch, epoch.to_bytes(16), endpoints, "r", fenced=False)


LEADERLESS = Partition(0, (1, 2), (), -1, 4, 9, (2,), (1,), (1,), (2,), recovering=True)
WHOLE = MetadataImage(cluster_id="a-cluster").apply(
    [
        FeatureLevelSet("eligible.leader.replicas.version", 1),
        BrokerRegistered(broker(1, 100)),
        BrokerRegistered(broker(2, 200)),
        TopicCreated("bad", topic_id(1)),
        PartitionCreated(topic_id(1), Partition(0, (1,), (1,), 1)),
        TopicCreated("good", topic_id(2)),
        PartitionCreated(topic_id(2), LEADERLESS),
        PartitionCreated(topic_id(2), Partition(1, (2, 1), (2,), 2)),
        ConfigChanged(ConfigResource(ResourceType.TOPIC, "good"), "retention.ms", "1"),
        ConfigChanged(ConfigResource(ResourceType.BROKER, ""), "min.insync.replicas", "1"),
        ConfigChanged(ConfigResource(ResourceType.BROKER, "1"), "log.retention.ms", "2"),
        ProducerIdsAllocated(BrokerId(1), -1, 5000),
    ],
    77,
)  # fmt: skip


def test_the_image_of_a_tree_is_the_image_that_made_it():
    reading = tree_of(WHOLE).read(77)
    assert reading.image == WHOLE
    assert reading.requests == reading.refused == ()


def test_an_empty_tree_is_an_empty_image():
    reading = DictTree().read(0)
    assert reading.image == MetadataImage()
    assert reading.requests == reading.refused == ()


def test_what_is_malformed_is_left_out_alone():
    tree = tree_of(WHOLE)
    for path in (
        "/brokers/topics/bad/partitions/0/state",
        "/brokers/ids/2",
        "/brokers/ids/x",
        "/brokers/topics/a b",
        "/config/brokers/1",
        "/feature",
        "/latest_producer_id_block",
        "/cluster/id",
        "/admin/reassign_partitions",
        "/config/users/u",
        "/consumers/g/offsets/t/0",
    ):
        tree.put(path, b"\xff")
    reading = tree.read(77)
    assert sorted(one.path for one in reading.refused) == [
        "/admin/reassign_partitions",
        "/brokers/ids/2",
        "/brokers/ids/x",
        "/brokers/topics/a b",
        "/brokers/topics/bad/partitions/0/state",
        "/cluster/id",
        "/config/brokers/1",
        "/feature",
        "/latest_producer_id_block",
    ]
    image = reading.image
    assert dict(image.topics) == {"good": WHOLE.topics["good"]}
    assert list(image.brokers) == [1]
    assert sorted(image.configs) == [
        ConfigResource(ResourceType.TOPIC, "good"),
        ConfigResource(ResourceType.BROKER, ""),
    ]
    assert (image.cluster_id, image.next_producer_id, dict(image.features)) == ("", 0, {})


def test_two_topics_cannot_have_one_id():
    tree = tree_of(WHOLE)
    node = tree.nodes["/brokers/topics/bad"]
    tree.put("/brokers/topics/copy", node.data)
    tree.put(
        "/brokers/topics/copy/partitions/0/state",
        tree.nodes["/brokers/topics/bad/partitions/0/state"].data,
    )
    reading = tree.read(77)
    assert [str(one) for one in reading.refused] == [
        "/brokers/topics/copy: topic_id is that of topic bad"
    ]
    assert reading.image == WHOLE


def test_a_tree_that_kafka_1_1_has_written():
    tree = DictTree()
    tree.put("/brokers/topics/old", b'{"version":1,"partitions":{"1":[1],"0":[2]}}')
    for index, leader in enumerate((2, 1)):
        tree.put(
            f"/brokers/topics/old/partitions/{index}/state",
            b'{"controller_epoch":3,"leader":%d,"version":1,"leader_epoch":0,"isr":[%d]}'
            % (leader, leader),
        )
    tree.put("/config/topics/old", b'{"version":1,"config":{"retention.ms":"1000"}}')
    tree.put("/brokers/topics/new", b'{"version":1,"partitions":{"0":[1]}}')
    tree.put("/config/topics/new", b'{"version":1,"config":{"retention.ms":"2000"}}')
    tree.put("/config/topics/never", b'{"version":1,"config":{"retention.ms":"3000"}}')
    tree.put("/admin/delete_topics/going", b"")
    tree.put("/brokers/topics/going", b'{"version":1,"partitions":{"0":[1]}}')
    reading = tree.read(1)
    assert not reading.refused
    assert not reading.image.topics
    assert not reading.image.configs
    assert reading.requests == (
        PartitionsWanted("new", None, 0, (Assignment((1,)),), {"retention.ms": "2000"}),
        TopicNodeIncomplete("old", None),
        DeletionWanted("going"),
    )
    remembered = tree.read(1, known_ids={"old": topic_id(9)})
    assert remembered.image.topics["old"].id == topic_id(9)
    assert TopicNodeIncomplete("old", topic_id(9)) in remembered.requests


def test_reading_can_pause():
    nodes = tree_of(WHOLE).nodes
    nodes |= {paths.topic(f"bad-{number}"): StoredNode(b"") for number in range(1000)}
    assert sum(1 for _ in read_tree(nodes, 1)) > 10
