"""Subscriptions and assignments as bytes: what consumers pass each other through the broker.

Written in the latest version, which older clients read as far as they know it: a version only ever
adds at the end. Read in any: a newer one as the latest known here. The bytes come from another
member, perhaps of another library; what is no subscription or assignment raises `CorruptAnswer`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from moldau.base.errors import ProtocolError
from moldau.client.assignors.interface import Assignment, Subscription
from moldau.client.errors import CorruptAnswer
from moldau.client.records import TopicPartition
from moldau.protocol.compiler import decoder, encode
from moldau.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
)

PROTOCOL_TYPE = "consumer"
"""The protocol type that groups of consumers join with."""

_LATEST = 3
_VERSION_SIZE = 2

M = TypeVar("M", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def encode_subscription(subscription: Subscription) -> bytes:
    """Write what a member wants; its instance id travels beside, not inside."""
    return _encoded(
        ConsumerProtocolSubscription(
            sorted(subscription.topics),
            subscription.user_data,
            _by_topic(sorted(subscription.owned_partitions)),
            subscription.generation,
            subscription.rack,
        )
    )


def decode_subscription(data: bytes, instance_id: str | None = None) -> Subscription:
    """Read what a member wants."""
    found = _decoded(ConsumerProtocolSubscription, data, "subscription")
    return Subscription(
        tuple(found.topics),
        found.user_data,
        _flat(found.owned_partitions),
        found.generation_id,
        found.rack_id,
        instance_id,
    )


def encode_assignment(assignment: Assignment) -> bytes:
    """Write what a member shall read."""
    return _encoded(
        ConsumerProtocolAssignment(_by_topic(assignment.partitions), assignment.user_data)
    )


def decode_assignment(data: bytes) -> Assignment:
    """Read what a member shall read."""
    found = _decoded(ConsumerProtocolAssignment, data, "assignment")
    return Assignment(_flat(found.assigned_partitions), found.user_data)


def _encoded(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment) -> bytes:
    return _LATEST.to_bytes(_VERSION_SIZE, "big") + encode(message, _LATEST)


def _decoded(declared: type[M], data: bytes, kind: str) -> M:
    try:
        if len(data) < _VERSION_SIZE:
            raise ProtocolError(f"{len(data)} bytes hold no version")
        version = int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)
        message, _end = decoder(declared, min(version, _LATEST))(memoryview(data), _VERSION_SIZE)
    except ProtocolError as error:
        raise CorruptAnswer(
            f"a member of the group sent an invalid {kind}: {error}",
            advice="Find the client in this group that does not speak the consumer protocol.",
        ) from error
    return message


def _by_topic(partitions: Iterable[TopicPartition]) -> list[ConsumerProtocolTopicPartition]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return [ConsumerProtocolTopicPartition(topic, numbers) for topic, numbers in by_topic.items()]


def _flat(listed: Iterable[ConsumerProtocolTopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(one.topic, partition) for one in listed for partition in one.partitions
    )
