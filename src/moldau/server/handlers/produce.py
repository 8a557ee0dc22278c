"""Produce 0-13: append what a client sent and say where it went.

Nearly every batch is examined and appended in place while its frame still lies in the receive
buffer. One that needs work on its records (old formats, another codec, keys of a compacted topic)
is copied out and worked on in another process; the connection waits, so the order in which a
client's batches take effect is the order in which it sent them. With `flush.messages` an answer
also waits until the disk has what it acknowledges. With acks=all it waits until the high watermark
has passed its batches: at once on one in-sync replica, else at their partitions.

A request with many batches, or large ones, is worked on in turns, after its records were copied
out of the receive buffer. It is worked on to its end even if the client leaves.

A client that has to go to another broker is told where that is (`nodes.leader_hints`).

A transactional batch is appended when the log knows its transaction, or the coordinator has
permitted it (`transactions.writes`); the answer of a coordinator elsewhere is waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError, StorageError
from moldau.base.executor import Executor, Lane, WorkerLost, WorkTooLong
from moldau.base.files import Buffer
from moldau.base.ids import ZERO_TOPIC_ID, TopicId
from moldau.base.limits import REQUEST_WORK_S
from moldau.base.shielding import shielded
from moldau.observe.requests import RequestStats
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.data import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.records.batch import APPEND_TIME_BIT, TRANSACTIONAL_BIT, BatchHeader, is_transactional
from moldau.replication.partition import ACKS_ALL, ACKS_LEADER, ACKS_NONE, Partition
from moldau.replication.partitions import Partitions
from moldau.replication.pending_commits import PendingCommits
from moldau.security.session import Session
from moldau.server.handlers.turned_away import expect_again
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS
from moldau.server.network.dispatch import Applied, Droppable, RequestContext
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns
from moldau.server.nodes.leader_hints import NO_HINTS, LeaderHints
from moldau.server.transactions.writes import (
    NO_PERMITS,
    Permits,
    TransactionalWrites,
    check_permit,
)
from moldau.storage.append_result import AppendResult
from moldau.storage.flushing import Flusher
from moldau.storage.incoming import Incoming, RefusedUnseen, Rework, examine, rework
from moldau.storage.record_checks import NAMED_MAX, RecordsRefused
from moldau.storage.topic_config import LONG_MAX, LogConfig

logger = logging.getLogger(__name__)

ADMIN_CLIENT: Final = "__admin_client"
"""The client id with which Kafka's own tools may write to internal topics.

Any client can give itself a name. So it counts only where `internal.topics.writable` says so: what
clients write there is what coordinators load after the next start."""

MALFORMED: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
    }
)
"""What only a broken client sends, so that its operator wants a line about it."""

UNSEEN: Final = frozenset(
    {
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals that never tell where the log starts, as those that are `RefusedUnseen` do not."""

TOPIC_IDS_FROM: Final = 13
LEADER_HINTS_FROM: Final = 10

BATCH_COST, STEP_COST = 256 * 1024, 2 * 1024 * 1024
"""What a batch costs besides its bytes, and how much is appended between two pauses: 8 small
batches, or two of the largest by default. That takes half a millisecond, and up to four where each
is the first of its partition, whose index files are made with it."""

_SAME_LEADER = LeaderIdAndEpoch()
"""Nothing to say of the leader; shared, and never changed."""


class Destination(NamedTuple):
    """Where the records of a request on the fast path go."""

    topic: str
    topic_id: TopicId | None
    """Given where the client named the topic by it: another topic of this name is not meant."""
    partition: int
    acks: int


class Placed(NamedTuple):
    """Where records on the fast path were appended."""

    partition: Partition
    end_offset: int
    base_offset: int
    timestamp: int
    log_start_offset: int


class _ResultSlot(NamedTuple):
    """Where in an answer the result for one partition stands."""

    results: list[PartitionProduceResponse]
    number: int
    partition: Partition

    def fill(self, result: PartitionProduceResponse) -> None:
        self.results[self.number] = result


