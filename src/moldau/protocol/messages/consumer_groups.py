"""Messages of the consumer group protocol in which the broker assigns partitions (KIP-848)."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    struct_field,
    uuid,
)


@struct
class ConsumerGroupTopicPartitions:
    """Partitions of one topic, by id."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest:
    """Join, stay in and leave a consumer group; null means unchanged since the last heartbeat.

    Member epoch 0 joins, -1 leaves, -2 leaves for a while as a static member. Version 1 adds
    regular expressions, and clients choose their own member id (KIP-1082).
    """

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()  # 0 joins, -1 leaves, -2 leaves for a while
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupTopicPartitions] | None = array(
        ConsumerGroupTopicPartitions, nullable="0+", default=None
    )


@struct
class ConsumerGroupAssignment:
    """All partitions a member should own."""

    topic_partitions: list[ConsumerGroupTopicPartitions] = array(ConsumerGroupTopicPartitions)


@message(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse:
    """The member's epoch and, when it changed, the partitions it should own."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupAssignment | None = struct_field(
        ConsumerGroupAssignment, nullable="0+", default=None
    )


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest:
    """Ask for the state and members of consumer groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class DescribedConsumerTopicPartitions:
    """Partitions of one topic, by id and name."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class DescribedConsumerAssignment:
    """Partitions of a member."""

    topic_partitions: list[DescribedConsumerTopicPartitions] = array(
        DescribedConsumerTopicPartitions
    )


@struct
class DescribedConsumerGroupMember:
    """One member: what it has, and what it is meant to have."""

    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: DescribedConsumerAssignment = struct_field(DescribedConsumerAssignment)
    target_assignment: DescribedConsumerAssignment = struct_field(DescribedConsumerAssignment)
    member_type: int = int8("1+", default=-1)  # -1 unknown, 0 classic, 1 consumer


@struct
class DescribedConsumerGroup:
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[DescribedConsumerGroupMember] = array(DescribedConsumerGroupMember)
    # one bit for each operation; the default says that nobody asked
    authorized_operations: int = int32(default=-(2**31))


@message(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse:
    """State and members of each group; version 1 tells classic members apart (KIP-1099)."""

    throttle_time_ms: int = int32()
    groups: list[DescribedConsumerGroup] = array(DescribedConsumerGroup)
