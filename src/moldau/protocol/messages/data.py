"""Messages that move records: produce, fetch, look up offsets, truncate, inspect producers.

These are the hot ones. Record batches travel in `records` fields, which stay buffers (or regions
of files) from the socket to the log and back; nothing here looks into them.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.base.files import Buffer
from moldau.base.network import Part
from moldau.protocol.fields import (
    array,
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


@struct
class PartitionProduceData:
    """The batches for one partition."""

    index: int = int32()
    records: Buffer | None = records(nullable="0+")


@struct
class TopicProduceData:
    """The partitions of one topic to append to."""

    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(key=0, versions="0-13", flexible="9+")
class ProduceRequest:
    """Append record batches to partitions.

    Versions 0-2 carry message sets of magic 0 and 1, later ones exactly one batch of magic 2 a
    partition. 3 adds transactions (KIP-98), 7 allows zstd (KIP-110), 11 and 12 serve KIP-890,
    13 names topics by id alone (KIP-516). There is no answer when `acks` is 0.
    """

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()  # 0 none, 1 the leader, -1 all in-sync replicas
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    """One record that made the broker refuse its batch."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


@struct
class LeaderIdAndEpoch:
    """Who leads a partition now; -1 where the broker does not know."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@struct
class PartitionProduceResponse:
    """What became of one partition's batch."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1)  # -1 where the producer's times were kept
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, "8+")
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct_field(LeaderIdAndEpoch, "10+", tag=0)


@struct
class TopicProduceResponse:
    """The partitions of one topic that were appended to."""

    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    """Where to find a leader named in the answer."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(key=0, versions="0-13", flexible="9+")
class ProduceResponse:
    """Where each partition's batch was put, or why not.

    Version 1 adds throttling, 2 the append time (KIP-32), 5 the log start, 8 errors of single
    records (KIP-467), 10 the new leader, so that a client need not ask for metadata (KIP-951).
    """

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0)


@struct
class FetchReplicaState:
    """The replica that fetches, if it is one, and its broker epoch."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@struct
class FetchPartition:
    """One partition to read."""

    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)  # -1 does without fencing
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)  # epoch of the fetcher's last record
    log_start_offset: int = int64("5+", default=-1)  # of the follower; consumers say -1
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0)
    # the fetcher's; the default says that it is not known
    high_watermark: int = int64("18+", tag=1, default=2**63 - 1)


@struct
class FetchTopic:
    """The partitions of one topic to read."""

    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    """Partitions to drop from the session."""

    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array(int32)


@message(key=1, versions="0-18", flexible="12+")
class FetchRequest:
    """Read batches from partitions, for a consumer, a follower or a quorum replica.

    Version 3 bounds the whole answer (KIP-74), 4 adds isolation (KIP-98), 7 sessions that send
    only what changed (KIP-227), 9 leader epochs for fencing (KIP-320), 11 the rack (KIP-392),
    12 detection of divergence (KIP-595), 13 topic ids (KIP-516), 15 the fetching replica's
    epoch (KIP-903), 17 its directory (KIP-853), 18 its high watermark (KIP-1166).
    """

    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None)
    replica_id: int = int32("0-14", default=-1)  # -1 for consumers
    replica_state: FetchReplicaState = struct_field(FetchReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=2**31 - 1)
    isolation_level: int = int8("4+")  # 0 read_uncommitted, 1 read_committed
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)  # 0 opens a session, -1 closes it or does without
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


@struct
class DivergingEpoch:
    """Where the fetcher's log parts from the leader's; it must cut its log there."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@struct
class FetchSnapshotId:
    """The snapshot to fetch instead, when the log starts too late."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    """A transaction that was aborted, from its first offset on."""

    producer_id: int = int64()
    first_offset: int = int64()


@struct
class FetchablePartitionResponse:
    """The batches of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: DivergingEpoch = struct_field(DivergingEpoch, "12+", tag=0)
    current_leader: LeaderIdAndEpoch = struct_field(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: FetchSnapshotId = struct_field(FetchSnapshotId, "12+", tag=2)
    # null for read_uncommitted
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+"
    )
    preferred_read_replica: int = int32("11+", default=-1)  # -1, or a replica near the consumer
    records: Buffer | Sequence[Part] | None = records(nullable="0+")


