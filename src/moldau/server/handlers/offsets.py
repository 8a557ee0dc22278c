"""ListOffsets 0-11, OffsetForLeaderEpoch 0-4, DeleteRecords 0-2, DescribeProducers 0.

ListOffsets is asked after every poll by some consumers (Spark's asks twice), so the ends of a log
are attribute look-ups. Only a question by time reads the disk: an index, then one batch.
"""

from __future__ import annotations

from moldau.base.errors import CorruptRecords, StorageError
from moldau.base.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.data import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    DescribeProducersPartitionResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderPartitionResult,
    OffsetForLeaderTopicResult,
    ProducerState,
)
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions
from moldau.server.dispatch import RequestContext

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -4, -5, -6
FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
READ_COMMITTED = 1
TO_HIGH_WATERMARK = -1


class OffsetHandlers:
    """Answers the questions about places in a log."""

    def __init__(self, partitions: Partitions, broker_id: BrokerId) -> None:
        self._partitions = partitions
        self._broker_id = broker_id

    def _led(self, topic: str, index: int, epoch: int = NO_LEADER_EPOCH) -> Partition:
        partition = self._partitions.get(topic, index)
        if partition is None:
            raise ApiError(self._partitions.missing(topic, index))
        fence = partition.fence(LeaderEpoch(epoch), self._broker_id)
        if fence is not ErrorCode.NONE:
            raise ApiError(fence)
        return partition

    # ListOffsets

    def list_offsets(
        self, request: ListOffsetsRequest, context: RequestContext
    ) -> ListOffsetsResponse:
        """Find offsets by time, or the ends of a log."""
        committed_only = request.isolation_level == READ_COMMITTED
        response = ListOffsetsResponse()
        for topic in request.topics:
            results = []
            for asked in topic.partitions:
                result = ListOffsetsPartitionResponse(asked.partition_index)
                results.append(result)
                try:
                    partition = self._led(
                        topic.name, asked.partition_index, asked.current_leader_epoch
                    )
                    if context.version == 0:
                        result.old_style_offsets = _segment_starts(partition, asked)
                    else:
                        _check_version(asked.timestamp, context.version)
                        _answer(result, partition, asked.timestamp, committed_only)
                except ApiError as error:
                    result.error_code = error.code
                except StorageError:
                    result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
                except CorruptRecords:
                    # Its producer's records were taken at their word when they were appended.
                    result.error_code = ErrorCode.CORRUPT_MESSAGE
            response.topics.append(ListOffsetsTopicResponse(topic.name, results))
        return response

    # OffsetForLeaderEpoch

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, context: RequestContext
    ) -> OffsetForLeaderEpochResponse:
        """Say where an epoch ends."""
        del context
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic.topic, [self._epoch_end(topic.topic, asked) for asked in topic.partitions]
                )
                for topic in request.topics
            ]
        )

    def _epoch_end(
        self, topic: str, asked: OffsetForLeaderPartition
    ) -> OffsetForLeaderPartitionResult:
        try:
            partition = self._led(topic, asked.partition, asked.current_leader_epoch)
        except ApiError as error:
            return OffsetForLeaderPartitionResult(error.code, asked.partition)
        log = partition.log
        end = log.epochs.end_offset_for(LeaderEpoch(asked.leader_epoch), log.log_end_offset)
        return OffsetForLeaderPartitionResult(0, asked.partition, end.epoch, end.end_offset)

    # DeleteRecords

    def delete_records(
        self, request: DeleteRecordsRequest, context: RequestContext
    ) -> DeleteRecordsResponse:
        """Move the start of logs forward."""
        del context
        return DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    topic.name,
                    [
                        self._delete_before(topic.name, wanted.partition_index, wanted.offset)
                        for wanted in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _delete_before(self, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
        try:
            partition = self._led(topic, index)
            log = partition.log
            if not log.config.deletes:
                raise ApiError(ErrorCode.POLICY_VIOLATION)
            if offset == TO_HIGH_WATERMARK:
                offset = partition.high_watermark
            if not 0 <= offset <= partition.high_watermark:
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
            log.delete_records_before(Offset(offset))
        except ApiError as error:
            return DeleteRecordsPartitionResult(index, -1, error.code)
        except StorageError:
            return DeleteRecordsPartitionResult(index, -1, ErrorCode.KAFKA_STORAGE_ERROR)
        partition.notify()
        return DeleteRecordsPartitionResult(index, log.log_start_offset)

    # DescribeProducers

    def describe_producers(
        self, request: DescribeProducersRequest, context: RequestContext
    ) -> DescribeProducersResponse:
        """List what a log remembers of its producers."""
        del context
        return DescribeProducersResponse(
            topics=[
                DescribeProducersTopicResponse(
                    topic.name,
                    [self._producers(topic.name, index) for index in topic.partition_indexes],
                )
                for topic in request.topics
            ]
        )

    def _producers(self, topic: str, index: int) -> DescribeProducersPartitionResponse:
        try:
            partition = self._led(topic, index)
        except ApiError as error:
            return DescribeProducersPartitionResponse(index, error.code, error.message)
        return DescribeProducersPartitionResponse(
            index,
            active_producers=[
                ProducerState(
                    producer.producer_id,
                    producer.epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.transaction_first_offset,
                )
                for producer in partition.log.producers
            ],
        )


def _check_version(timestamp: int, version: int) -> None:
    """Refuse a special time that this version does not have, as Kafka does."""
    if timestamp < EARLIEST_PENDING or version < FIRST_VERSION_OF.get(timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _answer(
    result: ListOffsetsPartitionResponse,
    partition: Partition,
    timestamp: int,
    committed_only: bool,
) -> None:
    """Answer one question; nothing is tiered here, so all of the log is local."""
    log = partition.log
    end = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp == LATEST:
        result.offset = end
        result.leader_epoch = partition.role.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING):
        result.offset = log.log_start_offset
        result.leader_epoch = log.epochs.epoch_for(log.log_start_offset)
    elif timestamp != LATEST_TIERED:
        by_time = timestamp != MAX_TIMESTAMP
        found = log.offset_for_timestamp(timestamp) if by_time else log.max_timestamp_entry()
        if found is not None and found.offset < end:
            result.timestamp, result.offset, result.leader_epoch = found


def _segment_starts(partition: Partition, asked: ListOffsetsPartition) -> list[int]:
    """Answer version 0: starts of segments, newest first, and the end if it is asked for."""
    log = partition.log
    starts = [max(start, log.log_start_offset) for start in log.segment_starts(asked.timestamp)]
    if asked.timestamp == LATEST:
        starts.append(partition.high_watermark)
    elif asked.timestamp == EARLIEST:
        starts = [log.log_start_offset]
    return sorted(set(starts), reverse=True)[: max(asked.max_num_offsets, 0)]
