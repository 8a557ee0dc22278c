"""Repairs nodes that somebody has spoilt, with what the new controller knows of them.

A topic that cannot be read would not be in the image, and brokers would delete its logs. A leader
that changes without a new epoch, or an epoch that goes back, would let two logs differ in the same
epoch. Producer ids that are given out twice make brokers take new records for old ones, and configs
that fall back to defaults may delete what a topic is to keep. No tool writes such a thing, but a
person may, or an old backup of ZooKeeper. So what was known last takes its place, and is written.

Only what is known can be repaired. A broker that has just started knows what it has read itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from moldau.base.ids import uuid_text
from moldau.cluster.brokers import PRODUCER_ID_BLOCK
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, Partition, Topic
from moldau.cluster.zookeeper.client.port import CreateNode, Operation, SetData
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.cluster_nodes import (
    FeatureNode,
    ProducerIdBlock,
    decode_features,
    decode_producer_ids,
    encode_features,
    encode_producer_ids,
)
from moldau.cluster.zookeeper.nodes.config_nodes import config_path, decode_config, encode_config
from moldau.cluster.zookeeper.nodes.config_resources import entity_of
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.state_nodes import encode_state, state_of
from moldau.cluster.zookeeper.nodes.steps import Pace, Steps
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.topic_nodes import TopicNode, encode_id_copy, encode_topic
from moldau.cluster.zookeeper.nodes.topic_reading import assignment_of, read_partition

SETS_PER_MULTI: Final = 200


@dataclass(slots=True)
class TreeRepair:
    """The nodes of a tree as they are after some multis, and what was wrong with them."""

    nodes: dict[str, StoredNode]
    multis: list[list[Operation]] = field(default_factory=list)
    refused: list[MalformedNode] = field(default_factory=list)

    def repair_topics(
        self, known: MetadataImage, image: MetadataImage, refused: Collection[MalformedNode]
    ) -> Steps[list[Topic]]:
        """Put known assignments in the place of malformed ones; return those topics.

        `image` and `refused` come from these nodes. The states of such topics have not been read.
        """
        malformed = {one.path: one for one in refused}
        repaired = []
        pace = Pace()
        for topic in known.topics.values():
            if pace.is_due():
                yield
            if not self._has(topic):
                continue
            path, found = paths.topic(topic.name), image.topic(topic.name)
            reason = malformed.get(path)
            if reason is None and found and len(found.partitions) < len(topic.partitions):
                reason = MalformedNode(path, "it has fewer partitions than are known")
            if reason is not None:
                self.refused.append(reason)
                assignments = tuple(map(assignment_of, topic.partitions))
                self._set(path, (yield from encode_topic(TopicNode(assignments, topic.id))))
                repaired.append(topic)
        return repaired

    def repair_states(self, known: MetadataImage, controller_epoch: int) -> Steps[None]:
        """Put known states in the place of malformed ones."""
        pace = Pace()
        for topic in known.topics.values():
            if not self._has(topic):
                continue
            for partition in topic.partitions:
                self._repair_state(topic, partition, controller_epoch)
                if pace.is_due():
                    yield

    def repair_others(self, known: MetadataImage) -> Steps[None]:
        """Put known producer ids, features and configs in the place of malformed ones."""
        self._repair_producer_ids(known.next_producer_id)
        node = self.nodes.get(paths.FEATURE)
        if node is not None and known.features:
            try:
                decode_features(node.data)
            except MalformedNode as malformed:
                self.refused.append(malformed)
                self._set(paths.FEATURE, encode_features(FeatureNode(known.features)))
        for resource, settings in known.configs.items():
            path = config_path(entity_of(resource))
            node = self.nodes.get(path)
            if node is None or not settings:
                continue
            try:
                yield from decode_config(path, node.data)
            except MalformedNode as malformed:
                self.refused.append(malformed)
                self._set(path, encode_config(settings))

    def _repair_producer_ids(self, known: int) -> None:
        path = paths.PRODUCER_ID_BLOCK
        node = self.nodes.get(path)
        if not known or node is None:
            return
        try:
            block = decode_producer_ids(node.data)
            following = 0 if block is None else block.last + 1
            if following < known:
                raise MalformedNode(
                    path, f"the next producer id would go from {known} back to {following}"
                )
        except MalformedNode as malformed:
            self.refused.append(malformed)
            last = ProducerIdBlock(NO_LEADER, max(0, known - PRODUCER_ID_BLOCK), known - 1)
            self._set(path, encode_producer_ids(last))

    def _has(self, topic: Topic) -> bool:
        """Tell whether the tree has this topic, and not a later one of its name, or its remains."""
        node = self.nodes.get(paths.topic(topic.name))
        if node is None or paths.delete_topic(topic.name) in self.nodes:
            return False
        # Decoding would cost as much as reading all topics once more.
        return b'"topic_id"' not in node.data or uuid_text(topic.id).encode() in node.data

    def _repair_state(self, topic: Topic, partition: Partition, controller_epoch: int) -> None:
        path = paths.state(topic.name, partition.index)
        node = self.nodes.get(path)
        if node is not None:
            # With the version that is known, it has the content that is known.
            if node.version <= partition.partition_epoch:
                return
            try:
                read_partition(
                    topic.name, partition.index, assignment_of(partition), partition, node
                )
            except MalformedNode as malformed:
                self.refused.append(malformed)
            else:
                return
        data = encode_state(state_of(partition, controller_epoch))
        if node is not None:
            self._set(path, data)
        else:
            self.refused.append(MalformedNode(path, "it is missing"))
            self._create_state(topic, partition, data)

    def _set(self, path: str, data: bytes) -> None:
        node = self.nodes[path]
        self.multis.append([SetData(path, data, node.version)])
        self.nodes[path] = node._replace(data=data, version=node.version + 1)

    def _create_state(self, topic: Topic, partition: Partition, data: bytes) -> None:
        """Create a state, and set it until its version is above the known epoch of its partition.

        Brokers ignore what has an older epoch than they know.
        """
        path, version = paths.state(topic.name, partition.index), partition.partition_epoch + 1
        parents = {
            paths.partitions(topic.name): encode_id_copy(topic.id),
            paths.partition(topic.name, partition.index): b"",
        }
        missing = {one: content for one, content in parents.items() if one not in self.nodes}
        writes: list[Operation] = [CreateNode(*one) for one in missing.items()]
        writes.append(CreateNode(path, data))
        writes += [SetData(path, data, number) for number in range(version)]
        for first in range(0, len(writes), SETS_PER_MULTI):
            self.multis.append(writes[first : first + SETS_PER_MULTI])
        self.nodes |= {one: StoredNode(content) for one, content in missing.items()}
        self.nodes[path] = StoredNode(data, version)
