"""OffsetFetch as a shard answers it: what a group has committed, partition by partition.

A consumer that starts asks for all of its partitions, and after a restart of the broker all of them
do. So values in the form that we and Kafka 4.3 write are read by position, in a third of the time
of decoding them. All others `decode_offset` deals with.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from moldau.base.ids import NO_LEADER_EPOCH, NO_OFFSET, ZERO_TOPIC_ID
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import decode_offset
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopics,
)

_NO_METADATA: Final = ""
_NO_ERROR: Final = ErrorCode.NONE

_USUAL_VERSION: Final = 4
_OPENING: Final = struct.Struct(">hqiB")
"""Version, offset, leader epoch, and the length of the metadata plus one where that is short."""
_SHORT_MAX: Final = 0x7F
_TIMESTAMP_SIZE: Final = 8
_TAGGED_ID: Final = b"\x01\x00\x10"
"""What precedes the topic's id: there is one tagged field, it is field 0, it has 16 bytes."""
_TAGGED_ID_SIZE: Final = len(_TAGGED_ID) + 16
_NO_TAGS: Final = b"\x00"


Told = tuple[int, int, str, bytes]
"""Offset, leader epoch and metadata, as a consumer is told them, and the id of the topic."""


def fetch_offsets(
    store: OffsetStore, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Read some of a group's offsets, or all of them: without an offset a partition has -1."""
    wanted = request.topics
    group_id = request.group_id
    if wanted is None:
        named: Iterable[tuple[str, bytes, Iterable[int]]] = [
            (topic, ZERO_TOPIC_ID, partitions)
            for topic, partitions in store.topics(group_id).items()
        ]
    else:
        named = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in wanted]
    return OffsetFetchResponseGroup(
        group_id,
        [
            OffsetFetchResponseTopics(
                topic,
                topic_id,
                _of_topic(store, group_id, topic, topic_id, partitions, stable=require_stable),
            )
            for topic, topic_id, partitions in named
        ],
    )


def _of_topic(
    store: OffsetStore,
    group_id: str,
    topic: str,
    topic_id: bytes,
    partitions: Iterable[int],
    *,
    stable: bool,
) -> list[OffsetFetchResponsePartition]:
    values = store.topics(group_id).get(topic, {})
    unstable = store.unstable_partitions(group_id, topic) if stable else ()
    return [
        _nothing_kept(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if partition in unstable
        else _kept(values.get(partition), topic_id, partition)
        for partition in partitions
    ]


def _nothing_kept(partition: int, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(partition, NO_OFFSET, NO_LEADER_EPOCH, _NO_METADATA, error)


def _kept(value: bytes | None, topic_id: bytes, partition: int) -> OffsetFetchResponsePartition:
    if value is None:
        return _nothing_kept(partition, _NO_ERROR)
    offset, leader_epoch, metadata, committed_to = read_offset(value)
    if topic_id != committed_to and ZERO_TOPIC_ID not in (topic_id, committed_to):
        return _nothing_kept(partition, _NO_ERROR)  # it was committed to another topic of this name
    return OffsetFetchResponsePartition(partition, offset, leader_epoch, metadata, _NO_ERROR)


def read_offset(value: bytes) -> Told:
    """Read what a consumer is told; ProtocolError if the value is damaged."""
    try:
        version, offset, leader_epoch, size = _OPENING.unpack_from(value)
        if version == _USUAL_VERSION and 0 < size <= _SHORT_MAX:
            end = _OPENING.size + size - 1
            tags = value[end + _TIMESTAMP_SIZE :]
            metadata = value[_OPENING.size : end].decode() if size > 1 else _NO_METADATA
            if len(tags) == _TAGGED_ID_SIZE and tags.startswith(_TAGGED_ID):
                return offset, leader_epoch, metadata, tags[len(_TAGGED_ID) :]
            if tags == _NO_TAGS:
                return offset, leader_epoch, metadata, ZERO_TOPIC_ID
    except (struct.error, UnicodeDecodeError):
        pass  # it is damaged, or a short one of another version
    decoded = decode_offset(value)
    return decoded.offset, decoded.leader_epoch, decoded.metadata, decoded.topic_id