class _Later(NamedTuple):
    """What a request cannot be answered without."""

    reworks: list[tuple[_ResultSlot, bytes, Rework]]
    flushes: list[_ResultSlot]
    permits: Permits
    commits: PendingCommits
    """Batches with acks=all that followers do not have yet."""
    timeout_s: float
    """How long the client lets these wait."""
    response: ProduceResponse
    listener: str | None
    """Where the client came in, if it understands where else to go; else None."""
    named: list[BatchIndexAndErrorMessage]
    """Bad records that the answer names so far, of all partitions: a request may have many."""

    def names(self, refused: RecordsRefused) -> list[BatchIndexAndErrorMessage]:
        """Return bad records for the answer, as many as there is still room for."""
        room = NAMED_MAX - len(self.named)
        added = [BatchIndexAndErrorMessage(*one) for one in refused.bad[:room]]
        self.named.extend(added)
        return added


_Written: TypeAlias = tuple[ProduceResponse, _Later]

Produced: TypeAlias = ProduceResponse | Awaitable[ProduceResponse | None] | None
"""An answer, one that will come, or none."""


class ProduceHandler:
    """Answers Produce."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        executor: Executor,
        flusher: Flusher,
        traffic: Traffic,
        stats: RequestStats,
        storage_failed: Callable[[StorageError], None],
        transactional: TransactionalWrites,
        *,
        internal_writable: bool = False,
        leader_hints: LeaderHints = NO_HINTS,
    ) -> None:
        self._internal_writable = internal_writable
        self._leader_hints = leader_hints
        self._partitions = partitions
        self._clock = clock
        self._executor = executor
        self._flusher = flusher
        self._traffic = traffic
        self._stats = stats
        self._storage_failed = storage_failed
        self._transactional = transactional

    def __call__(self, request: ProduceRequest, context: RequestContext) -> Produced:
        if not _has_transactional(request):
            return self._produce(request, context, NO_PERMITS)
        if not request.transactional_id:
            return self._unauthorized(request, context.session)
        permits = self._transactional.permits(request, context.version, self._name)
        if isinstance(permits, asyncio.Future):
            _keep_records(request)
            return self._produce_permitted(request, context, permits)
        return self._produce(request, context, permits)

    async def _produce_permitted(
        self, request: ProduceRequest, context: RequestContext, permits: asyncio.Future[Permits]
    ) -> ProduceResponse | None:
        produced = self._produce(request, context, await permits)
        return await produced if isinstance(produced, Awaitable) else produced

    def _unauthorized(self, request: ProduceRequest, asker: Session) -> Produced:
        """Refuse all of a request that names no transaction for its transactional batches."""
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        self._stats.error(code)
        if request.acks != ACKS_NONE:
            logger.info("refusing transactional records of %s: no id (%s)", asker.peer, code.name)
        results = [
            TopicProduceResponse(
                topic.name,
                topic.topic_id,
                [PartitionProduceResponse(data.index, code, -1) for data in topic.partition_data],
            )
            for topic in request.topic_data
        ]
        return self._reply(ProduceResponse(results), request.acks)

    def _produce(
        self, request: ProduceRequest, context: RequestContext, permits: Permits
    ) -> Produced:
        # One sent without acknowledgement ends its connection, with a line that says why.
        asker = context.session if request.acks else None
        writing = self._write(request, context, permits, asker)
        try:
            next(writing)
        except StopIteration as end:
            response, later = end.value
        else:
            _keep_records(request)
            return self._produce_in_turns(request.acks, writing, asker)
        if later.reworks or later.flushes:
            finish = self._finish(response, later, request.acks, asker)
            # A client that wants no answer may leave as soon as it has sent its batch.
            droppable = later.reworks and request.acks != ACKS_NONE
            return Droppable(finish) if droppable else finish
        if later.commits:
            return Applied(later.commits.answer(response))
        return self._reply(response, request.acks)

    async def _produce_in_turns(
        self, acks: int, writing: Sliced[_Written], asker: Session | None
    ) -> ProduceResponse | None:
        response, later = await take_turns(writing)
        return await self._finish(response, later, acks, asker)

    def _write(
        self,
        request: ProduceRequest,
        context: RequestContext,
        permits: Permits,
        asker: Session | None,
    ) -> Sliced[_Written]:
        """Append every batch that can be; return the answer, and what it cannot be sent without."""
        now_ms = self._clock.wall_ms()
        response = ProduceResponse()
        timeout_s = max(0, request.timeout_ms) / 1000
        listener = _listener_for_hints(context.session, context.version)
        later = _Later([], [], permits, PendingCommits(), timeout_s, response, listener, [])
        internal = self._internal_writable and context.client_id == ADMIN_CLIENT
        cost = 0
        for topic in request.topic_data:
            name = self._name(topic, context.version)
            results: list[PartitionProduceResponse] = []
            response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, results))
            for data in topic.partition_data:
                if cost >= STEP_COST:
                    cost = 0
                    yield
                    name = self._name(topic, context.version)  # it may have been made again
                cost += BATCH_COST + len(data.records or b"")
                try:
                    if name in INTERNAL_TOPICS and not internal:
                        raise self._not_for_clients(name, data.index)
                    partition = self._find(name, data.index, request.acks)
                    examined = examine(data.records, partition.config, now_ms, context.version)
                    if isinstance(examined, Rework):
                        assert data.records is not None
                        place = _ResultSlot(results, len(results), partition)
                        later.reworks.append((place, bytes(data.records), examined))
                        results.append(PartitionProduceResponse(data.index))
                    else:
                        results.append(self._appended(partition, examined, request.acks, later))
                        if partition.flush_is_due:
                            later.flushes.append(_ResultSlot(results, len(results) - 1, partition))
                except (ApiError, StorageError) as error:
                    results.append(
                        self._refusal(name, data.index, data.records, error, asker, later)
                    )
                data.records = None  # it need not be kept during a pause
        return response, later

    def destination(self, topic: TopicProduceData, acks: int, version: int) -> Destination | None:
        """Say where requests like this one go, if `append_at_once` may take them."""
        name = self._name(topic, version)
        if name is None or name in INTERNAL_TOPICS or acks == ACKS_NONE:
            return None
        topic_id = TopicId(topic.topic_id) if version >= TOPIC_IDS_FROM else None
        return Destination(name, topic_id, topic.partition_data[0].index, acks)

    def append_at_once(
        self, where: Destination, records: memoryview, version: int
    ) -> Placed | None:
        """Append records that need nothing else, and tell where they are.

        With acks=all they are acknowledged once the high watermark has reached their end. None
        where there is more to do or to say; nothing is appended then.
        """
        topic, topic_id, index, acks = where
        try:
            partition = self._find(topic, index, acks)
            config = partition.config
            if topic_id not in (None, partition.topic_id) or not _appendable_unchanged(config):
                return None
            examined = examine(records, config, self._clock.wall_ms(), version)
            if isinstance(examined, Rework) or examined.header.attributes & TRANSACTIONAL_BIT:
                return None
            appended = self._append(partition, examined.header, examined.batch, acks)
        except ApiError:
            return None
        except StorageError as error:
            self._storage_failed(error)
            return None
        return Placed(
            partition,
            appended.last_offset + 1,
            appended.base_offset,
            _told_time(examined.header, appended),
            partition.log_start_offset,
        )

    def not_committed(
        self, where: Destination, placed: Placed, code: ErrorCode, session: Session, version: int
    ) -> ProduceResponse:
        """Answer that records on the fast path were appended, but not committed."""
        response = ProduceResponse()
        result = PartitionProduceResponse(
            where.partition, 0, placed.base_offset, placed.timestamp, placed.log_start_offset
        )
        listener = _listener_for_hints(session, version)
        self._fail_commit(placed.partition, result, listener, response, code)
        topic = TopicProduceResponse(where.topic, where.topic_id or ZERO_TOPIC_ID, [result])
        response.responses.append(topic)
        return response

    async def _finish(
        self, response: ProduceResponse, later: _Later, acks: int, asker: Session | None
    ) -> ProduceResponse | None:
        """Do what takes time: work on records, one batch after the other, then wait for syncs."""
        deadline_s = self._clock.monotonic() + REQUEST_WORK_S
        for place, records, task in later.reworks:
            topic, index = place.partition.key
            try:
                incoming = await self._reworked(records, task, deadline_s)
                partition = self._find(topic, index, acks)
                if partition.topic_id != place.partition.topic_id:
                    # Made again under its name meanwhile: the batch was not meant for this one.
                    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                place.fill(self._appended(partition, incoming, acks, later))
                if partition.flush_is_due:
                    later.flushes.append(place)
            except (ApiError, StorageError) as error:
                place.fill(self._refusal(topic, index, records, error, asker, later))
        if later.flushes:
            # A disk that fails must be known, even if the client that waits for it has left.
            await shielded(self._flush(later, asker))
        if later.commits:
            await later.commits.answer(response)
        return self._reply(response, acks)

    async def _flush(self, later: _Later, asker: Session | None) -> None:
        for place in later.flushes:
            try:
                await place.partition.flush(self._flusher)
            except StorageError as error:
                place.fill(self._refusal(*place.partition.key, None, error, asker, later))

    async def _reworked(self, records: bytes, task: Rework, deadline_s: float) -> Incoming:
        if self._clock.monotonic() > deadline_s:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "the batches before it took too long")
        try:
            return await self._executor.compute(Lane.WRITES, rework, records, task)
        except WorkerLost as error:
            # Nothing was appended, so that a producer may send its batch again, and does.
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error)) from error
        except WorkTooLong as error:
            # Java's producer splits the batch on this error, and sends the parts.
            raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error

    def _reply(self, response: ProduceResponse, acks: int) -> ProduceResponse | None:
        if acks != ACKS_NONE:
            return response
        failed = [
            one
            for topic in response.responses
            for one in topic.partition_responses
            if one.error_code
        ]
        if failed:
            # A client that asked for no answer can only be told by closing the connection.
            raise ProtocolError(
                f"a batch sent with acks=0 was refused: {ErrorCode.of(failed[0].error_code).name}"
            )
        return None

    def _name(self, topic: TopicProduceData, version: int) -> str | None:
        if version < TOPIC_IDS_FROM:
            return topic.name
        return self._partitions.topic_name(TopicId(topic.topic_id))

    def _not_for_clients(self, topic: str, index: int) -> ApiError:
        there = self._partitions.get(topic, index) is not None
        code = self._partitions.missing(topic, index)
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION if there else code)

    def _find(self, name: str | None, index: int, acks: int) -> Partition:
        if acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is not 0, 1 or -1")
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._partitions.get(name, index)
        if partition is None:
            raise ApiError(self._partitions.missing(name, index))
        # Before the batch is looked at: what it says is no matter to who may not append it.
        partition.check_writable(acks)
        return partition

    def _appended(
        self, partition: Partition, incoming: Incoming, acks: int, later: _Later
    ) -> PartitionProduceResponse:
        header = incoming.header
        if header.transactional:
            check_permit(partition, header, later.permits)
        appended = self._append(partition, header, incoming.batch, acks)
        result = PartitionProduceResponse(
            partition.key.partition,
            0,
            appended.base_offset,
            _told_time(header, appended),
            partition.log_start_offset,
            current_leader=_SAME_LEADER,
        )
        end_offset = appended.last_offset + 1
        if acks == ACKS_ALL and end_offset > partition.high_watermark:
            failed = partial(self._fail_commit, partition, result, later.listener, later.response)
            later.commits.add(partition, end_offset, later.timeout_s, failed)
        return result

    def _fail_commit(
        self,
        partition: Partition,
        result: PartitionProduceResponse,
        listener: str | None,
        response: ProduceResponse,
        code: ErrorCode,
    ) -> None:
        """Answer that a batch is in the log, but nobody knows yet whether it stays there.

        As in Kafka, the offsets stay in the answer.
        """
        result.error_code = code
        result.current_leader = self._leader(*partition.key, code, listener, response)
        self._traffic.of(partition.key.topic).failed_produce += 1
        self._stats.error(code)

    def _append(
        self, partition: Partition, header: BatchHeader, batch: Buffer, acks: int
    ) -> AppendResult:
        appended = partition.append_as_leader(batch, header, acks)
        traffic = self._traffic.of(partition.key.topic)
        traffic.messages_in += header.count
        traffic.bytes_in += header.size
        return appended

    def _refusal(
        self,
        topic: str | None,
        index: int,
        records: Buffer | None,
        error: ApiError | StorageError,
        asker: Session | None,
        later: _Later,
    ) -> PartitionProduceResponse:
        named: list[BatchIndexAndErrorMessage] = []
        if isinstance(error, RecordsRefused):
            error = error.in_partition(f"{topic}-{index}")
            named = later.names(error)
        if isinstance(error, ApiError):
            code, message = error.code, error.message
            if code in MALFORMED and asker is not None:
                logger.info(
                    "refusing records of %s for %s-%d: %s (%s)",
                    asker.peer, topic, index, message, code.name,
                )  # fmt: skip
        else:
            code, message = ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR.text
            self._storage_failed(error)
        log_start = -1
        partition = None if topic is None else self._partitions.get(topic, index)
        if partition is not None:
            expect_again(partition, records, error)
            self._traffic.of(partition.key.topic).failed_produce += 1
            if code not in UNSEEN and not isinstance(error, RefusedUnseen):
                log_start = partition.log_start_offset
        self._stats.error(code)
        return PartitionProduceResponse(
            index,
            code,
            -1,
            log_start_offset=log_start,
            record_errors=named,
            error_message=message,
            current_leader=self._leader(topic, index, code, later.listener, later.response),
        )

    def _leader(
        self,
        topic: str | None,
        index: int,
        code: ErrorCode,
        listener: str | None,
        response: ProduceResponse,
    ) -> LeaderIdAndEpoch:
        """Say who leads a partition, to a client that has to go there."""
        is_elsewhere = code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if topic is None or listener is None or not is_elsewhere:
            return _SAME_LEADER
        return self._leader_hints.hint(topic, index, listener, response.node_endpoints)


def _listener_for_hints(session: Session, version: int) -> str | None:
    """Return where a client came in, if it understands where else to go; else None."""
    return session.listener if version >= LEADER_HINTS_FROM else None


def _has_transactional(request: ProduceRequest) -> bool:
    return any(
        data.records is not None and is_transactional(data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _keep_records(request: ProduceRequest) -> None:
    """Take records out of the receive buffer, which is the next request's after this turn."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            # What was decoded from bytes is nobody else's, and need not be copied.
            if isinstance(records, memoryview) and not isinstance(records.obj, bytes):
                data.records = bytes(records)


def _appendable_unchanged(config: LogConfig) -> bool:
    """Tell whether a topic's batches are appended unseen and answered unsynced.

    Asked before a batch is examined: what takes the slow path in the end is not checked twice.
    """
    return (
        config.flush_messages == LONG_MAX
        and config.compression_type == "producer"
        and not config.compacts
    )


def _told_time(header: BatchHeader, appended: AppendResult) -> int:
    """The time an answer tells: the leader's, where it counts; a duplicate's is the first one's."""
    told = header.attributes & APPEND_TIME_BIT or appended.duplicate
    return appended.timestamp if told else -1
