"""What brokers tell of topics, in the one form that administrators see.

There are two questions for it: Metadata, which every broker answers, and DescribeTopicPartitions,
which comes in pages and tells of eligible leaders too (KIP-966). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.client.errors import BrokerError, broker_error
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import DescribeTopicPartitionsResponse, MetadataResponse


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition; brokers are given by id."""

    partition: int
    leader: int | None
    """None if the partition has no leader."""
    leader_epoch: int | None
    """None if the broker is too old."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Out of sync, but safe to lead (KIP-966); None if the broker does not report it."""
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in order."""

    name: str
    topic_id: bytes | None
    """None if the broker is too old."""
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


class Told(NamedTuple):
    """What an answer says of one topic."""

    name: str | None
    topic_id: bytes
    outcome: TopicDescription | BrokerError


def described_by_metadata(answer: MetadataResponse) -> list[Told]:
    """Read an answer to Metadata; a BrokerError if it is one as a whole."""
    if answer.error_code != ErrorCode.NONE:
        raise broker_error(answer.error_code)
    return [_told(topic, topic.partitions) for topic in answer.topics]


def described_by_pages(pages: Iterable[DescribeTopicPartitionsResponse]) -> list[Told]:
    """Put pages together: a topic that one page cuts goes on in the next."""
    topics: dict[str | None, tuple[Any, list[Any]]] = {}
    for page in pages:
        for topic in page.topics:
            topics.setdefault(topic.name, (topic, []))[1].extend(topic.partitions)
    return [_told(topic, partitions) for topic, partitions in topics.values()]


def _told(topic: Any, partitions: Iterable[Any]) -> Told:
    if topic.error_code != ErrorCode.NONE:
        return Told(topic.name, topic.topic_id, broker_error(topic.error_code))
    # A page that was asked for again may repeat a partition: the later word stands.
    described = {one.partition_index: _partition(one) for one in partitions}
    description = TopicDescription(
        topic.name or "",
        None if topic.topic_id == ZERO_TOPIC_ID else topic.topic_id,
        topic.is_internal,
        tuple(described[index] for index in sorted(described)),
    )
    return Told(topic.name, topic.topic_id, description)


def _partition(told: Any) -> PartitionDescription:
    return PartitionDescription(
        told.partition_index,
        told.leader_id if told.leader_id >= 0 else None,
        told.leader_epoch if told.leader_epoch >= 0 else None,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
        _optional(getattr(told, "eligible_leader_replicas", None)),
        _optional(getattr(told, "last_known_elr", None)),
    )


def _optional(brokers: list[int] | None) -> tuple[int, ...] | None:
    return None if brokers is None else tuple(brokers)
