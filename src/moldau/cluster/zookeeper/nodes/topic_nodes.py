"""The node of a topic: /brokers/topics/T, the replicas of each partition.

Version 1 is that of Kafka until 2.3. Version 2 adds reassignments that are under way (2.4),
version 3 the id of the topic (2.8). Kafka reads every field that is there, whatever the version
says, and so do we.

Partitions are written by number, for people who look at the node. That is also Kafka's order for up
to eleven of them; beyond that its order is that of a hash map, on which no reader depends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, TopicId, uuid_bytes, uuid_text
from moldau.base.tuples import NamedTuple
from moldau.cluster.zookeeper.nodes.node_content import NodeObject, decode_object, encode_object
from moldau.cluster.zookeeper.nodes.paths import number


class Assignment(NamedTuple):
    """The replicas of one partition."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicNode:
    """The replicas of all partitions, by number, and the id of the topic."""

    assignments: tuple[Assignment, ...]
    topic_id: TopicId | None = None
    version: int = 3


def encode_topic(node: TopicNode) -> bytes:
    """Encode version 1, 2 or 3."""
    assignments = node.assignments
    replicas = _by_partition(one.replicas for one in assignments)
    if node.version == 1:
        return encode_object({"version": 1, "partitions": replicas})
    fields: dict[str, Any] = {
        "version": node.version,
        "partitions": replicas,
        "adding_replicas": _by_partition(one.adding for one in assignments),
        "removing_replicas": _by_partition(one.removing for one in assignments),
    }
    if node.version == 2:
        return encode_object(fields)
    if node.topic_id is not None:
        fields["topic_id"] = uuid_text(node.topic_id)
    order = ("partitions", "topic_id", "adding_replicas", "removing_replicas", "version")
    return encode_object({key: fields[key] for key in order if key in fields})


def _by_partition(lists: Iterable[tuple[BrokerId, ...]]) -> dict[str, tuple[BrokerId, ...]]:
    return {str(index): brokers for index, brokers in enumerate(lists) if brokers}


def decode_topic(path: str, data: bytes | None) -> TopicNode:
    """Decode any version from 1 on."""
    fields = decode_object(path, data)
    replicas = _lists(fields, "partitions")
    if not replicas:
        raise fields.refuse("it has no partitions")
    if max(replicas) != len(replicas) - 1:
        raise fields.refuse(f"the numbers of its partitions are not 0 to {len(replicas) - 1}")
    adding, removing = _lists(fields, "adding_replicas"), _lists(fields, "removing_replicas")
    assignments = tuple(
        Assignment(replicas[index], adding.pop(index, ()), removing.pop(index, ()))
        for index in range(len(replicas))
    )
    for unknown in (*adding, *removing):
        raise fields.refuse(f"it moves replicas of partition {unknown}, which it does not have")
    for index, one in enumerate(assignments):
        if not one.replicas:
            raise fields.refuse(f"partition {index} has no replicas")
        if not {*one.adding, *one.removing} <= {*one.replicas}:
            raise fields.refuse(f"partition {index} moves a broker that is no replica")
    return TopicNode(assignments, _topic_id(fields), fields.number("version", 1, least=1))


def _lists(fields: NodeObject, name: str) -> dict[int, tuple[BrokerId, ...]]:
    lists = fields.object(name, {})
    by_number = {}
    for text in lists:
        index = number(text)
        if index is None:
            raise fields.refuse(f"{name} has a key that is no partition")
        by_number[index] = lists.brokers(text)
    return by_number


def _topic_id(fields: NodeObject) -> TopicId | None:
    if "topic_id" not in fields:
        return None
    text = fields.text("topic_id")
    try:
        value = uuid_bytes(text) if len(text) == 22 else ZERO_TOPIC_ID
    except ValueError:
        value = ZERO_TOPIC_ID
    # Base64 ignores some characters and bits, so another text could stand for the same id.
    if value == ZERO_TOPIC_ID or uuid_text(value) != text:
        raise fields.refuse("topic_id is no id of a topic")
    return TopicId(value)
