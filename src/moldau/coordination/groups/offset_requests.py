"""Requests about offsets: the records to write and the response, partition by partition.

The group has decided before whether the client may commit (member, generation, instance). The
server has filled in the name and the id of each topic, and has removed partitions that do not
exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import (
    NO_TIMESTAMP,
    CommittedOffset,
    OffsetKey,
    RecordForm,
    offset_record,
    offset_tombstone,
)
from moldau.coordination.outcome import Now, StateRecord
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_NO_RETENTION: Final = -1
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_UTF_16_UNIT_SIZE: Final = 2
_NO_METADATA: Final = ""


class Subscribed(Protocol):
    """Knows the topics that a group's members subscribe to."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether a member reads this topic, or may read it."""
        ...


class OffsetCommits:
    """Turns commits into records."""

    def __init__(self, form: RecordForm, metadata_length_max: int) -> None:
        self._form = form
        self._metadata_length_max = metadata_length_max

    def plain(
        self, request: OffsetCommitRequest, now: Now
    ) -> tuple[list[StateRecord], OffsetCommitResponse]:
        """Return records and response of a commit. Versions 2-4 may set a retention."""
        group_id, retention_ms = request.group_id, request.retention_time_ms
        expires = _expiry(retention_ms, now.wall_ms)
        records: list[StateRecord] = []
        response = OffsetCommitResponse()
        for topic in request.topics:
            results: list[OffsetCommitResponsePartition] = []
            response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, results))
            for partition in topic.partitions:
                committed_at = partition.commit_timestamp
                if committed_at == NO_TIMESTAMP:
                    committed_at = now.wall_ms
                offset = _committed(partition, committed_at, expires, topic.topic_id)
                key = OffsetKey(group_id, topic.name, partition.partition_index)
                error = self._write(key, offset, records)
                results.append(OffsetCommitResponsePartition(partition.partition_index, error))
        return records, response

    def transactional(
        self, request: TxnOffsetCommitRequest, now: Now
    ) -> tuple[list[StateRecord], TxnOffsetCommitResponse]:
        """Return records and response of a commit that is part of a transaction."""
        group_id, wall_ms = request.group_id, now.wall_ms
        records: list[StateRecord] = []
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            results: list[TxnOffsetCommitResponsePartition] = []
            answer = TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, results)
            response.topics.append(answer)
            for partition in topic.partitions:
                offset = _committed(partition, wall_ms, NO_TIMESTAMP, topic.topic_id)
                key = OffsetKey(group_id, topic.name, partition.partition_index)
                error = self._write(key, offset, records)
                results.append(TxnOffsetCommitResponsePartition(partition.partition_index, error))
        return records, response

    def _write(
        self, key: OffsetKey, offset: CommittedOffset, records: list[StateRecord]
    ) -> ErrorCode:
        if self._is_too_long(offset.metadata):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        records.append(offset_record(self._form, key, offset))
        return ErrorCode.NONE

    def _is_too_long(self, metadata: str) -> bool:
        """Count UTF-16 units, as Kafka does, although the config's name says bytes."""
        if metadata.isascii():
            return len(metadata) > self._metadata_length_max
        units = len(metadata.encode("utf-16-be")) // _UTF_16_UNIT_SIZE
        return units > self._metadata_length_max


def _expiry(retention_ms: int, wall_ms: int) -> int:
    """Return the expiry time for a retention that a client set.

    The largest number means "for ever". Kafka's sum overflows there, and the offset expires at
    once. Ours is capped at the largest value of the record's field.
    """
    if retention_ms == _NO_RETENTION:
        return NO_TIMESTAMP
    return max(_INT64_MIN, min(wall_ms + retention_ms, _INT64_MAX))


def _committed(
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    committed_at: int,
    expires: int,
    topic_id: bytes,
) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or _NO_METADATA,
        committed_at,
        expires,
        topic_id,
    )


def commit_refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """Answer every partition of a commit with one error."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    OffsetCommitResponsePartition(partition.partition_index, error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def transactional_commit_refused(
    request: TxnOffsetCommitRequest, error: ErrorCode
) -> TxnOffsetCommitResponse:
    """Answer every partition of a transaction's commit with one error."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    TxnOffsetCommitResponsePartition(partition.partition_index, error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def delete_offsets(
    store: OffsetStore, group: Subscribed, request: OffsetDeleteRequest
) -> tuple[Sequence[StateRecord], OffsetDeleteResponse]:
    """Return records and response of an OffsetDelete (KIP-496).

    Offsets of topics that a member subscribes to are not deleted.
    """
    group_id = request.group_id
    records: list[StateRecord] = []
    response = OffsetDeleteResponse()
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
        results: list[OffsetDeleteResponsePartition] = []
        response.topics.append(OffsetDeleteResponseTopic(topic.name, results))
        for partition in topic.partitions:
            index = partition.partition_index
            results.append(OffsetDeleteResponsePartition(index, error))
            if not subscribed and store.has(group_id, topic.name, index):
                records.append(offset_tombstone(OffsetKey(group_id, topic.name, index)))
    return records, response
