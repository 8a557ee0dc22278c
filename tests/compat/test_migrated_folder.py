"""Apache Kafka starts on the folder of a voter that was moved from ZooKeeper, and goes on there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_harness.broker import CLUSTER_ID
from kafka_harness.distribution import CURRENT
from kafka_harness.kafka_node import NODE_ID, KafkaNode
from kafka_harness.topics import create_topic, read_all, send, topic_config
from moldau.base.ids import BrokerId, LeaderEpoch, TopicId
from moldau.cluster.brokers import SUPPORTED_FEATURES
from moldau.cluster.changes import ConfigChanged, PartitionCreated, TopicCreated
from moldau.cluster.image import MetadataImage
from moldau.cluster.kraft.migrated_folder import NodeFolders, belong_to_quorum, write_metadata
from moldau.cluster.migration import differences, taken_over
from moldau.cluster.model import Broker, ConfigResource, Endpoint, Partition, ResourceType
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter, VoterSet
from moldau.cluster.snapshots import SnapshotId
from moldau.storage.checkpoints import MetaProperties, write_meta_properties
from moldau.storage.disk import Disk

pytestmark = pytest.mark.java(CURRENT)

DIRECTORY_ID = b"an id of 16 byte"
LAST_EPOCH = (700 << 32) + 5
"""Of a ZooKeeper whose servers have elected a leader seven hundred times."""
SNAPSHOT = SnapshotId(LAST_EPOCH + 20, 41)


def tree_of_kafka() -> MetadataImage:
    """A topic as Kafka has left it: no features, and a broker that only the state names."""
    own = (BrokerId(NODE_ID),)
    topic_id = TopicId(b"\x07" * 16)
    partition = Partition(0, own, own, own[0], LeaderEpoch(6), 9)
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    retention = ConfigChanged(resource, "retention.ms", "1234567")
    changes = [TopicCreated("orders", topic_id), PartitionCreated(topic_id, partition), retention]
    return MetadataImage(cluster_id=CLUSTER_ID).apply(changes, 0)


def move(node: KafkaNode) -> None:
    files, data = Disk(), str(node.data)
    folders = NodeFolders(NODE_ID, (data,), data)
    node.data.mkdir(parents=True)
    write_meta_properties(files, data, MetaProperties(0, CLUSTER_ID, NODE_ID, DIRECTORY_ID))
    listener = Endpoint("PLAINTEXT", node.host, node.port, 0)
    broker = Broker(
        BrokerId(NODE_ID), LAST_EPOCH, LAST_EPOCH.to_bytes(16), (listener,),
        features=SUPPORTED_FEATURES, log_directories=(DIRECTORY_ID,),
    )  # fmt: skip
    tree = tree_of_kafka()
    taken = taken_over(tree, [broker], SNAPSHOT.end_offset, 1)
    assert list(differences(tree, taken, taken)) == []
    voters = VoterSet((Voter(ReplicaKey(NodeId(NODE_ID))),))
    write_metadata(files, folders, taken, SNAPSHOT, voters, 1_700_000_000_000)
    belong_to_quorum(files, folders, CLUSTER_ID)


def test_kafka_reads_what_was_moved_and_goes_on(tmp_path: Path) -> None:
    node = KafkaNode(tmp_path)
    move(node)
    with node:
        send(node.address, "orders", [b"first"])
        assert read_all(node.address, "orders") == [b"first"]
        assert topic_config(node.address, "orders", "retention.ms") == "1234567"
        create_topic(node.address, "more")
        send(node.address, "more", [b"second"])
