"""Asking a leader where its logs begin and end, for a follower whose offset it does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.base.ids import PartitionKey
from moldau.engine.connection import ClientConnection
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.replication.fetching.answers import LeaderOffsets
from moldau.replication.fetching.plan import FollowedKey, ReplicaPosition

LATEST: Final = -1
EARLIEST: Final = -2


async def ask_offsets(
    connection: ClientConnection, broker_id: int, asked: Mapping[FollowedKey, ReplicaPosition]
) -> dict[FollowedKey, LeaderOffsets | ErrorCode]:
    """Return both ends of each log, or the error for it; ClientError if nobody answers.

    The end comes first: a leader that deletes old records in between must not look as if it began
    behind its end.
    """
    ends = await _ask(connection, broker_id, asked, LATEST)
    starts = await _ask(connection, broker_id, asked, EARLIEST)
    found: dict[FollowedKey, LeaderOffsets | ErrorCode] = {}
    for key, position in asked.items():
        start, end = starts.get(position.key), ends.get(position.key)
        if start is None or end is None:
            continue
        error = end.error_code or start.error_code
        found[key] = ErrorCode.of(error) if error else LeaderOffsets(start.offset, end.offset)
    return found


async def _ask(
    connection: ClientConnection,
    broker_id: int,
    asked: Mapping[FollowedKey, ReplicaPosition],
    timestamp: int,
) -> dict[PartitionKey, ListOffsetsPartitionResponse]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for position in asked.values():
        topics.setdefault(position.key.topic, []).append(
            ListOffsetsPartition(position.key.partition, position.leader_epoch, timestamp)
        )
    request = ListOffsetsRequest(
        replica_id=broker_id,
        topics=[ListOffsetsTopic(name, partitions) for name, partitions in topics.items()],
    )
    response: ListOffsetsResponse = await connection.call(request)
    return {
        PartitionKey(topic.name, one.partition_index): one
        for topic in response.topics
        for one in topic.partitions
    }
