"""Repairs nodes that somebody has spoilt, with what the new controller knows of them.

A topic that cannot be read would not be in the image, and brokers would delete its logs. A leader
that changes without a new epoch, or an epoch that goes back, would let two logs differ in the same
epoch. Producer ids that are given out twice make brokers take new records for old ones, and configs
that fall back to defaults may delete what a topic is to keep. No tool writes such a thing, but a
person may, or an old backup of ZooKeeper. So what was known last takes its place, and is written.

Only what is known can be repaired. A broker that has just started knows what it has read itself.

Nobody knows whether an assignment or a state is wrong that do not fit each other. The state tells:
if it is what is known, somebody has written the assignment. The version of a state only grows, so
one with an older version was deleted and made again, or is that of a backup. A tree with such a
state may be older as a whole. Topics that it lacks were made since then, and come back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from moldau.base.ids import uuid_text
from moldau.cluster.brokers import PRODUCER_ID_BLOCK
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, Partition, ResourceType, Topic
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
from moldau.cluster.zookeeper.nodes.topic_nodes import (
    TopicNode,
    decode_id_copy,
    decode_topic,
    encode_id_copy,
    encode_topic,
)
from moldau.cluster.zookeeper.nodes.topic_reading import assignment_of, read_partition

SETS_PER_MULTI: Final = 200


@dataclass(slots=True)
class TreeRepair:
    """The nodes of a tree as they are after some multis, and what was wrong with them."""

    nodes: dict[str, StoredNode]
    multis: list[list[Operation]] = field(default_factory=list)
    refused: list[MalformedNode] = field(default_factory=list)
    _there: list[Topic] = field(default_factory=list)
    """Known topics that the tree has, if only their remains."""
    _is_older: bool = False
    """Whether the tree may be older than what is known."""

    def unclear_topics(self, known: MetadataImage) -> Iterator[str | None]:
        """Return known topics whose nodes do not name their id: its copy has to be read.

        None comes where the caller can pause.
        """
        for topic in known.topics.values():
            node = self.nodes.get(paths.topic(topic.name))
            is_unclear = node is not None and uuid_text(topic.id).encode() not in node.data
            yield topic.name if is_unclear else None

    def repair_topics(
        self, known: MetadataImage, image: MetadataImage, refused: Collection[MalformedNode]
    ) -> Steps[list[Topic]]:
        """Put known assignments in the place of spoilt ones; return those topics.

        `image` and `refused` come from these nodes. The states of such topics have not been read.
        """
        self._is_older = yield from self._has_older_state(known)
        by_topic: dict[str, list[MalformedNode]] = {}
        for one in refused:
            by_topic.setdefault(paths.topic_of(one.path) or "", []).append(one)
        repaired = []
        pace = Pace()
        for topic in known.topics.values():
            if pace.is_due():
                yield
            if not (yield from self._has(topic)):
                continue
            self._there.append(topic)
            reason = self._problem_of_topic(topic, image, by_topic.get(topic.name, ()))
            if reason is not None:
                self.refused.append(reason)
                assignments = tuple(map(assignment_of, topic.partitions))
                data = yield from encode_topic(TopicNode(assignments, topic.id))
                self._put(paths.topic(topic.name), data)
                repaired.append(topic)
        return repaired

    def _has_older_state(self, known: MetadataImage) -> Steps[bool]:
        pace = Pace()
        for topic in known.topics.values():
            node = self.nodes.get(paths.topic(topic.name))
            if node is None or uuid_text(topic.id).encode() not in node.data:
                continue
            for partition in topic.partitions:
                state = self.nodes.get(paths.state(topic.name, partition.index))
                if state is not None and state.version < partition.partition_epoch:
                    return True
                if pace.is_due():
                    yield
        return False

    def repair_states(self, image: MetadataImage, controller_epoch: int) -> Steps[None]:
        """Put known states in the place of spoilt ones, of the topics that are there.

        `image` is that of the nodes before anything was repaired.
        """
        pace = Pace()
        for topic in self._there:
            found = image.topic_by_id(topic.id)
            read = found.partitions if found is not None and found.name == topic.name else ()
            for partition in topic.partitions:
                if partition.index >= len(read) or read[partition.index] != partition:
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
            if node is None and self._is_older and resource.type == ResourceType.TOPIC:
                self._put(path, encode_config(settings))
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

    def _has(self, topic: Topic) -> Steps[bool]:
        """Tell whether the tree has this topic, and not a later one of its name, or its remains."""
        path, parent = paths.topic(topic.name), paths.partitions(topic.name)
        node, copy = self.nodes.get(path), self.nodes.get(parent)
        if paths.delete_topic(topic.name) in self.nodes:
            return False
        if node is None or self._is_older:
            return self._is_older
        if uuid_text(topic.id).encode() in node.data:
            return True  # decoding would cost as much as reading all topics once more
        copied = None if copy is None else decode_id_copy(parent, copy.data)
        if copied is not None:
            return copied == topic.id
        try:
            stored = yield from decode_topic(path, node.data)
        except MalformedNode:
            return True  # nobody knows another one
        return stored.topic_id is None

    def _problem_of_topic(
        self, topic: Topic, image: MetadataImage, refused: Collection[MalformedNode]
    ) -> MalformedNode | None:
        """Return what is wrong with the node of a topic; `refused` are nodes of this topic."""
        path = paths.topic(topic.name)
        found = image.topic(topic.name)
        if path not in self.nodes:
            return MalformedNode(path, "it is missing, and the tree is older than what is known")
        if found is not None and found.id != topic.id:
            return MalformedNode(path, f"topic_id is not {uuid_text(topic.id)}, which is known")
        if found is not None and len(found.partitions) < len(topic.partitions):
            return MalformedNode(path, "it has fewer partitions than are known")
        for one in refused:
            if one.path == path:
                return one
            key = paths.state_owner(one.path)
            state = self.nodes.get(one.path)
            if key is None or state is None:
                continue
            is_known = key.partition < len(topic.partitions)
            # A known state that does not fit, or one of a partition that nobody has heard of.
            if not is_known or _problem_of_state(topic, key.partition, state) is None:
                problem = f"it does not fit partition {key.partition}: {one.problem}"
                return MalformedNode(path, problem)
        return None

    def _repair_state(self, topic: Topic, partition: Partition, controller_epoch: int) -> None:
        path = paths.state(topic.name, partition.index)
        node = self.nodes.get(path)
        data = encode_state(state_of(partition, controller_epoch))
        if node is None:
            self.refused.append(MalformedNode(path, "it is missing"))
            self._create_state(topic, partition, data)
            return
        problem = _problem_of_state(topic, partition.index, node)
        if problem is not None:
            self.refused.append(problem)
            self._set_state(partition, path, node, data, [])

    def _put(self, path: str, data: bytes) -> None:
        if path in self.nodes:
            self._set(path, data)
        else:
            self.multis.append([CreateNode(path, data)])
            self.nodes[path] = StoredNode(data)

    def _set(self, path: str, data: bytes) -> None:
        node = self.nodes[path]
        self.multis.append([SetData(path, data, node.version)])
        self.nodes[path] = node._replace(data=data, version=node.version + 1)

    def _create_state(self, topic: Topic, partition: Partition, data: bytes) -> None:
        path = paths.state(topic.name, partition.index)
        parents = {
            paths.partitions(topic.name): encode_id_copy(topic.id),
            paths.partition(topic.name, partition.index): b"",
        }
        missing = {one: content for one, content in parents.items() if one not in self.nodes}
        creations = [CreateNode(*one) for one in missing.items()]
        self.nodes |= {one: StoredNode(content) for one, content in missing.items()}
        self._set_state(
            partition, path, StoredNode(data), data, [*creations, CreateNode(path, data)]
        )

    def _set_state(
        self,
        partition: Partition,
        path: str,
        node: StoredNode,
        data: bytes,
        before: Collection[Operation],
    ) -> None:
        """Set a state until its version is above the known epoch of its partition.

        Brokers ignore what has an older epoch than they know.
        """
        end = max(node.version, partition.partition_epoch) + 1
        writes = [*before, *(SetData(path, data, number) for number in range(node.version, end))]
        for first in range(0, len(writes), SETS_PER_MULTI):
            self.multis.append(writes[first : first + SETS_PER_MULTI])
        self.nodes[path] = node._replace(data=data, version=end)


def _problem_of_state(topic: Topic, index: int, node: StoredNode) -> MalformedNode | None:
    """Return why a state cannot follow what is known of its partition; None if it can."""
    path, known = paths.state(topic.name, index), topic.partitions[index]
    if node.version < known.partition_epoch:
        return MalformedNode(
            path, f"its version goes from {known.partition_epoch} back to {node.version}"
        )
    try:
        read = read_partition(topic.name, index, assignment_of(known), known, node)
    except MalformedNode as malformed:
        return malformed
    if node.version == known.partition_epoch and read != known:
        return MalformedNode(path, "it has changed without a new version")
    return None
