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

from moldau.base.ids import ZERO_TOPIC_ID, BrokerId, TopicId, uuid_bytes, uuid_text
from moldau.base.tuples import NamedTuple
from moldau.cluster.zookeeper.nodes.node_content import (
    MalformedNode,
    NodeObject,
    decode_object,
    decode_object_in_steps,
    encode_object,
    encode_value,
)
from moldau.cluster.zookeeper.nodes.paths import number
from moldau.cluster.zookeeper.nodes.steps import Pace, Steps


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


def encode_topic(node: TopicNode) -> Steps[bytes]:
    """Encode version 1, 2 or 3."""
    assignments = node.assignments
    fields = {
        "version": encode_value(node.version),
        "partitions": (yield from _by_partition(one.replicas for one in assignments)),
    }
    if node.version > 1:
        fields["adding_replicas"] = yield from _by_partition(one.adding for one in assignments)
        fields["removing_replicas"] = yield from _by_partition(one.removing for one in assignments)
    order: Iterable[str] = fields
    if node.version > 2:
        if node.topic_id is not None:
            fields["topic_id"] = encode_value(uuid_text(node.topic_id))
        order = ("partitions", "topic_id", "adding_replicas", "removing_replicas", "version")
    encoded = [b'"%b":%b' % (key.encode(), fields[key]) for key in order if key in fields]
    return b"{%b}" % b",".join(encoded)


def _by_partition(lists: Iterable[tuple[BrokerId, ...]]) -> Steps[bytes]:
    pieces: list[bytes] = []
    piece: dict[str, tuple[BrokerId, ...]] = {}
    pace = Pace()
    for index, brokers in enumerate(lists):
        if brokers:
            piece[str(index)] = brokers
        if pace.is_due(1 + len(brokers)):
            if piece:
                pieces.append(encode_object(piece)[1:-1])
            piece = {}
            yield
    if piece:
        pieces.append(encode_object(piece)[1:-1])
    return b"{%b}" % b",".join(pieces)


def decode_topic(path: str, data: bytes | None) -> Steps[TopicNode]:
    """Decode any version from 1 on."""
    fields = yield from decode_object_in_steps(path, data)
    replicas = yield from _lists(fields, "partitions")
    if not replicas:
        raise fields.refuse("it has no partitions")
    if max(replicas) != len(replicas) - 1:
        raise fields.refuse(f"the numbers of its partitions are not 0 to {len(replicas) - 1}")
    adding = yield from _lists(fields, "adding_replicas")
    removing = yield from _lists(fields, "removing_replicas")
    assignments = []
    pace = Pace()
    for index in range(len(replicas)):
        one = Assignment(replicas[index], adding.pop(index, ()), removing.pop(index, ()))
        if not one.replicas:
            raise fields.refuse(f"partition {index} has no replicas")
        if not {*one.adding, *one.removing} <= {*one.replicas}:
            raise fields.refuse(f"partition {index} moves a broker that is no replica")
        assignments.append(one)
        if pace.is_due(len(one.replicas)):
            yield
    for unknown in (*adding, *removing):
        raise fields.refuse(f"it moves replicas of partition {unknown}, which it does not have")
    version = fields.number("version", 1, least=1)
    return TopicNode(tuple(assignments), _topic_id(fields), version)


def _lists(fields: NodeObject, name: str) -> Steps[dict[int, tuple[BrokerId, ...]]]:
    lists = fields.object(name, {})
    by_number = {}
    pace = Pace()
    for text in lists:
        index = number(text)
        if index is None:
            raise fields.refuse(f"{name} has a key that is no partition")
        by_number[index] = lists.brokers(text)
        if pace.is_due(1 + len(by_number[index])):
            yield
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


def encode_id_copy(topic_id: TopicId) -> bytes:
    """Encode the id of a topic for the parent of its partitions, which is empty in Kafka.

    A tool of an older Kafka writes the topic node without the id, and knows nothing of this copy.
    The copy is deleted together with the topic.
    """
    return encode_object({"version": 1, "topic_id": uuid_text(topic_id)})


def decode_id_copy(path: str, data: bytes | None) -> TopicId | None:
    """Decode the copy of an id; None if there is none, or nothing that could be used."""
    try:
        return _topic_id(decode_object(path, data)) if data else None
    except MalformedNode:
        return None
