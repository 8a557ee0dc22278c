"""ListOffsets 0-11, OffsetForLeaderEpoch 0-4, DeleteRecords 0-2, DescribeProducers 0.

ListOffsets is asked after every poll by some consumers (Spark's asks twice), so the ends of a log
are attribute look-ups. Only a question by time reads the disk: an index, then one batch. If that
one is compressed, another process inflates it and the answer comes later, for this partition and
those behind it in the request: one at a time, so that a request never holds more than one batch.

A new leader's high watermark may lie below what the leader before it has told. Until it has reached
the start of the epoch, clients are told that the end is not known (KIP-207); then they ask again.

DeleteRecords is answered when all live replicas have deleted the records, or its time is up.

A partition that one request names twice is refused by ListOffsets, and counts once, as it is named
last, for DeleteRecords; both as in Kafka. DescribeProducers and OffsetForLeaderEpoch tell it once,
where Kafka tells it as often as it is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Final, NamedTuple

from moldau.base.errors import BatchTooLarge, CorruptRecords, StorageError
from moldau.base.executor import Executor, Lane, WorkerLost, WorkTooLong
from moldau.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from moldau.base.limits import REQUEST_WORK_S
from moldau.cluster.topics import check_topic_name
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
from moldau.replication.pending_commits import PendingCommits
from moldau.security.session import Session
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS
from moldau.server.network.answer_room import AnswerRoom
from moldau.server.network.dispatch import Droppable, RequestContext
from moldau.server.network.repeats import FoldedPartitions, fold_partitions, itself
from moldau.server.network.slices import Sliced
from moldau.storage.time_search import Look, Search, TimestampOffset, look_into

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -4, -5, -6
FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
READ_COMMITTED = 1
OFFSET_NOT_AVAILABLE_FROM = 5
"""Clients of earlier versions do not know that error, and retry on LEADER_NOT_AVAILABLE."""
TO_HIGH_WATERMARK = -1

_INDEX: Final = attrgetter("partition_index")
_PRODUCER_SIZE: Final = 38
"""Bytes of one producer in an answer."""

_Failure = ApiError | StorageError | CorruptRecords | WorkerLost | WorkTooLong
_FAILURES: Final = (ApiError, StorageError, CorruptRecords, WorkerLost, WorkTooLong)
"""What may become of one partition's question without harm to the others of a request."""


class _Question(NamedTuple):
    """What a request asks of one partition, and where the answer stands."""

    topic: str
    asked: ListOffsetsPartition
    result: ListOffsetsPartitionResponse
    version: int
    committed_only: bool
    repeated: bool
    """Whether the request names the partition more than once."""
    from_follower: bool = False
    """Whether a replica asks: for it the log ends where the leader's does."""


class _Searching(NamedTuple):
    """A question that is not answered before somebody has looked into a batch."""

    question: _Question
    partition: Partition
    leader_epoch: LeaderEpoch
    search: Search
    look: Look


