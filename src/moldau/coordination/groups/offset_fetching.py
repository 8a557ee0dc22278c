"""OffsetFetch: the offsets that a group has committed.

A consumer that starts asks for all of its partitions, and after a restart of the broker all
consumers do. So values as we and Kafka 4.3 write them are read by position, in a third of the time
of decoding. `decode_offset` reads all others.

A group may have a hundred thousand offsets, and a request may name as many topics. So a shard only
copies the encoded values. The caller goes through the topics and decodes the values, with pauses.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from moldau.base.ids import NO_LEADER_EPOCH, NO_OFFSET, ZERO_TOPIC_ID
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import decode_offset
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetFetchRequestGroup,
    OffsetFetchResponsePartition,
)

_NO_METADATA: Final = ""
_NO_ERROR: Final = ErrorCode.NONE

_NEWEST_VERSION: Final = 4
_PREFIX: Final = struct.Struct(">hqiB")
"""Version, offset, leader epoch, and the length of short metadata plus one."""
_SHORT_MAX: Final = 0x7F
_TIMESTAMP_SIZE: Final = 8
_TAGGED_ID: Final = b"\x01\x00\x10"
"""Precedes the topic id: one tagged field, number 0, 16 bytes."""
_TAGGED_ID_SIZE: Final = len(_TAGGED_ID) + 16
_NO_TAGS: Final = b"\x00"


TOPICS_AT_ONCE: Final = 256
"""Up to this many topics a shard goes through in one turn: less than a millisecond."""

_Named = tuple[str, bytes, Sequence[int] | None]
"""The name and id of a topic, and the requested partitions; None for all partitions."""

Told = tuple[int, int, str, bytes]
"""Offset, leader epoch, metadata and topic id of a committed offset."""


class TopicOffsets(NamedTuple):
    """The encoded offsets of one topic at one moment, for the requested partitions."""

    name: str
    topic_id: bytes
    partitions: Iterable[int]
    values: Mapping[int, bytes]
    unstable: Container[int]

    def tell(self, partition: int) -> OffsetFetchResponsePartition:
        """Decode one offset; -1 for a partition without one."""
        if partition in self.unstable:
            return _nothing_kept(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return _kept(self.values.get(partition), self.topic_id, partition)


class GroupOffsets(NamedTuple):
    """The offsets of a group at one moment, not decoded yet."""

    group_id: str
    topics: Iterable[TopicOffsets]
    error: ErrorCode = ErrorCode.NONE


def take_offsets(
    store: OffsetStore, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> GroupOffsets:
    """Copy some of a group's offsets, or all of them. The caller decodes them later."""
    wanted = request.topics
    group_id = request.group_id
    kept = store.topics(group_id)
    unstable: dict[str, Container[int]] = {}
    if require_stable:
        unstable = {
            topic: frozenset(partitions)
            for topic, partitions in store.unstable_topics(group_id).items()
        }
    if wanted is None:
        named: Iterable[_Named] = [(topic, ZERO_TOPIC_ID, None) for topic in kept]
    else:
        named = ((topic.name, topic.topic_id, topic.partition_indexes) for topic in wanted)
        if len(wanted) > TOPICS_AT_ONCE:
            copies = {topic: dict(values) for topic, values in kept.items()}
            return GroupOffsets(group_id, _topics(named, copies, unstable))
    return GroupOffsets(group_id, list(_topics(named, kept, unstable)))


def _topics(
    named: Iterable[_Named],
    kept: Mapping[str, Mapping[int, bytes]],
    unstable: Mapping[str, Container[int]],
) -> Iterator[TopicOffsets]:
    for topic, topic_id, partitions in named:
        values = _copied(kept.get(topic, {}), partitions)
        yield TopicOffsets(
            topic,
            topic_id,
            values if partitions is None else partitions,
            values,
            unstable.get(topic, ()),
        )


def _copied(values: Mapping[int, bytes], partitions: Sequence[int] | None) -> Mapping[int, bytes]:
    """Copy all values, or those of some partitions, whichever are fewer."""
    if partitions is None or len(partitions) >= len(values):
        return dict(values)
    return {partition: values[partition] for partition in partitions if partition in values}


def _nothing_kept(partition: int, error: ErrorCode) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(partition, NO_OFFSET, NO_LEADER_EPOCH, _NO_METADATA, error)


def _kept(value: bytes | None, topic_id: bytes, partition: int) -> OffsetFetchResponsePartition:
    if value is None:
        return _nothing_kept(partition, _NO_ERROR)
    offset, leader_epoch, metadata, committed_to = read_offset(value)
    if topic_id != committed_to and ZERO_TOPIC_ID not in (topic_id, committed_to):
        return _nothing_kept(partition, _NO_ERROR)  # it is of a deleted topic with this name
    return OffsetFetchResponsePartition(partition, offset, leader_epoch, metadata, _NO_ERROR)


def read_offset(value: bytes) -> Told:
    """Decode an offset for a consumer; ProtocolError if the value is damaged."""
    try:
        version, offset, leader_epoch, size = _PREFIX.unpack_from(value)
        if version == _NEWEST_VERSION and 0 < size <= _SHORT_MAX:
            end = _PREFIX.size + size - 1
            tags = value[end + _TIMESTAMP_SIZE :]
            metadata = value[_PREFIX.size : end].decode() if size > 1 else _NO_METADATA
            if len(tags) == _TAGGED_ID_SIZE and tags.startswith(_TAGGED_ID):
                return offset, leader_epoch, metadata, tags[len(_TAGGED_ID) :]
            if tags == _NO_TAGS:
                return offset, leader_epoch, metadata, ZERO_TOPIC_ID
    except (struct.error, UnicodeDecodeError):
        pass  # the value is damaged, or a short one of another version
    decoded = decode_offset(value)
    return decoded.offset, decoded.leader_epoch, decoded.metadata, decoded.topic_id
