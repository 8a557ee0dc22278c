"""InitProducerId 0-5, AddPartitionsToTxn 0-5, AddOffsetsToTxn 0-4, EndTxn 0-5.

Requests become calls of the shard that has the transactional id, and its replies messages. A
producer id is fetched only when a shard says that it needs one: most producers come back under an
id they had.

Up to version 3 AddPartitionsToTxn comes from clients, with one transaction; from 4 on from brokers,
with many, to add or only to verify (KIP-890). Old clients do not know PRODUCER_FENCED and are told
INVALID_PRODUCER_EPOCH, which they treat the same.

A partition, or a transactional id, that AddPartitionsToTxn names twice counts once, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, Final, TypeVar

from moldau.base.errors import MoldauError
from moldau.base.ids import NO_PRODUCER_ID, PartitionKey
from moldau.base.limits import PARTITIONS_PER_TRANSACTION
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import OutcomeUnknown, StoreFailed
from moldau.coordination.answers import Answer, combined
from moldau.coordination.outcome import Now, Outcome, ProducerIdentity, Ticket
from moldau.coordination.refusals import coordinator_error
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.shard import NOBODY, Ended, TransactionShard
from moldau.coordination.transactions.transaction import EPOCH_PER_TRANSACTION, Missing
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.security.session import Session
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS, OFFSETS_TOPIC
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.gathering import gather
from moldau.server.network.repeats import fold, once
from moldau.server.network.slices import Sliced
from moldau.server.transactions.partitions import Verdicts, add_partitions, verify_partitions
from moldau.server.transactions.producer_ids import ProducerIds

R = TypeVar("R")

_INIT_KNOWS_FENCED: Final = 4
_KNOWS_FENCED: Final = 2
"""The first version that knows PRODUCER_FENCED, of the three other requests."""
_ADD_BY_BROKERS: Final = 4
_END_RAISES_EPOCH: Final = 5
_OLD_PROTOCOL: Final = 0


class TransactionHandlers:
    """Answers the requests of transactional producers."""

    def __init__(
        self,
        runtime: Runtime[TransactionShard],
        ids: ProducerIds,
        image: Callable[[], MetadataImage],
        offsets_partition: Callable[[str], int],
        *,
        is_for_brokers: Callable[[Session], bool] = lambda _: True,
    ) -> None:
        """`offsets_partition` tells which partition of the offsets topic has a group.

        `is_for_brokers` tells whether a session came in where brokers talk to each other.
        """
        self._runtime = runtime
        self._ids = ids
        self._image = image
        self._offsets_partition = offsets_partition
        self._is_for_brokers = is_for_brokers

    # InitProducerId

    async def init_producer_id(
        self, request: InitProducerIdRequest, context: RequestContext
    ) -> InitProducerIdResponse:
        """Say under which producer id and epoch to write."""
        expected = ProducerIdentity(request.producer_id, request.producer_epoch)
        if request.transactional_id == "" or _is_half_known(expected):
            return _not_initialized(ErrorCode.INVALID_REQUEST)
        try:
            if request.transactional_id is None:
                return InitProducerIdResponse(producer_id=await self._ids.take())
            answer = await self._initialized(request.transactional_id, request, expected)
        except (ApiError, StoreFailed) as error:
            return _not_initialized(_no_producer_id(request.transactional_id, error))
        if isinstance(answer, ErrorCode):
            return _not_initialized(_known(answer, context.version, _INIT_KNOWS_FENCED))
        return InitProducerIdResponse(
            producer_id=answer.producer_id, producer_epoch=answer.producer_epoch
        )

    async def _initialized(
        self, transactional_id: str, request: InitProducerIdRequest, expected: ProducerIdentity
    ) -> ProducerIdentity | ErrorCode:
        async def ask(fresh: int | None) -> ProducerIdentity | ErrorCode | Missing:
            answer: Answer[ProducerIdentity | ErrorCode | Missing] = self._runtime.call(
                transactional_id,
                lambda shard, ticket, now: shard.init_producer_id(
                    transactional_id,
                    request.transaction_timeout_ms,
                    None if expected == NOBODY else expected,
                    fresh,
                    ticket,
                    now,
                ),
                lambda code: code,
            )
            return await _arrived(answer)

        answer = await ask(None)
        if isinstance(answer, Missing):
            answer = await ask(await self._ids.take())
        assert not isinstance(answer, Missing)
        return answer

    # AddPartitionsToTxn

    def add_partitions_to_txn(
        self, request: AddPartitionsToTxnRequest, context: RequestContext
    ) -> Sliced[AddPartitionsToTxnResponse | Coroutine[None, None, AddPartitionsToTxnResponse]]:
        """Add partitions to transactions, or say whether they are in them."""
        by_brokers = context.version >= _ADD_BY_BROKERS
        if by_brokers and not self._is_for_brokers(context.session):
            # These versions ask for any producer's transactions, and for internal topics.
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        asked = request.transactions
        if not by_brokers:
            asked = [
                AddPartitionsToTxnTransaction(
                    request.v3_and_below_transactional_id,
                    request.v3_and_below_producer_id,
                    request.v3_and_below_producer_epoch,
                    topics=request.v3_and_below_topics,
                )
            ]
        wanted = (yield from fold(asked, attrgetter("transactional_id"))).elements
        client_version = EPOCH_PER_TRANSACTION if by_brokers else _OLD_PROTOCOL
        answers = []
        for one in wanted.values():
            answers.append((yield from self._added(one, client_version)))
            yield

        def combine(results: list[list[AddPartitionsToTxnTopicResult]]) -> Any:
            if not by_brokers:
                return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
            return AddPartitionsToTxnResponse(
                results_by_transaction=[
                    AddPartitionsToTxnResult(*one) for one in zip(wanted, results, strict=True)
                ]
            )

        return (
            yield from gather(answers, lambda codes: _by_topic(codes, context.version), combine)
        )

    def _added(
        self, asked: AddPartitionsToTxnTransaction, client_version: int
    ) -> Sliced[Answer[Verdicts]]:
        keys = yield from once(
            PartitionKey(topic.name, partition)
            for topic in asked.topics
            for partition in topic.partitions
        )
        if not asked.transactional_id:
            return (yield from _all(keys, ErrorCode.INVALID_REQUEST))
        if len(keys) > PARTITIONS_PER_TRANSACTION:
            return (yield from _all(keys, coordinator_error(ErrorCode.MESSAGE_TOO_LARGE)))
        verdicts = yield from self._refused(keys, from_client=client_version == _OLD_PROTOCOL)
        if verdicts is not None:
            return verdicts
        producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
        if asked.verify_only:
            return verify_partitions(self._runtime, asked.transactional_id, producer, keys)
        added = add_partitions(
            self._runtime, asked.transactional_id, producer, keys, client_version
        )
        return combined([added], lambda codes: dict.fromkeys(keys, codes[0]))

    def _refused(self, keys: list[PartitionKey], *, from_client: bool) -> Sliced[Verdicts | None]:
        """Say which partitions nobody, or no client, may write to in a transaction.

        One is enough for none of them to be added. None if there is none.
        """
        image = self._image()
        verdicts = {}
        is_refused = False
        for key in keys:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            if from_client and key.topic in INTERNAL_TOPICS:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif image.partition(key) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            is_refused = is_refused or code is not ErrorCode.OPERATION_NOT_ATTEMPTED
            verdicts[key] = code
            yield
        return verdicts if is_refused else None

    # AddOffsetsToTxn

    def add_offsets_to_txn(
        self, request: AddOffsetsToTxnRequest, context: RequestContext
    ) -> Answer[AddOffsetsToTxnResponse]:
        """Add the partition that keeps a group's offsets to a transaction."""
        if not request.transactional_id:
            return AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        key = PartitionKey(OFFSETS_TOPIC, self._offsets_partition(request.group_id))
        added = add_partitions(
            self._runtime,
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            [key],
            _OLD_PROTOCOL,
        )
        return combined(
            [added],
            lambda codes: AddOffsetsToTxnResponse(
                error_code=_known(codes[0], context.version, _KNOWS_FENCED)
            ),
        )

    # EndTxn

    def end_txn(
        self, request: EndTxnRequest, context: RequestContext
    ) -> EndTxnResponse | Coroutine[Any, Any, EndTxnResponse]:
        """Commit or abort."""
        if not request.transactional_id:
            return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
        version = EPOCH_PER_TRANSACTION if context.version >= _END_RAISES_EPOCH else _OLD_PROTOCOL
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)

        def handle(shard: TransactionShard, ticket: Ticket, now: Now, fresh: int | None) -> Outcome:
            return shard.end_transaction(
                request.transactional_id,
                producer,
                version,
                fresh,
                ticket,
                now,
                commit=request.committed,
            )

        def ask(fresh: int | None) -> Answer[Ended | Missing]:
            return self._runtime.call(
                request.transactional_id,
                lambda shard, ticket, now: handle(shard, ticket, now, fresh),
                Ended,
            )

        answer = ask(None)
        if isinstance(answer, Ended):
            return _ended(answer, context.version)
        return self._ended_later(ask, answer, context.version)

    async def _ended_later(
        self,
        ask: Callable[[int | None], Answer[Ended | Missing]],
        answer: Answer[Ended | Missing],
        version: int,
    ) -> EndTxnResponse:
        """Wait for the commit, or for a producer id first, where the epochs are used up."""
        ended: Ended | Missing = await _arrived(answer)
        if isinstance(ended, Missing):
            try:
                fresh = await self._ids.take()
            except (ApiError, StoreFailed):
                return _ended(Ended(ErrorCode.COORDINATOR_NOT_AVAILABLE), version)
            ended = await _arrived(ask(fresh))
        assert not isinstance(ended, Missing)
        return _ended(ended, version)


