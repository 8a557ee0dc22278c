"""A tree of ZooKeeper nodes in a dict, with ZooKeeper's rules for writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kits.zookeeper_nodes import changed_node, encode_topic, read_topic, read_tree, states_to_read
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker
from moldau.cluster.zookeeper.client.port import (
    CreateNode,
    DeleteNode,
    NodeKind,
    Operation,
    SetData,
)
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, encode_broker
from moldau.cluster.zookeeper.nodes.cluster_nodes import (
    FeatureNode,
    ProducerIdBlock,
    encode_cluster_id,
    encode_features,
    encode_producer_ids,
)
from moldau.cluster.zookeeper.nodes.config_nodes import config_path, encode_config
from moldau.cluster.zookeeper.nodes.config_resources import entity_of
from moldau.cluster.zookeeper.nodes.state_nodes import encode_state, state_of
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.topic_nodes import TopicNode
from moldau.cluster.zookeeper.nodes.topic_reading import assignment_of
from moldau.cluster.zookeeper.nodes.tree_image import TreeReading


class DictTree:
    """The nodes by path. A write that ZooKeeper would refuse fails an assertion."""

    def __init__(self) -> None:
        self.nodes: dict[str, StoredNode] = {}
        self.transaction = 0
        for path in (*paths.CREATED_AT_START, "/cluster"):
            self.create(path)

    def create(self, path: str, data: bytes = b"") -> None:
        """Create a node and its parents, where they are missing."""
        parent = path.rpartition("/")[0]
        if parent and parent not in self.nodes:
            self.create(parent)
        if path not in self.nodes:
            self.write(CreateNode(path, data))

    def put(self, path: str, data: bytes) -> None:
        """Write a node whatever there was, as a tool does."""
        self.create(path)
        self.write(SetData(path, data))

    def apply(self, writes: Iterable[Operation | None]) -> list[str]:
        """Carry out writes in order; return the paths that they changed."""
        return [self.write(one) for one in writes if one is not None]

    def write(self, one: Operation) -> str:
        self.transaction += 1
        path = one.path
        if isinstance(one, CreateNode):
            if one.kind is NodeKind.SEQUENTIAL:
                path = f"{path}{self.transaction:010d}"
            assert path not in self.nodes, f"{path} exists"
            parent = path.rpartition("/")[0]
            assert not parent or parent in self.nodes, f"{path} has no parent"
            self.nodes[path] = StoredNode(one.data, 0, self.transaction)
            return path
        old = self.nodes[path]
        assert one.version in {None, old.version}, f"{path} has version {old.version}"
        if isinstance(one, SetData):
            self.nodes[path] = StoredNode(one.data, old.version + 1, old.created)
        else:
            assert isinstance(one, DeleteNode)
            assert not any(other.startswith(f"{path}/") for other in self.nodes)
            del self.nodes[path]
        return path

    def versions(self, image: MetadataImage) -> dict[str, int]:
        """The versions that a committer has to know beside its image."""
        known = {
            path
            for topic in image.topics.values()
            for partition in topic.partitions
            for path in (
                paths.partitions(topic.name),
                paths.partition(topic.name, partition.index),
                paths.state(topic.name, partition.index),
            )
        }
        return {path: node.version for path, node in self.nodes.items() if path not in known}

    def read(self, version: int = 1, **options: Any) -> TreeReading:
        """The image of the tree, and what else it says."""
        return read_tree(self.nodes, version, **options)

    def follow(self, image: MetadataImage, path: str, version: int) -> MetadataImage:
        """The image of a broker that is told that this node has changed."""
        reading = changed_node(image, path, self.nodes.get(path))
        changes = list(reading.changes)
        if reading.topic_to_read is not None:
            name = reading.topic_to_read
            node = self.nodes.get(paths.topic(name))
            if node is None:
                return image.apply((), version)
            wanted = set(states_to_read(image, name, node))
            if (key := paths.state_owner(path)) is not None:
                wanted.add(key.partition)
            states = {
                index: self.nodes[state]
                for index in wanted
                if (state := paths.state(name, index)) in self.nodes
            }
            config = self.nodes.get(f"/config/topics/{name}")
            changes += read_topic(image, name, node, states, config).changes
        return image.apply(changes, version)


def tree_of(image: MetadataImage, controller_epoch: int = 1) -> DictTree:
    """The nodes that an image stands for, with the versions that it tells."""
    tree = DictTree()
    if image.cluster_id:
        tree.put(paths.CLUSTER_ID, encode_cluster_id(image.cluster_id))
    if image.features:
        tree.put(paths.FEATURE, encode_features(FeatureNode(image.features)))
    if image.next_producer_id:
        block = ProducerIdBlock(-1, 0, image.next_producer_id - 1)
        tree.put(paths.PRODUCER_ID_BLOCK, encode_producer_ids(block))
    for broker in image.brokers.values():
        register(tree, broker)
    for topic in image.topics.values():
        assignments = tuple(assignment_of(partition) for partition in topic.partitions)
        tree.put(paths.topic(topic.name), encode_topic(TopicNode(assignments, topic.id)))
        for partition in topic.partitions:
            path = paths.state(topic.name, partition.index)
            tree.create(path)
            data = encode_state(state_of(partition, controller_epoch))
            created = tree.nodes[path].created
            tree.nodes[path] = StoredNode(data, partition.partition_epoch, created)
    for resource, settings in image.configs.items():
        tree.put(config_path(entity_of(resource)), encode_config(settings))
    return tree


def register(tree: DictTree, broker: Broker) -> None:
    """Write the node of a broker with this epoch, as the broker itself does."""
    path = paths.broker(broker.id)
    node = BrokerNode(broker.endpoints, broker.rack, broker.features, timestamp_ms=1)
    tree.create(path)
    tree.nodes[path] = StoredNode(encode_broker(node), 1, broker.epoch)