class OffsetHandlers:
    """Answers the questions about places in a log."""

    def __init__(
        self,
        partitions: Partitions,
        executor: Executor,
        storage_failed: Callable[[StorageError], None],
        *,
        is_for_brokers: Callable[[Session], bool] = lambda _: True,
    ) -> None:
        """`is_for_brokers` tells whether a session came in where brokers talk to each other."""
        self._partitions = partitions
        self._executor = executor
        self._storage_failed = storage_failed
        self._is_for_brokers = is_for_brokers

    def _led(self, topic: str, index: int, epoch: int = NO_LEADER_EPOCH) -> Partition:
        partition = self._partitions.get(topic, index)
        if partition is None:
            raise ApiError(self._partitions.missing(topic, index))
        fence = partition.fence(LeaderEpoch(epoch))
        if fence is not ErrorCode.NONE:
            raise ApiError(fence)
        return partition

    # ListOffsets

    def list_offsets(
        self, request: ListOffsetsRequest, context: RequestContext
    ) -> Sliced[ListOffsetsResponse | Droppable]:
        """Find offsets by time, or the ends of a log."""
        response = ListOffsetsResponse()
        wanted = yield from fold_partitions(
            ((topic.name, topic.partitions) for topic in request.topics), _INDEX
        )
        # Elsewhere it is a client like any other, whatever it says of itself.
        from_follower = request.replica_id >= 0 and self._is_for_brokers(context.session)
        questions = _questions(wanted, request, response, context.version, from_follower)
        for question in questions:
            searching = self._answer(question)
            if searching is not None:
                return Droppable(self._answer_later(response, searching, questions))
            yield
        return response

    async def _answer_later(
        self, response: ListOffsetsResponse, first: _Searching, others: Iterator[_Question]
    ) -> ListOffsetsResponse:
        deadline_s = asyncio.get_running_loop().time() + REQUEST_WORK_S
        await self._finish(first, deadline_s)
        for question in others:
            searching = self._answer(question)
            if searching is not None:
                await self._finish(searching, deadline_s)
            else:
                await asyncio.sleep(0)
        return response

    def _answer(self, question: _Question) -> _Searching | None:
        """Answer one question, unless records have to be looked at elsewhere for it."""
        asked, result = question.asked, question.result
        try:
            if question.repeated:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            partition = self._led(question.topic, asked.partition_index, asked.current_leader_epoch)
            _check_version(asked.timestamp, question.version)
            if question.version == 0:
                result.old_style_offsets = _segment_starts(question, partition)
                return None
            if asked.timestamp >= 0 or asked.timestamp == MAX_TIMESTAMP:
                return _search(question, partition)
            _answer_end(question, partition)
        except _FAILURES as failure:
            result.error_code = self._code_of(failure)
        return None

    async def _finish(self, searching: _Searching, deadline_s: float) -> None:
        """Have batches looked into until the search has its answer, or nobody waits for it."""
        question, partition, leader_epoch, search, look = searching
        try:
            while True:
                if asyncio.get_running_loop().time() > deadline_s:
                    raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
                seen = await self._executor.compute(Lane.READS, look_into, look)
                self._check_unchanged(partition, leader_epoch)
                try:
                    look = search.send(seen)
                except StopIteration as end:
                    _answer_found(question, partition, end.value)
                    return
        except _FAILURES as failure:
            question.result.error_code = self._code_of(failure)

    def _check_unchanged(self, partition: Partition, leader_epoch: LeaderEpoch) -> None:
        """Give a search up whose log may have been cut, or closed, while it waited."""
        current = self._led(*partition.key)
        if current is not partition or current.role.leader_epoch != leader_epoch:
            # Its client refreshes what it knows and asks again.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _code_of(self, failure: _Failure) -> ErrorCode:
        if isinstance(failure, ApiError):
            return failure.code
        if isinstance(failure, StorageError):
            self._storage_failed(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if isinstance(failure, WorkerLost):
            return ErrorCode.REQUEST_TIMED_OUT
        if isinstance(failure, WorkTooLong | BatchTooLarge):
            # Consumers take the search for impossible; after any other error they ask again.
            return ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        # Its producer's records were taken at their word when they were appended.
        return ErrorCode.CORRUPT_MESSAGE

    # OffsetForLeaderEpoch

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, context: RequestContext
    ) -> Sliced[OffsetForLeaderEpochResponse]:
        """Say where an epoch ends."""
        del context
        response = OffsetForLeaderEpochResponse()
        wanted = yield from fold_partitions(
            ((topic.topic, topic.partitions) for topic in request.topics), attrgetter("partition")
        )
        for topic, partitions in wanted.topics.items():
            results: list[OffsetForLeaderPartitionResult] = []
            response.topics.append(OffsetForLeaderTopicResult(topic, results))
            for asked in partitions.values():
                results.append(self._epoch_end(topic, asked))
                yield
        return response

    def _epoch_end(
        self, topic: str, asked: OffsetForLeaderPartition
    ) -> OffsetForLeaderPartitionResult:
        try:
            partition = self._led(topic, asked.partition, asked.current_leader_epoch)
        except ApiError as error:
            return OffsetForLeaderPartitionResult(error.code, asked.partition)
        end = partition.epoch_end(LeaderEpoch(asked.leader_epoch))
        return OffsetForLeaderPartitionResult(0, asked.partition, end.epoch, end.end_offset)

    # DeleteRecords

    def delete_records(
        self, request: DeleteRecordsRequest, context: RequestContext
    ) -> Sliced[DeleteRecordsResponse | asyncio.Future[DeleteRecordsResponse]]:
        """Move the start of logs forward."""
        del context
        response, pending = DeleteRecordsResponse(), PendingCommits()
        timeout_s = max(0, request.timeout_ms) / 1000
        wanted = yield from fold_partitions(
            ((topic.name, topic.partitions) for topic in request.topics), _INDEX
        )
        for topic, partitions in wanted.topics.items():
            results: list[DeleteRecordsPartitionResult] = []
            response.topics.append(DeleteRecordsTopicResult(topic, results))
            for index, asked in partitions.items():
                result = DeleteRecordsPartitionResult(index)
                results.append(result)
                try:
                    self._delete_before(topic, asked.offset, result, pending, timeout_s)
                except ApiError as error:
                    result.low_watermark, result.error_code = -1, error.code
                yield
        return pending.answer(response) if pending else response

    def _delete_before(
        self,
        topic: str,
        offset: int,
        result: DeleteRecordsPartitionResult,
        pending: PendingCommits,
        timeout_s: float,
    ) -> None:
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = self._led(topic, result.partition_index)
        if offset == TO_HIGH_WATERMARK:
            offset = partition.high_watermark
        partition.delete_records(offset)
        result.low_watermark = partition.low_watermark
        if result.low_watermark < offset:
            deleted = partial(_deleted, partition, result)
            pending.add_deletion(partition, offset, timeout_s, deleted)

    # DescribeProducers

    def describe_producers(
        self, request: DescribeProducersRequest, context: RequestContext
    ) -> Sliced[DescribeProducersResponse]:
        """List what a log remembers of its producers."""
        del context
        response = DescribeProducersResponse()
        room = AnswerRoom()
        wanted = yield from fold_partitions(
            ((topic.name, topic.partition_indexes) for topic in request.topics), itself
        )
        for topic, partitions in wanted.topics.items():
            results: list[DescribeProducersPartitionResponse] = []
            response.topics.append(DescribeProducersTopicResponse(topic, results))
            for index in partitions:
                results.append((yield from self._producers(topic, index, room)))
                yield
        return response

    def _producers(
        self, topic: str, index: int, room: AnswerRoom
    ) -> Sliced[DescribeProducersPartitionResponse]:
        try:
            check_topic_name(topic)
            partition = self._led(topic, index)
            producers = partition.producers()
            room.take(_PRODUCER_SIZE * len(producers))
        except ApiError as error:
            return DescribeProducersPartitionResponse(index, error.code, error.message)
        states = []
        for producer in producers:
            states.append(
                ProducerState(
                    producer.producer_id,
                    producer.epoch,
                    producer.last_sequence,
                    producer.last_timestamp,
                    producer.coordinator_epoch,
                    producer.transaction_first_offset,
                )
            )
            yield
        return DescribeProducersPartitionResponse(index, active_producers=states)


