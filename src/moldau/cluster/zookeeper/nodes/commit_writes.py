"""Turns the changes that a controller commits into writes to nodes.

A commit may be too large for one ZooKeeper transaction, so the order of the writes is safe to cut
anywhere. Whatever part is there when a controller dies, the next one can go on from it:

* Parents come before their children, and are deleted after them.
* The configs of a new topic come before its node, as in Kafka's AdminZkClient. Its node comes
  before the states of its partitions: without them they are new partitions (`tool_requests`).
* A topic node gets replicas before a state names them, and loses them after no state does.
* A topic that is deleted is marked in /admin/delete_topics first, and the mark goes last. Without
  it, a topic whose states are gone would be taken for a new one.

Each set and delete names the version that it was decided on. The version of a state is the epoch of
its partition. So each change of a partition is one set of its state, also if only its replicas have
changed. The caller knows the versions of all other nodes, and adds the check of the controller
epoch.

Brokers write their own nodes, so changes of brokers write nothing (`tree_image`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from moldau.base.checks import invariant
from moldau.base.ids import BrokerId, TopicId, uuid_text
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ConfigChanged,
    EligibleLeadersCleared,
    FeatureLevelSet,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage, changed_partition
from moldau.cluster.model import ConfigResource, Partition, ResourceType, Topic
from moldau.cluster.steps import PARTITIONS_PER_STEP
from moldau.cluster.zookeeper.client.port import (
    CreateNode,
    DeleteNode,
    NodeKind,
    Operation,
    SetData,
)
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.cluster_nodes import (
    FeatureNode,
    ProducerIdBlock,
    encode_features,
    encode_producer_ids,
)
from moldau.cluster.zookeeper.nodes.config_nodes import (
    TOPICS,
    ConfigEntity,
    config_path,
    encode_config,
    encode_config_change,
)
from moldau.cluster.zookeeper.nodes.config_resources import entity_of
from moldau.cluster.zookeeper.nodes.state_nodes import encode_state, state_of
from moldau.cluster.zookeeper.nodes.steps import Pace, Steps, differ
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import PartitionsWanted
from moldau.cluster.zookeeper.nodes.topic_nodes import (
    Assignment,
    TopicNode,
    encode_id_copy,
    encode_topic,
)
from moldau.cluster.zookeeper.nodes.topic_reading import assignment_of


def commit_writes(
    before: MetadataImage,
    changes: Iterable[Change],
    after: MetadataImage,
    controller_epoch: int,
    versions: Mapping[str, int],
    wanted: Mapping[str, PartitionsWanted] | None = None,
) -> Iterator[Operation | None]:
    """Return the writes that bring the tree from one image to another by these changes.

    None comes where there was nothing to write for a while, so that the caller can pause.

    `versions` has the version of every node that exists, except those of states and their parents
    of partitions in the image. Those of marks for deletion need not be right. `wanted` has, by
    topic, partitions that tools have added to topic nodes and that are not in the image: they stay
    there.
    """
    return _CommitWrites(before, after, controller_epoch, versions, wanted or {}).writes(changes)


def without_directories(change: Change) -> Change:
    """Return a change as the tree can keep it: it does not have the directories of replicas."""
    if isinstance(change, PartitionCreated):
        return replace(change, partition=replace(change.partition, directories=()))
    if isinstance(change, PartitionChanged):
        return replace(change, directories=None)
    return change


def leftover_removal(name: str, existing: Mapping[str, StoredNode]) -> Iterator[Operation | None]:
    """Return the writes that delete what is left of a topic that is not in the image.

    `existing` has its nodes, and may have other nodes. None comes where the caller can pause.
    """
    path, mark = paths.topic(name), paths.delete_topic(name)
    if mark not in existing:
        yield CreateNode(mark)
    by_depth: dict[int, list[str]] = {}
    for count, one in enumerate(existing, 1):
        if one == path or one.startswith(f"{path}/"):
            by_depth.setdefault(one.count("/"), []).append(one)
        if not count % PARTITIONS_PER_STEP:
            yield None
    for depth in sorted(by_depth, reverse=True):
        for one in by_depth[depth]:
            yield DeleteNode(one, existing[one].version)
    config = config_path(ConfigEntity(TOPICS, name))
    if config in existing:
        yield DeleteNode(config, existing[config].version)
    yield DeleteNode(mark)


class _CommitWrites:
    """One commit: collects what its changes touch, then makes the writes."""

    def __init__(
        self,
        before: MetadataImage,
        after: MetadataImage,
        controller_epoch: int,
        versions: Mapping[str, int],
        wanted: Mapping[str, PartitionsWanted],
    ) -> None:
        self._before = before
        self._after = after
        self._controller_epoch = controller_epoch
        self._stored = versions
        self._wanted = wanted
        self._written: dict[str, int | None] = {}
        """Versions after the writes so far; None for a node that was deleted."""
        self._current: dict[tuple[TopicId, int], Partition] = {}
        self._steps: dict[TopicId, list[tuple[Partition | None, Partition]]] = {}
        """Each change of a partition, before and after, by topic."""
        self._removed: list[TopicId] = []
        self._resources: dict[ConfigResource, None] = {}
        self._sets_features = False
        self._producer_ids: ProducerIdBlock | None = None
        self._next_producer_id = before.next_producer_id

    def writes(self, changes: Iterable[Change]) -> Iterator[Operation | None]:
        yield from self._take_all(changes)
        if self._sets_features:
            levels = dict(sorted(self._after.features.items()))
            yield self._put(paths.FEATURE, encode_features(FeatureNode(levels)))
        if self._producer_ids is not None:
            yield self._put(paths.PRODUCER_ID_BLOCK, encode_producer_ids(self._producer_ids))
        for topic_id in self._removed:
            topic = self._before.topic_by_id(topic_id)
            if topic is not None:
                yield from self._removal(topic)
        for resource in self._resources:
            yield from self._config(resource)
        for topic_id, steps in self._steps.items():
            topic = self._after.topic_by_id(topic_id)
            if topic is not None:
                yield from self._topic(topic, steps)

    def _take_all(self, changes: Iterable[Change]) -> Steps[None]:
        for count, change in enumerate(changes, 1):
            if isinstance(change, EligibleLeadersCleared):
                yield from self._clear_eligible_leaders(change.topic)
            else:
                self._take(change)
            if not count % PARTITIONS_PER_STEP:
                yield

    def _take(self, change: Change) -> None:
        match change:
            case TopicCreated():
                self._resources[ConfigResource(ResourceType.TOPIC, change.name)] = None
                self._steps.setdefault(change.topic_id, [])
            case TopicRemoved():
                self._removed.append(change.topic_id)
            case PartitionCreated():
                self._step(change.topic_id, change.partition)
            case PartitionChanged():
                self._change(change)
            case ConfigChanged():
                self._resources[change.resource] = None
            case ProducerIdsAllocated():
                first, self._next_producer_id = self._next_producer_id, change.next_producer_id
                self._producer_ids = ProducerIdBlock(
                    change.broker_id, first, change.next_producer_id - 1
                )
            case FeatureLevelSet():
                self._sets_features = True
            case BrokerRegistered() | BrokerChanged() | BrokerUnregistered():
                pass
            case _:
                invariant(condition=False, message=f"the tree has no node for {change}")

    def _partition(self, topic_id: TopicId, index: int) -> Partition | None:
        """Return a partition after the changes so far."""
        current = self._current.get((topic_id, index))
        if current is not None:
            return current
        topic = self._before.topic_by_id(topic_id)
        return topic.partitions[index] if topic and index < len(topic.partitions) else None

    def _step(self, topic_id: TopicId, partition: Partition) -> None:
        old = self._partition(topic_id, partition.index)
        expected = 0 if old is None else old.partition_epoch + 1
        invariant(
            partition.partition_epoch == expected,
            f"partition {partition.index} of {uuid_text(topic_id)} has epoch"
            f" {partition.partition_epoch}, but its node will have version {expected}",
        )
        self._current[topic_id, partition.index] = partition
        self._steps.setdefault(topic_id, []).append((old, partition))

    def _change(self, change: PartitionChanged) -> None:
        old = self._partition(change.topic_id, change.index)
        invariant(old is not None, f"partition {change.index} of a changed topic does not exist")
        self._step(change.topic_id, changed_partition(cast(Partition, old), change))

    def _clear_eligible_leaders(self, name: str) -> Steps[None]:
        topics: Iterable[Topic] = self._after.topics.values()
        if name:
            topic = self._after.topics.get(name)
            topics = () if topic is None else (topic,)
        pace = Pace()
        for topic in topics:
            for index in range(len(topic.partitions)):
                if pace.is_due():
                    yield
                old = self._partition(topic.id, index)
                if old is not None and (old.eligible_leaders or old.last_known_leaders):
                    self._change(
                        PartitionChanged(
                            topic.id, index, eligible_leaders=(), last_known_leaders=()
                        )
                    )

    def _version(self, path: str) -> int | None:
        return self._written[path] if path in self._written else self._stored.get(path)

    def _put(self, path: str, data: bytes) -> Operation:
        version = self._version(path)
        self._written[path] = 0 if version is None else version + 1
        return CreateNode(path, data) if version is None else SetData(path, data, version)

    def _delete(self, path: str) -> DeleteNode:
        version = self._version(path)
        self._written[path] = None
        return DeleteNode(path, version)

    def _parent(self, path: str) -> Iterator[Operation]:
        if self._version(path) is None:
            yield self._put(path, b"")

    def _removal(self, topic: Topic) -> Iterator[Operation]:
        mark = paths.delete_topic(topic.name)
        yield from self._parent(mark)
        for partition in reversed(topic.partitions):
            yield DeleteNode(paths.state(topic.name, partition.index), partition.partition_epoch)
            yield self._delete(paths.partition(topic.name, partition.index))
        if topic.partitions:
            yield self._delete(paths.partitions(topic.name))
        yield self._delete(paths.topic(topic.name))
        config = config_path(ConfigEntity(TOPICS, topic.name))
        if self._version(config) is not None:
            yield self._delete(config)
        self._written[mark] = None
        yield DeleteNode(mark)  # that it is there says all: its content may be anybody's

    def _config(self, resource: ConfigResource) -> Iterator[Operation]:
        name, is_of_topic = resource.name, resource.type == ResourceType.TOPIC
        if is_of_topic and name in self._before.topics and name not in self._after.topics:
            return  # They went with the topic.
        entity = entity_of(resource)
        parent = f"{paths.CONFIG}/{entity.type}"
        if parent not in paths.CREATED_AT_START:
            yield from self._parent(parent)
        yield self._put(config_path(entity), encode_config(self._after.config(resource)))
        if not is_of_topic or self._is_kept(name):
            # Brokers read the configs of a new topic when they hear of the topic.
            yield CreateNode(
                paths.CONFIG_CHANGE_PREFIX, encode_config_change(entity), kind=NodeKind.SEQUENTIAL
            )

    def _is_kept(self, name: str) -> bool:
        old, new = self._before.topics.get(name), self._after.topics.get(name)
        return (old and old.id) == (new and new.id)

    def _topic(
        self, topic: Topic, steps: list[tuple[Partition | None, Partition]]
    ) -> Iterator[Operation | None]:
        old, path = self._before.topic_by_id(topic.id), paths.topic(topic.name)
        final = None
        if old is None:
            node = yield from self._topic_node(topic)
            yield self._put(path, (yield from encode_topic(node)))
        elif (yield from _moves(steps)):
            stored = yield from self._topic_node(old)
            last = yield from self._topic_node(topic)
            interim = yield from _interim(old, last)
            if (yield from differ(stored.assignments, interim.assignments)):
                yield self._put(path, (yield from encode_topic(interim)))
            if (yield from differ(last.assignments, interim.assignments)):
                final = last
        if not (old and old.partitions):
            yield self._put(paths.partitions(topic.name), encode_id_copy(topic.id))
        for before, after in steps:
            yield from self._state(topic, before, after.index)
        if final is not None:
            yield self._put(path, (yield from encode_topic(final)))

    def _topic_node(self, topic: Topic) -> Steps[TopicNode]:
        known = []
        pace = Pace()
        for partition in topic.partitions:
            known.append(assignment_of(partition))
            if pace.is_due():
                yield
        wanted = self._wanted.get(topic.name)
        added = () if wanted is None else wanted.assignments[max(0, len(known) - wanted.first) :]
        return TopicNode((*known, *added), topic.id)

    def _state(self, topic: Topic, before: Partition | None, index: int) -> Iterator[Operation]:
        # Also the first of several changes writes what the last one leaves: a state in between
        # could name replicas that neither topic node has.
        path = paths.state(topic.name, index)
        data = encode_state(state_of(topic.partitions[index], self._controller_epoch))
        if before is None:
            yield from self._parent(paths.partition(topic.name, index))
            yield CreateNode(path, data)
        else:
            yield SetData(path, data, before.partition_epoch)


def _moves(steps: list[tuple[Partition | None, Partition]]) -> Steps[bool]:
    """Tell whether partitions are new or get other replicas."""
    pace = Pace()
    for before, after in steps:
        if before is None or assignment_of(before) != assignment_of(after):
            return True
        if pace.is_due():
            yield
    return False


def _interim(old: Topic, final: TopicNode) -> Steps[TopicNode]:
    """Return a topic node that fits the states before and after the commit."""
    assignments = list(final.assignments)
    pace = Pace()
    for index, partition in enumerate(old.partitions):
        assignments[index] = _interim_assignment(assignment_of(partition), assignments[index])
        if pace.is_due():
            yield
    return replace(final, assignments=tuple(assignments))


def _interim_assignment(old: Assignment, new: Assignment) -> Assignment:
    dropped: tuple[BrokerId, ...] = tuple(one for one in old.replicas if one not in new.replicas)
    if not dropped:
        return new
    if {*new.replicas} <= {*old.replicas}:
        return old
    return Assignment((*new.replicas, *dropped), new.adding, (*new.removing, *dropped))