@struct
class FetchableTopicResponse:
    """The partitions of one topic that were read."""

    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchablePartitionResponse] = array(FetchablePartitionResponse)


@message(key=1, versions="0-18", flexible="12+")
class FetchResponse:
    """Batches by partition; in a session only partitions that have news.

    A consumer must skip what lies below its fetch offset: batches come whole. With
    `read_committed` the aborted transactions say what to leave out.
    """

    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)


@struct
class ListOffsetsPartition:
    """One partition to look into."""

    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


@struct
class ListOffsetsTopic:
    """The partitions of one topic to look into."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsRequest:
    """Find offsets by time, or the ends of a log.

    Negative times ask for: -1 latest, -2 earliest, -3 the largest time (7+, KIP-734), -4
    earliest on local disk (8+, KIP-405), -5 last tiered (9+, KIP-1005), -6 earliest not yet
    tiered (11+, KIP-1023). Version 0 asks for up to a number of segment starts instead.
    """

    replica_id: int = int32()  # -1 for consumers
    isolation_level: int = int8("2+")  # 1 lets "latest" mean the last stable offset
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


@struct
class ListOffsetsPartitionResponse:
    """What was found in one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array(int64, "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    """What was found in one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(key=2, versions="0-11", flexible="6+")
class ListOffsetsResponse:
    """The first offset at or after each asked time, with its own time; -1 where there is none."""

    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


@struct
class OffsetForLeaderPartition:
    """One partition and the epoch asked for."""

    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic:
    """The partitions of one topic asked for."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    """Ask where a leader epoch ends, to find out where two logs part (KIP-101, KIP-320)."""

    # -1 for consumers; -2 where versions before 3 do not tell
    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class OffsetForLeaderPartitionResult:
    """Where the epoch ends in one partition."""

    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult:
    """Where the epochs end in one topic."""

    topic: str = string()
    partitions: list[OffsetForLeaderPartitionResult] = array(OffsetForLeaderPartitionResult)


@message(key=23, versions="0-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    """The end of the largest epoch not above the one asked for."""

    throttle_time_ms: int = int32("2+")
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


@struct
class DeleteRecordsPartition:
    """One partition and its new start."""

    partition_index: int = int32()
    offset: int = int64()  # the new log start; -1 means the high watermark


@struct
class DeleteRecordsTopic:
    """The partitions of one topic to cut."""

    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsRequest:
    """Move the log start forward, so that older records may be deleted (KIP-107)."""

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


@struct
class DeleteRecordsPartitionResult:
    """Where one partition starts now."""

    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


@struct
class DeleteRecordsTopicResult:
    """Where the partitions of one topic start now."""

    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(key=21, versions="0-2", flexible="2+")
class DeleteRecordsResponse:
    """The smallest log start among the live replicas of each partition."""

    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)


@struct
class DescribeProducersTopic:
    """The partitions of one topic asked for."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@message(key=61, versions="0", flexible="0+")
class DescribeProducersRequest:
    """Ask which producers have written to partitions lately (KIP-664)."""

    topics: list[DescribeProducersTopic] = array(DescribeProducersTopic)


@struct
class ProducerState:
    """What a leader remembers of one producer."""

    producer_id: int = int64()
    producer_epoch: int = int32()  # wider here than anywhere else
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@struct
class DescribeProducersPartitionResponse:
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


@struct
class DescribeProducersTopicResponse:
    """The producers of one topic."""

    name: str = string()
    partitions: list[DescribeProducersPartitionResponse] = array(DescribeProducersPartitionResponse)


@message(key=61, versions="0", flexible="0+")
class DescribeProducersResponse:
    """The producer states a leader holds: what it takes to find a hanging transaction."""

    throttle_time_ms: int = int32()
    topics: list[DescribeProducersTopicResponse] = array(DescribeProducersTopicResponse)
