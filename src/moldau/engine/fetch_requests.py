"""The Fetch request for what is wanted, and which part of the answer is about what.

A caller gives a `FetchPosition` for each partition, with a session (`fetch_sessions`) or without
one. One request is filled in for every version at once: the encoder leaves out what a
version does not have.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.base.ids import ZERO_TOPIC_ID
from moldau.base.tuples import NamedTuple
from moldau.engine.errors import CorruptAnswer
from moldau.engine.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchPosition, SessionRequest
from moldau.engine.partitions import TopicPartition
from moldau.protocol.messages.data import (
    FetchablePartitionResponse,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

NO_REPLICA: Final = -1
"""What an answer names where the leader recommends no replica to read from (KIP-392)."""

TOPIC_ID_VERSION: Final = 13
"""The version of Fetch since which topics are named by their ids."""


class FetchLimits(NamedTuple):
    """How long a broker may wait with its answer, and what it may put into it."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    """An `IsolationLevel`."""
    rack: str = ""
    """Where the fetcher stands: a leader may name a replica there. Empty if not told."""


def fetch_version(agreed: int, wanted: Mapping[TopicPartition, FetchPosition]) -> int:
    """Return the version to ask in: ids name topics only where all of them are known."""
    if any(want.topic_id == ZERO_TOPIC_ID for want in wanted.values()):
        return min(agreed, TOPIC_ID_VERSION - 1)
    return agreed


def without_session(wanted: Mapping[TopicPartition, FetchPosition]) -> SessionRequest:
    """Ask for all of it, and have the broker remember nothing."""
    return SessionRequest(NO_SESSION, FINAL_EPOCH, dict(wanted), [])


def fetch_request(asked: SessionRequest, limits: FetchLimits) -> FetchRequest:
    """Write the request."""
    topics: dict[tuple[str, bytes], list[FetchPartition]] = {}
    for (topic, index), want in asked.send.items():
        topics.setdefault((topic, want.topic_id), []).append(
            FetchPartition(
                index,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                partition_max_bytes=want.max_bytes,
            )
        )
    forgotten: dict[tuple[str, bytes], list[int]] = {}
    for topic_id, (topic, index) in asked.forget:
        forgotten.setdefault((topic, topic_id), []).append(index)
    return FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation,
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=[FetchTopic(*name, partitions) for name, partitions in topics.items()],
        forgotten_topics_data=[
            ForgottenTopic(*name, partitions) for name, partitions in forgotten.items()
        ],
        rack_id=limits.rack,
    )


def by_partition(
    responses: Iterable[FetchableTopicResponse], wanted: Mapping[TopicPartition, FetchPosition]
) -> dict[TopicPartition, FetchablePartitionResponse]:
    """Find what an answer tells of each partition; CorruptAnswer if one was not asked for."""
    names = {want.topic_id: partition.topic for partition, want in wanted.items()}
    told: dict[TopicPartition, FetchablePartitionResponse] = {}
    for topic in responses:
        name = topic.topic or names.get(topic.topic_id)
        for one in topic.partitions:
            partition = TopicPartition(name or "", one.partition_index)
            if partition not in wanted:
                raise CorruptAnswer(f"the broker sent {partition}, which was not requested")
            told[partition] = one
    return told
