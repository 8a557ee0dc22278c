"""Turns one changed node into changes of the image.

A node is read again after somebody has changed it, so several changes may have become one, and a
node may be read that is no news. So what changed is stated as a whole, and what is older than the
image is ignored.

The state of a partition and the replicas in its topic node are judged together. If a node alone
does not tell, the topic has to be read: `topic_reading`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.base.ids import BrokerId, PartitionKey
from moldau.base.tuples import NamedTuple
from moldau.cluster.broker_arrivals import amended_broker
from moldau.cluster.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, ResourceType
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import decode_broker
from moldau.cluster.zookeeper.nodes.cluster_nodes import decode_features, decode_producer_ids
from moldau.cluster.zookeeper.nodes.config_resources import resource_at, usable_configs
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.partition_list_nodes import (
    decode_partitions,
    decode_reassignment,
)
from moldau.cluster.zookeeper.nodes.steps import Steps
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PreferredElectionWanted,
    ReassignmentWanted,
    ToolRequest,
)
from moldau.cluster.zookeeper.nodes.topic_reading import assignment_of, read_partition


class NodeReading(NamedTuple):
    """What follows from one changed node."""

    changes: tuple[Change, ...] = ()
    requests: tuple[ToolRequest, ...] = ()
    topic_to_read: str | None = None
    """Read the node of this topic, the states that `states_to_read` names, and the configs of the
    topic. Then call `read_topic` with these, and with the state that has led here."""
    refused: tuple[MalformedNode, ...] = ()
    """Parts of the node that were left out."""


NOTHING: Final = NodeReading()


def changed_node(image: MetadataImage, path: str, node: StoredNode | None) -> Steps[NodeReading]:
    """Return what follows from a node that has changed; None if it was deleted."""
    if (key := paths.state_owner(path)) is not None:
        return _state(image, key, node)
    if (name := paths.child(paths.TOPICS, path)) is not None:
        return _topic_gone(image, name) if node is None else NodeReading(topic_to_read=name)
    if (resource := resource_at(path)) is not None:
        return (yield from _config(image, resource, path, node))
    if node is not None and (request := (yield from tool_request(path, node))) is not None:
        return NodeReading(requests=(request,))
    return NodeReading(tuple(_other_changes(image, path, node)))


def _other_changes(image: MetadataImage, path: str, node: StoredNode | None) -> Iterator[Change]:
    if paths.child(paths.BROKER_IDS, path) is not None:
        yield from broker_changes(image, path, node)
    elif path == paths.FEATURE:
        yield from feature_changes(image, node)
    elif path == paths.PRODUCER_ID_BLOCK and node is not None:
        yield from producer_id_changes(image, node)


def tool_request(path: str, node: StoredNode) -> Steps[ToolRequest | None]:
    """Return what a node below /admin asks for; None if it is another node."""
    if (name := paths.child(paths.DELETE_TOPICS, path)) is not None:
        return DeletionWanted(name)
    if path == paths.REASSIGN_PARTITIONS:
        return ReassignmentWanted((yield from decode_reassignment(node.data)))
    if path == paths.PREFERRED_REPLICA_ELECTION:
        return PreferredElectionWanted((yield from decode_partitions(path, node.data)))
    return None


def broker_changes(image: MetadataImage, path: str, node: StoredNode | None) -> Iterator[Change]:
    """Return the change of a broker that registered, or whose session has ended."""
    known = image.brokers.get(_broker_id(path))
    if node is None:
        if known is not None:
            yield BrokerUnregistered(known.id, known.epoch)
        return
    broker = registration_at(path, node).broker
    if known is not None:
        broker = amended_broker(known, broker)
    if known != broker:
        yield BrokerRegistered(broker)


class Registration(NamedTuple):
    """What a broker's node says: the broker, and what the image has no place for."""

    broker: Broker
    may_lack_records: bool


def registration_at(path: str, node: StoredNode) -> Registration:
    """Return the broker that has written this node."""
    broker_id, registered = _broker_id(path), decode_broker(path, node.data)
    broker = Broker(
        broker_id,
        node.created,
        node.created.to_bytes(16),
        registered.endpoints,
        registered.rack,
        registered.features,
        fenced=False,
    )
    return Registration(broker, registered.may_lack_records)


def _broker_id(path: str) -> BrokerId:
    number = paths.number(paths.child(paths.BROKER_IDS, path) or "")
    if number is None:
        raise MalformedNode(path, "its name is no id of a broker")
    return BrokerId(number)


def config_changes(
    image: MetadataImage, resource: ConfigResource, settings: dict[str, str]
) -> Iterator[Change]:
    """Return the changes that give a resource exactly these configs."""
    current = image.config(resource)
    for key in sorted(current.keys() - settings.keys()):
        yield ConfigChanged(resource, key, None)
    for key, value in settings.items():
        if current.get(key) != value:
            yield ConfigChanged(resource, key, value)


def feature_changes(image: MetadataImage, node: StoredNode | None) -> Iterator[Change]:
    """Return the changes of features; without a node, or with features disabled, there are none."""
    features = decode_features(node.data) if node is not None else None
    levels = features.levels if features and features.enabled else {}
    for name in sorted(image.features.keys() - levels.keys()):
        yield FeatureLevelSet(name, 0)
    for name, level in levels.items():
        if image.features.get(name) != level:
            yield FeatureLevelSet(name, level)


def producer_id_changes(image: MetadataImage, node: StoredNode) -> Iterator[Change]:
    """Return the change that gives out a block of producer ids."""
    block = decode_producer_ids(node.data)
    following = 0 if block is None else block.last + 1
    if following < image.next_producer_id:
        raise MalformedNode(
            paths.PRODUCER_ID_BLOCK,
            f"the next producer id would go from {image.next_producer_id} back to {following}",
        )
    if block is not None and following > image.next_producer_id:
        yield ProducerIdsAllocated(block.broker_id, -1, following)


def _state(image: MetadataImage, key: PartitionKey, node: StoredNode | None) -> NodeReading:
    if node is None:
        return NOTHING  # The topic is being deleted, and its own node follows.
    topic, known = image.topic(key.topic), image.partition(key)
    if topic is None or known is None:
        return NodeReading(topic_to_read=key.topic)
    try:
        partition = read_partition(*key, assignment_of(known), known, node)
    except MalformedNode:
        # Maybe the replicas in the topic node have changed at the same time.
        return NodeReading(topic_to_read=key.topic)
    if partition is None or partition == known:
        return NOTHING
    return NodeReading((PartitionCreated(topic.id, partition),))


def _topic_gone(image: MetadataImage, name: str) -> NodeReading:
    topic = image.topic(name)
    return NOTHING if topic is None else NodeReading((TopicRemoved(topic.id),))


def _config(
    image: MetadataImage, resource: ConfigResource, path: str, node: StoredNode | None
) -> Steps[NodeReading]:
    if resource.type == ResourceType.TOPIC and image.topic(resource.name) is None:
        return NOTHING  # They are read with the topic.
    settings, refused = yield from usable_configs(path, None if node is None else node.data)
    changes = tuple(config_changes(image, resource, settings))
    return NodeReading(changes, refused=tuple(refused))
