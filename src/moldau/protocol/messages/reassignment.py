"""Messages that move replicas between brokers and leadership between replicas."""

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
)


@struct
class ReassignablePartition:
    """One partition and its new replicas; null cancels a move."""

    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable="0+", default=None)


@struct
class ReassignableTopic:
    """The partitions of one topic to move."""

    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    """Start or cancel the move of partitions to other brokers (KIP-455).

    Version 1 can forbid that a move changes the replication factor.
    """

    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@struct
class ReassignablePartitionResponse:
    """What became of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct
class ReassignableTopicResponse:
    """What became of one topic."""

    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    """What became of each partition."""

    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)


@struct
class ListPartitionReassignmentsTopics:
    """The partitions of one topic asked for."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsRequest:
    """Ask which moves are under way (KIP-455); null topics means all."""

    timeout_ms: int = int32(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


@struct
class OngoingPartitionReassignment:
    """One partition that moves: from where, to where."""

    partition_index: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)


@struct
class OngoingTopicReassignment:
    """The partitions of one topic that move."""

    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse:
    """The moves under way."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)


@struct
class ElectLeadersTopic:
    """The partitions of one topic to elect leaders for."""

    topic: str = string()
    partitions: list[int] = array(int32)


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersRequest:
    """Elect leaders: preferred replicas (KIP-183) or, from version 1, unclean ones (KIP-460)."""

    election_type: int = int8("1+")  # 0 preferred, 1 unclean
    topic_partitions: list[ElectLeadersTopic] | None = array(ElectLeadersTopic, nullable="0+")
    timeout_ms: int = int32(default=60000)


@struct
class ElectLeadersPartitionResult:
    """What became of one partition."""

    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@struct
class ElectLeadersTopicResult:
    """What became of one topic."""

    topic: str = string()
    partition_result: list[ElectLeadersPartitionResult] = array(ElectLeadersPartitionResult)


@message(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse:
    """What became of each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ElectLeadersTopicResult] = array(ElectLeadersTopicResult)
