"""Messages that keep, read and delete the offsets of groups."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class OffsetCommitRequestPartition:
    """One offset to keep: that of the next record to read."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1)
    commit_timestamp: int = int64("1", default=-1)  # -1: the broker's clock
    committed_metadata: str | None = string(nullable="0+")


@struct
class OffsetCommitRequestTopic:
    """The offsets of one topic."""

    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitRequest:
    """Keep the offsets a group has reached.

    Version 0 knew no members, 1 came with a time for each partition, 2-4 with one retention
    time. 6 adds leader epochs (KIP-320), 7 static members (KIP-345), 9 takes a member epoch of
    KIP-848 in place of the generation, 10 names topics by id alone.
    """

    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1)
    member_id: str = string("1+")
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1)  # -1: the broker's retention
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    """What became of one offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetCommitResponseTopic:
    """What became of the offsets of one topic."""

    name: str = string("0-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(key=8, versions="0-10", flexible="8+")
class OffsetCommitResponse:
    """What became of each partition's offset."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)


@struct
class OffsetFetchRequestTopic:
    """The partitions of one topic asked for, before version 8."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@struct
class OffsetFetchRequestTopics:
    """The partitions of one topic asked for."""

    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partition_indexes: list[int] = array(int32)


@struct
class OffsetFetchRequestGroup:
    """One group asked for."""

    group_id: str = string()
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, nullable="0+")


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchRequest:
    """Read a group's offsets; null topics (2+) means all of them.

    Version 7 can insist on offsets no open transaction may still change (KIP-447), 8 asks for
    several groups (KIP-709), 9 checks the member epoch (KIP-848), 10 names topics by id alone.
    """

    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


@struct
class OffsetFetchResponsePartition:
    """One kept offset."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5+", default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


@struct
class OffsetFetchResponseTopic:
    """The kept offsets of one topic, before version 8."""

    name: str = string()
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@struct
class OffsetFetchResponseTopics:
    """The kept offsets of one topic."""

    name: str = string("8-9")
    topic_id: bytes = uuid("10+")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition)


@struct
class OffsetFetchResponseGroup:
    """The kept offsets of one group."""

    group_id: str = string()
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


@message(key=9, versions="0-10", flexible="6+")
class OffsetFetchResponse:
    """The kept offsets; -1 where there is none."""

    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")


@struct
class OffsetDeleteRequestPartition:
    """One partition to forget."""

    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    """The partitions of one topic to forget."""

    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(key=47, versions="0")
class OffsetDeleteRequest:
    """Delete offsets of topics a group no longer subscribes to (KIP-496)."""

    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    """What became of one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class OffsetDeleteResponseTopic:
    """What became of one topic."""

    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(key=47, versions="0")
class OffsetDeleteResponse:
    """What became of each partition."""

    error_code: int = int16()
    throttle_time_ms: int = int32()
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