async def _arrived(answer: Answer[R]) -> R:
    return await answer if isinstance(answer, asyncio.Future) else answer


def _is_half_known(producer: ProducerIdentity) -> bool:
    """Tell whether a producer names its id without its epoch, or the other way round."""
    return (producer.producer_id == NO_PRODUCER_ID) != (
        producer.producer_epoch == NOBODY.producer_epoch
    )


def _no_producer_id(transactional_id: str | None, error: MoldauError) -> ErrorCode:
    """Say that there is no producer id to give.

    Clients of all ages try again after COORDINATOR_LOAD_IN_PROGRESS. A disk that has failed does
    not get well by that.
    """
    is_broken = isinstance(error, StoreFailed) and not isinstance(error, OutcomeUnknown)
    if is_broken and transactional_id is None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def _not_initialized(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=NOBODY.producer_epoch)


def _known(code: ErrorCode, version: int, knows_fenced: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and version < knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _all(keys: list[PartitionKey], code: ErrorCode) -> Sliced[Verdicts]:
    """Say the same of all partitions."""
    verdicts = {}
    for key in keys:
        verdicts[key] = code
        yield
    return verdicts


def _by_topic(codes: Verdicts, version: int) -> Sliced[list[AddPartitionsToTxnTopicResult]]:
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for key, code in codes.items():
        topic = topics.setdefault(key.topic, AddPartitionsToTxnTopicResult(key.topic))
        topic.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(key.partition, _known(code, version, _KNOWS_FENCED))
        )
        yield
    return list(topics.values())


def _ended(ended: Ended, version: int) -> EndTxnResponse:
    return EndTxnResponse(
        error_code=_known(ended.error, version, _KNOWS_FENCED),
        producer_id=ended.producer.producer_id,
        producer_epoch=ended.producer.producer_epoch,
    )
