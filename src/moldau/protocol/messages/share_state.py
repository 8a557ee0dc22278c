"""Messages from a share partition's leader to the coordinator that keeps its state (KIP-932)."""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@struct
class InitializeStatePartition:
    """One partition, and where its state starts."""

    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


@struct
class InitializeStateTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[InitializeStatePartition] = array(InitializeStatePartition)


@message(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    """Start keeping state for share partitions."""

    group_id: str = string()
    topics: list[InitializeStateTopic] = array(InitializeStateTopic)


@struct
class ShareStatePartitionResult:
    """What became of one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@struct
class ShareStateTopicResult:
    """What became of one topic."""

    topic_id: bytes = uuid()
    partitions: list[ShareStatePartitionResult] = array(ShareStatePartitionResult)


@message(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    """What became of each partition."""

    results: list[ShareStateTopicResult] = array(ShareStateTopicResult)


@struct
class ReadStatePartition:
    """One partition, and the epoch of the leader that reads."""

    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[ReadStatePartition] = array(ReadStatePartition)


@message(key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    """Read the state of share partitions, as their new leader."""

    group_id: str = string()
    topics: list[ReadStateTopic] = array(ReadStateTopic)


@struct
class StateBatch:
    """The delivery state of consecutive records."""

    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()  # 0 available, 2 acknowledged, 4 archived
    delivery_count: int = int16()


@struct
class ReadStatePartitionResult:
    """The state of one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class ReadStateTopicResult:
    """The states of one topic."""

    topic_id: bytes = uuid()
    partitions: list[ReadStatePartitionResult] = array(ReadStatePartitionResult)


@message(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    """The kept state of each partition."""

    results: list[ReadStateTopicResult] = array(ReadStateTopicResult)


@struct
class WriteStatePartition:
    """One partition's changed state."""

    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class WriteStateTopic:
    """The changed states of one topic."""

    topic_id: bytes = uuid()
    partitions: list[WriteStatePartition] = array(WriteStatePartition)


@message(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    """Keep changed state of share partitions; version 1 adds a count for the lag (KIP-1226)."""

    group_id: str = string()
    topics: list[WriteStateTopic] = array(WriteStateTopic)


@message(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    """What became of each partition."""

    results: list[ShareStateTopicResult] = array(ShareStateTopicResult)


@struct
class DeleteStatePartition:
    """One partition to forget."""

    partition: int = int32()


@struct
class DeleteStateTopic:
    """The partitions of one topic to forget."""

    topic_id: bytes = uuid()
    partitions: list[DeleteStatePartition] = array(DeleteStatePartition)


@message(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    """Forget the state of share partitions."""

    group_id: str = string()
    topics: list[DeleteStateTopic] = array(DeleteStateTopic)


@message(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    """What became of each partition."""

    results: list[ShareStateTopicResult] = array(ShareStateTopicResult)


@struct
class ReadStateSummaryPartition:
    """One partition, and the epoch of the leader that reads."""

    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateSummaryTopic:
    """The partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[ReadStateSummaryPartition] = array(ReadStateSummaryPartition)


@message(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    """Read only where share partitions start, without their batches."""

    group_id: str = string()
    topics: list[ReadStateSummaryTopic] = array(ReadStateSummaryTopic)


@struct
class ReadStateSummaryPartitionResult:
    """The summary of one partition."""

    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1)


@struct
class ReadStateSummaryTopicResult:
    """The summaries of one topic."""

    topic_id: bytes = uuid()
    partitions: list[ReadStateSummaryPartitionResult] = array(ReadStateSummaryPartitionResult)


@message(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    """Epochs and start offset of each partition; version 1 adds a count for the lag (KIP-1226)."""

    results: list[ReadStateSummaryTopicResult] = array(ReadStateSummaryTopicResult)
