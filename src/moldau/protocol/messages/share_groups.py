"""Messages of share groups (KIP-932): queue-like consumption with one acknowledgement per record.

Version 0 was an early preview in Kafka 4.0 and is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.base.files import Buffer
from moldau.base.network import Part
from moldau.protocol.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    records,
    string,
    struct,
    struct_field,
    uuid,
)


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    """Join, stay in and leave a share group; null means unchanged since the last heartbeat."""

    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)


@struct
class ShareGroupTopicPartitions:
    """Partitions of one topic, by id."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@struct
class ShareGroupAssignment:
    """All partitions a member should read."""

    topic_partitions: list[ShareGroupTopicPartitions] = array(ShareGroupTopicPartitions)


@message(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    """The member's epoch and, when it changed, the partitions it should read."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ShareGroupAssignment | None = struct_field(
        ShareGroupAssignment, nullable="0+", default=None
    )


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeRequest:
    """Ask for the state and members of share groups."""

    group_ids: list[str] = array(string)
    include_authorized_operations: bool = boolean()


@struct
class DescribedShareTopicPartitions:
    """Partitions of one topic, by id and name."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class DescribedShareAssignment:
    """Partitions of a member."""

    topic_partitions: list[DescribedShareTopicPartitions] = array(DescribedShareTopicPartitions)


@struct
class DescribedShareGroupMember:
    """One member."""

    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    assignment: DescribedShareAssignment = struct_field(DescribedShareAssignment)


@struct
class DescribedShareGroup:
    """One group."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[DescribedShareGroupMember] = array(DescribedShareGroupMember)
    # one bit for each operation; the default says that nobody asked
    authorized_operations: int = int32(default=-(2**31))


@message(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse:
    """State and members of each group."""

    throttle_time_ms: int = int32()
    groups: list[DescribedShareGroup] = array(DescribedShareGroup)


@struct
class AcknowledgementBatch:
    """Acknowledgements of consecutive records: one type for all, or one each."""

    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew


@struct
class ShareFetchPartition:
    """One partition to read, and acknowledgements for it."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class ShareFetchTopic:
    """The partitions of one topic to read."""

    topic_id: bytes = uuid()
    partitions: list[ShareFetchPartition] = array(ShareFetchPartition)


@struct
class ShareForgottenTopic:
    """Partitions to drop from the session."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    """Acquire records of share partitions, and acknowledge earlier ones on the way.

    Version 2 adds a strict record limit (KIP-1206) and acknowledgements that renew the lock
    (KIP-1222).
    """

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()  # 0 opens a session, -1 closes it
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+")  # 0 whole batches, 1 never more than `max_records`
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareFetchTopic] = array(ShareFetchTopic)
    forgotten_topics_data: list[ShareForgottenTopic] = array(ShareForgottenTopic)


@struct
class ShareLeaderIdAndEpoch:
    """Who leads a partition now."""

    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class AcquiredRecords:
    """Consecutive records this member holds, and how often they were delivered."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@struct
class ShareFetchPartitionResponse:
    """Batches and acquired records of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareLeaderIdAndEpoch = struct_field(ShareLeaderIdAndEpoch)
    records: Buffer | Sequence[Part] | None = records()
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@struct
class ShareFetchTopicResponse:
    """The partitions of one topic that were read."""

    topic_id: bytes = uuid()
    partitions: list[ShareFetchPartitionResponse] = array(ShareFetchPartitionResponse)


@struct
class ShareNodeEndpoint:
    """Where to find a leader named in the answer."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    """Batches, and which of their records this member has acquired."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchTopicResponse] = array(ShareFetchTopicResponse)
    node_endpoints: list[ShareNodeEndpoint] = array(ShareNodeEndpoint)


@struct
class ShareAcknowledgePartition:
    """Acknowledgements for one partition."""

    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class ShareAcknowledgeTopic:
    """Acknowledgements for one topic."""

    topic_id: bytes = uuid()
    partitions: list[ShareAcknowledgePartition] = array(ShareAcknowledgePartition)


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    """Acknowledge acquired records; version 2 can renew their lock (KIP-1222)."""

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()  # 0 opens a session, -1 closes it
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareAcknowledgeTopic] = array(ShareAcknowledgeTopic)


@struct
class ShareAcknowledgePartitionResponse:
    """What became of the acknowledgements for one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareLeaderIdAndEpoch = struct_field(ShareLeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    """What became of the acknowledgements for one topic."""

    topic_id: bytes = uuid()
    partitions: list[ShareAcknowledgePartitionResponse] = array(ShareAcknowledgePartitionResponse)


@message(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    """What became of each partition's acknowledgements."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[ShareNodeEndpoint] = array(ShareNodeEndpoint)


@struct
class DescribeShareGroupOffsetsRequestTopic:
    """The partitions of one topic asked for."""

    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class DescribeShareGroupOffsetsRequestGroup:
    """One group asked for."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable="0+"
    )


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsRequest:
    """Ask where share groups stand; null topics means all of them."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup
    )


@struct
class DescribeShareGroupOffsetsResponsePartition:
    """Where a group stands in one partition."""

    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64("1+", default=-1)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class DescribeShareGroupOffsetsResponseTopic:
    """Where a group stands in one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


@struct
class DescribeShareGroupOffsetsResponseGroup:
    """Where one group stands."""

    group_id: str = string()
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@message(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse:
    """Start offsets by partition; version 1 adds the lag (KIP-1226)."""

    throttle_time_ms: int = int32()
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup
    )


@struct
class AlterShareGroupOffsetsRequestPartition:
    """One partition and its new start."""

    partition_index: int = int32()
    start_offset: int = int64()


@struct
class AlterShareGroupOffsetsRequestTopic:
    """The partitions of one topic to set."""

    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    """Set the start offsets of an empty share group."""

    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


@struct
class AlterShareGroupOffsetsResponsePartition:
    """What became of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic:
    """What became of one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


@message(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    """What became of each partition."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )


@struct
class DeleteShareGroupOffsetsRequestTopic:
    """One topic to forget."""

    topic_name: str = string()


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    """Delete what an empty share group keeps about topics."""

    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


@struct
class DeleteShareGroupOffsetsResponseTopic:
    """What became of one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@message(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    """What became of each topic."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )
