"""Messages of idempotent and transactional producers and their coordinator (KIP-98, KIP-890)."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Get a producer id and epoch, and end what an earlier instance left open.

    Version 3 lets a producer raise its own epoch (KIP-360), 6 adds two-phase commit (KIP-939).
    """

    transactional_id: str | None = string(nullable="0+")  # null: idempotent only
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable_2pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


@message(key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    """The producer id and epoch to write with."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


@struct
class AddPartitionsToTxnTopic:
    """The partitions of one topic to add."""

    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AddPartitionsToTxnTransaction:
    """One transaction, and what to add to it or to verify."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean()  # ask whether they are in it, add nothing
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic)


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Add partitions to a transaction before writing to them.

    Clients use versions up to 3; from 4 on it is for brokers, which verify or add the
    partitions of many transactions (KIP-890).
    """

    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


@struct
class AddPartitionsToTxnPartitionResult:
    """What became of one partition."""

    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult:
    """What became of one topic."""

    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


@struct
class AddPartitionsToTxnResult:
    """What became of one transaction."""

    transactional_id: str = string()
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult)


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """What became of each partition, by transaction from version 4 on."""

    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    """Add a group's offsets partition to a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    """What became of it."""

    throttle_time_ms: int = int32()
    error_code: int = int16()


@message(key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    """Commit or abort a transaction. From version 5 every end raises the epoch (KIP-890)."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()  # false aborts


@message(key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    """What became of it; from version 5 with the id and epoch to go on with."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


@struct
class TxnOffsetCommitRequestPartition:
    """One offset to keep."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


@struct
class TxnOffsetCommitRequestTopic:
    """The offsets of one topic."""

    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitRequest:
    """Keep a group's offsets as part of a transaction.

    Version 2 adds leader epochs, 3 the member for fencing (KIP-447), 5 adds the partition to
    the transaction by itself (KIP-890), 6 names topics by id alone (KIP-1319).
    """

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


@struct
class TxnOffsetCommitResponsePartition:
    """What became of one offset."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class TxnOffsetCommitResponseTopic:
    """What became of the offsets of one topic."""

    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message(key=28, versions="0-6", flexible="3+")
class TxnOffsetCommitResponse:
    """What became of each partition's offset."""

    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)


@struct
class WritableTxnMarkerTopic:
    """The partitions of one topic that get the marker."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@struct
class WritableTxnMarker:
    """One marker for the partitions of one transaction."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()  # true commits
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+")


@message(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest:
    """From the coordinator to partition leaders: write commit or abort markers.

    Version 2 says which transaction protocol the marker belongs to (KIP-1228).
    """

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@struct
class WritableTxnMarkerPartitionResult:
    """What became of the marker in one partition."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class WritableTxnMarkerTopicResult:
    """What became of the marker in one topic."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@struct
class WritableTxnMarkerResult:
    """What became of one marker."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message(key=27, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse:
    """What became of each marker in each partition."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Ask a coordinator for the state of transactional ids (KIP-664)."""

    transactional_ids: list[str] = array(string)


@struct
class DescribedTransactionTopic:
    """The partitions of one topic in a transaction."""

    topic: str = string()
    partitions: list[int] = array(int32)


@struct
class DescribedTransaction:
    """One transaction."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[DescribedTransactionTopic] = array(DescribedTransactionTopic)


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """State, producer and partitions of each transaction."""

    throttle_time_ms: int = int32()
    transaction_states: list[DescribedTransaction] = array(DescribedTransaction)


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest:
    """List transactional ids by state and producer (KIP-664).

    Version 1 adds a minimum age (KIP-994), 2 a pattern (KIP-1152).
    """

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64("1+", default=-1)  # -1: no minimum age
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


@struct
class ListedTransaction:
    """One transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse:
    """The transactions this broker coordinates, and filters it did not know."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[ListedTransaction] = array(ListedTransaction)


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsRequest:
    """From a broker to the controller: ask for a block of producer ids (KIP-730)."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(key=67, versions="0", flexible="0+")
class AllocateProducerIdsResponse:
    """The block: its first id and its length."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()