def _deleted(partition: Partition, result: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
    """Answer what has come of a deletion; after an error the low watermark stays as it was."""
    result.error_code = code
    if code is ErrorCode.NONE:
        result.low_watermark = partition.low_watermark


def _questions(
    wanted: FoldedPartitions[str, ListOffsetsPartition],
    request: ListOffsetsRequest,
    response: ListOffsetsResponse,
    version: int,
    from_follower: bool,
) -> Iterator[_Question]:
    """Take a request apart, making the place for each answer when it is its turn."""
    committed_only = request.isolation_level == READ_COMMITTED
    for topic, partitions in wanted.topics.items():
        results: list[ListOffsetsPartitionResponse] = []
        response.topics.append(ListOffsetsTopicResponse(topic, results))
        for index, asked in partitions.items():
            result = ListOffsetsPartitionResponse(index)
            results.append(result)
            repeated = (topic, index) in wanted.repeated
            yield _Question(topic, asked, result, version, committed_only, repeated, from_follower)


def _check_version(timestamp: int, version: int) -> None:
    """Refuse a special time that this version does not have, as Kafka does."""
    if timestamp < EARLIEST_PENDING or version < FIRST_VERSION_OF.get(timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)


def _answer_end(question: _Question, partition: Partition) -> None:
    """Answer with an end of the log; nothing is tiered here, so all of it is local."""
    result, timestamp = question.result, question.asked.timestamp
    if timestamp == LATEST:
        _check_end_known(question, partition)
        result.offset = _end(question, partition)
        result.leader_epoch = partition.role.leader_epoch
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = partition.log_start_offset
        result.offset = start
        result.leader_epoch = partition.epoch_of(start)


def _check_end_known(question: _Question, partition: Partition) -> None:
    """Refuse to tell a client where a partition ends as long as its leader may not know it."""
    if not question.from_follower and not partition.is_latest_offset_known:
        is_new = question.version >= OFFSET_NOT_AVAILABLE_FROM
        raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE if is_new else ErrorCode.LEADER_NOT_AVAILABLE)


def _end(question: _Question, partition: Partition) -> Offset:
    if question.from_follower:
        return partition.log_end_offset
    return partition.last_stable_offset if question.committed_only else partition.high_watermark


def _search(question: _Question, partition: Partition) -> _Searching | None:
    """Answer by time; most searches find their record without anybody's help."""
    timestamp = question.asked.timestamp
    search = partition.search(None if timestamp == MAX_TIMESTAMP else timestamp)
    try:
        look = next(search)
    except StopIteration as end:
        _answer_found(question, partition, end.value)
        return None
    return _Searching(question, partition, partition.role.leader_epoch, search, look)


def _answer_found(question: _Question, partition: Partition, found: TimestampOffset | None) -> None:
    """Answer with a record, if there is one that its asker may read."""
    if found is not None and found.offset < _end(question, partition):
        result = question.result
        result.timestamp, result.offset, result.leader_epoch = found
    else:
        # The record may lie behind this high watermark, and before the one of the last leader.
        _check_end_known(question, partition)


def _segment_starts(question: _Question, partition: Partition) -> list[int]:
    """Answer version 0: starts of segments, newest first, and the end if it is asked for."""
    asked = question.asked
    log_start = partition.log_start_offset
    starts = [max(start, log_start) for start in partition.segment_starts(asked.timestamp)]
    if asked.timestamp == LATEST:
        _check_end_known(question, partition)
        starts.append(partition.high_watermark)
    elif asked.timestamp == EARLIEST:
        starts = [log_start]
    return sorted(set(starts), reverse=True)[: max(asked.max_num_offsets, 0)]
