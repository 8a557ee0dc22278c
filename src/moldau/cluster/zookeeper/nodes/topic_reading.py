"""Reads one topic: its node, the states of its partitions, and its configs if it is new.

They are read together, because each alone may be wrong: a state whose leader is no replica, or a
partition without a state. A topic is in the image once its node has an id and its partitions have
states. Until then the controller is asked for what is missing (`tool_requests`). Tools write the
configs of a topic before its node, so configs alone do not make a topic, and may be left from one
that was never created: they come into the image with the topic.

A tool of an older Kafka writes the node without the fields that came later. What it erased is taken
from the image, and the controller is asked to restore it. In particular a topic keeps its id:
brokers would delete the logs of a topic whose id has changed (KAFKA-14190).

If a node is malformed, `MalformedNode` is raised and nothing of the topic changes.

A topic may have many partitions, so all of this is done in steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from moldau.base.ids import TopicId
from moldau.base.tuples import NamedTuple
from moldau.cluster.changes import (
    Change,
    ConfigChanged,
    PartitionCreated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER, ConfigResource, Partition, ResourceType, Topic
from moldau.cluster.topics import check_topic_name
from moldau.cluster.zookeeper.client.port import SetData
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.config_nodes import TOPICS, ConfigEntity, config_path
from moldau.cluster.zookeeper.nodes.config_resources import usable_configs
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.state_nodes import decode_state
from moldau.cluster.zookeeper.nodes.steps import Pace, Steps, amount_of, differ
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    PartitionsWanted,
    ToolRequest,
    TopicNodeIncomplete,
)
from moldau.cluster.zookeeper.nodes.topic_nodes import (
    Assignment,
    TopicNode,
    decode_id_copy,
    decode_topic,
    encode_topic,
)
from moldau.protocol.errors import ApiError

EPOCHS_MISSED_MAX: Final = 2**30
"""By which a leader epoch may grow unseen. There are not as many elections, and those that follow
have to fit into 32 bits: otherwise nobody could fetch the partition, nor others beside it."""


class TopicReading(NamedTuple):
    """What follows from the nodes of a topic."""

    changes: list[Change]
    requests: list[ToolRequest]
    refused: list[MalformedNode]
    """Configs that were left out."""


def assignment_of(partition: Partition) -> Assignment:
    """Return the replicas of a partition as the topic node has them."""
    return Assignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)


def states_to_read(image: MetadataImage, name: str, node: StoredNode) -> Steps[list[int]]:
    """Return the partitions whose states have to be read together with this topic node.

    They are the new ones and those whose replicas were changed. Of the others the image has the
    state.
    """
    stored = yield from decode_topic(paths.topic(name), node.data)
    known = _same_topic(image.topic(name), stored)
    stored = yield from _with_moves_restored(stored, known)
    partitions = known.partitions if known else ()
    found = []
    pace = Pace()
    for index, assignment in enumerate(stored.assignments):
        if index >= len(partitions) or assignment_of(partitions[index]) != assignment:
            found.append(index)
        if pace.is_due(len(assignment.replicas)):
            yield
    return found


def read_topic(
    image: MetadataImage,
    name: str,
    node: StoredNode,
    states: Mapping[int, StoredNode],
    config: StoredNode | None = None,
    known_id: TopicId | None = None,
) -> Steps[TopicReading]:
    """Return what follows from a topic node, these states and the node of the configs.

    A partition whose state is not given keeps that of the image. `known_id` is the id that a
    broker remembers for a topic that is not in the image, for instance from its log directories.
    """
    path = paths.topic(name)
    _check_name(path, name)
    stored = yield from decode_topic(path, node.data)
    known = _same_topic(image.topic(name), stored)
    whole = yield from _with_moves_restored(stored, known)
    if whole.topic_id is None:
        # A topic without any state is new. What is remembered is that of an older one.
        remembered = known_id if states else None
        whole = replace(whole, topic_id=known.id if known else remembered)
    _check_id_is_free(image, path, name, whole.topic_id)
    partitions = yield from _partitions(path, name, whole, known, states)
    configs, refused = ({}, []) if known else (yield from _configs(name, config))
    changes: list[Change] = []
    if known is None and (old := image.topic(name)) is not None:
        changes.append(TopicRemoved(old.id))
    if partitions and whole.topic_id is not None:
        changes.extend((yield from _stated(name, whole.topic_id, known, partitions)))
        changes.extend(_configured(name, configs))
    is_complete = stored.topic_id == whole.topic_id and not (
        yield from differ(stored.assignments, whole.assignments)
    )
    requests = list(_requests(name, whole, len(partitions), configs, is_complete=is_complete))
    return TopicReading(changes, requests, refused)


def has_foreign_id(
    image: MetadataImage, name: str, node: StoredNode, copy: StoredNode | None
) -> Steps[bool]:
    """Tell whether somebody has put another id into the node of a known topic.

    `copy` has the id that was given to the topic. By another one it would count as a new topic, and
    brokers would delete its logs.
    """
    known = image.topic(name)
    if known is None or copy is None:
        return False
    stored = yield from decode_topic(paths.topic(name), node.data)
    is_other = stored.topic_id not in {None, known.id}
    return is_other and decode_id_copy(paths.partitions(name), copy.data) == known.id


def restored_topic(
    image: MetadataImage, name: str, node: StoredNode, topic_id: TopicId
) -> Steps[SetData]:
    """Return the write that restores what an older tool erased from a topic node."""
    path = paths.topic(name)
    stored = yield from decode_topic(path, node.data)
    whole = yield from _with_moves_restored(stored, image.topic(name))
    data = yield from encode_topic(TopicNode(whole.assignments, topic_id))
    return SetData(path, data, node.version)


def _check_name(path: str, name: str) -> None:
    try:
        check_topic_name(name)
    except ApiError as error:
        raise MalformedNode(path, "its name is no name of a topic") from error


def _same_topic(known: Topic | None, stored: TopicNode) -> Topic | None:
    """Return the known topic, unless the node has another id: it was deleted and created again."""
    return known if known and stored.topic_id in {None, known.id} else None


def _with_moves_restored(stored: TopicNode, known: Topic | None) -> Steps[TopicNode]:
    """Return a node of version 1 with the reassignments that it cannot have."""
    if stored.version > 1 or known is None:
        return stored
    assignments = list(stored.assignments)
    pace = Pace()
    for index, partition in enumerate(known.partitions[: len(assignments)]):
        if assignments[index].replicas == partition.replicas:
            assignments[index] = assignment_of(partition)
        if pace.is_due(len(partition.replicas)):
            yield
    return replace(stored, assignments=tuple(assignments))


def _check_id_is_free(image: MetadataImage, path: str, name: str, topic_id: TopicId | None) -> None:
    owner = name if topic_id is None else image.topic_names.get(topic_id, name)
    if owner != name:
        raise MalformedNode(path, f"topic_id is that of topic {owner}")


def _partitions(
    path: str,
    name: str,
    whole: TopicNode,
    known: Topic | None,
    states: Mapping[int, StoredNode],
) -> Steps[list[Partition]]:
    """Return the partitions up to the first that has no state."""
    before = known.partitions if known else ()
    if len(whole.assignments) < len(before):
        raise MalformedNode(
            path, f"it has {len(whole.assignments)} partitions, but {len(before)} are known"
        )
    partitions: list[Partition] = []
    pace = Pace()
    for index, assignment in enumerate(whole.assignments):
        old = before[index] if index < len(before) else None
        state = states.get(index)
        partition = read_partition(name, index, assignment, old, state)
        if partition is None:
            break
        partitions.append(partition)
        if pace.is_due(len(assignment.replicas) + amount_of(state and state.data)):
            yield
    beyond = yield from _last_state(states, len(whole.assignments))
    if beyond > len(partitions):
        missing = paths.state(name, len(partitions))
        raise MalformedNode(missing, f"it is missing, but partition {beyond} has a state")
    return partitions


def _last_state(states: Mapping[int, StoredNode], count: int) -> Steps[int]:
    """Return the last of the first `count` partitions that has a state, or -1.

    A state beyond the last partition of the node was created after the node was read.
    """
    last = -1
    pace = Pace()
    for index in states:
        if last < index < count:
            last = index
        if pace.is_due():
            yield
    return last


def read_partition(
    name: str,
    index: int,
    assignment: Assignment,
    known: Partition | None,
    state: StoredNode | None,
) -> Partition | None:
    """Return a partition with these replicas; None if it has no state.

    A state that is older than the known one is ignored.
    """
    path = paths.state(name, index)
    if state is not None and (known is None or state.version >= known.partition_epoch):
        read = decode_state(path, state.data)
        if known is not None and read.leader_epoch < known.leader_epoch:
            raise MalformedNode(
                path, f"leader_epoch goes from {known.leader_epoch} back to {read.leader_epoch}"
            )
        if known is not None and read.leader_epoch - known.leader_epoch > EPOCHS_MISSED_MAX:
            raise MalformedNode(path, f"leader_epoch cannot be {read.leader_epoch} already")
        if (
            known is not None
            and read.leader_epoch == known.leader_epoch
            and read.leader != known.leader
        ):
            raise MalformedNode(path, "leader changes without a new leader_epoch")
        partition = read.partition(index, assignment, state.version)
    elif known is not None:
        replicas, adding, removing = assignment
        partition = replace(
            known, replicas=replicas, adding_replicas=adding, removing_replicas=removing
        )
    else:
        return None
    if partition.leader not in {NO_LEADER, *partition.replicas}:
        raise MalformedNode(path, f"leader {partition.leader} is no replica")
    if not {*partition.isr} <= {*partition.replicas}:
        raise MalformedNode(path, "isr has a broker that is no replica")
    if not {*partition.eligible_leaders} <= {*partition.replicas}:
        raise MalformedNode(path, "eligible_leader_replicas has a broker that is no replica")
    if partition.leader not in {NO_LEADER, *partition.isr}:
        raise MalformedNode(path, f"leader {partition.leader} is not in isr")
    return partition


def _configs(
    name: str, config: StoredNode | None
) -> Steps[tuple[dict[str, str], list[MalformedNode]]]:
    """Return the configs of a topic. A topic without readable configs is a topic all the same."""
    if config is None:
        return {}, []
    try:
        return (yield from usable_configs(config_path(ConfigEntity(TOPICS, name)), config.data))
    except MalformedNode as malformed:
        return {}, [malformed]


def _configured(name: str, configs: Mapping[str, str]) -> Iterator[Change]:
    resource = ConfigResource(ResourceType.TOPIC, name)
    return (ConfigChanged(resource, key, value) for key, value in configs.items())


def _stated(
    name: str, topic_id: TopicId, known: Topic | None, partitions: list[Partition]
) -> Steps[list[Change]]:
    """State what is new as a whole: several changes may have become one."""
    changes: list[Change] = [] if known else [TopicCreated(name, topic_id)]
    before = known.partitions if known else ()
    pace = Pace()
    for partition in partitions:
        if partition.index >= len(before) or before[partition.index] != partition:
            changes.append(PartitionCreated(topic_id, partition))
        if pace.is_due(len(partition.replicas)):
            yield
    return changes


def _requests(
    name: str, whole: TopicNode, with_state: int, configs: Mapping[str, str], *, is_complete: bool
) -> Iterator[ToolRequest]:
    """Ask for what is missing; `is_complete` tells whether the node itself has all of `whole`."""
    is_new = whole.topic_id is None and not with_state
    if not is_new and (whole.topic_id is None or not is_complete):
        yield TopicNodeIncomplete(name, whole.topic_id)
    if with_state < len(whole.assignments) and (is_new or whole.topic_id is not None):
        yield PartitionsWanted(
            name,
            whole.topic_id,
            with_state,
            whole.assignments[with_state:],
            {} if with_state else configs,
        )
