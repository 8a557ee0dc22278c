"""OffsetCommit 0-10, TxnOffsetCommit 0-6, OffsetDelete 0.

Here is decided what the metadata can tell: which topics and partitions there are, by name or, in
the newest versions, by id. The rest is the group shard's. Version 0 of OffsetCommit once meant
ZooKeeper; it is served like version 1. Its empty group id is a group like any other, as in Kafka.

What is refused here stands in an answer before what the shard decides, as in Kafka.

A partition that one request names twice counts once, as it is named last. Kafka writes and answers
all of them, and the last one counts.

All offsets of a request are one change of the shard's state, and one batch, as long as there are no
more than `OFFSETS_PER_BATCH`. More would hold up the loop: such a request is carried out in parts,
and each partition is told what became of its own part. Kafka writes them in one batch, or none.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from moldau.base.ids import ZERO_TOPIC_ID, PartitionKey
from moldau.base.limits import OFFSETS_PER_BATCH, OFFSETS_PER_PART, OFFSETS_PER_REQUEST
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Topic
from moldau.coordination.answers import Answer, combined
from moldau.coordination.groups.offset_requests import (
    commit_refused,
    transactional_commit_refused,
)
from moldau.coordination.groups.repeated_commit import RepeatedCommit
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.outcome import Now, Outcome, ProducerIdentity, Ticket
from moldau.coordination.refusals import coordinator_error
from moldau.coordination.runtime import Runtime
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.protocol.messages.transactions import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.repeats import fold_partitions
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

P = TypeVar("P")
T = TypeVar("T")
Q = TypeVar("Q", OffsetCommitRequest, TxnOffsetCommitRequest, OffsetDeleteRequest)
R = TypeVar("R", OffsetCommitResponse, TxnOffsetCommitResponse, OffsetDeleteResponse)

_COMMIT_BY_ID: Final = 10
_TRANSACTIONAL_COMMIT_BY_ID: Final = 6
_ADDS_PARTITION: Final = 5
"""The version from which TxnOffsetCommit adds its partition to the transaction (KIP-890)."""
_KNOWS_ABORTABLE: Final = 4
_KNOWS_LOADING: Final = 2


class VerifyTransaction(Protocol):
    """Asks the coordinator of a transaction whether a partition is part of it (KIP-890)."""

    def __call__(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partition: PartitionKey,
        *,
        add: bool,
    ) -> Answer[ErrorCode]:
        """Tell whether the producer may write there; with `add` make it part first."""
        ...


class _Existing(NamedTuple):
    """The part of one topic in a request that there is."""

    topic: Topic
    partitions: list[Any]


class _Missing(NamedTuple):
    """The part of one topic in a request that there is not."""

    name: str
    topic_id: bytes
    partitions: list[int]
    error: ErrorCode


class GroupOffsetHandlers:
    """Answers requests about the offsets of groups."""

    def __init__(
        self,
        runtime: Runtime[GroupShard],
        image: Callable[[], MetadataImage],
        verify: VerifyTransaction,
        markers: Callable[[PartitionKey, int], object],
    ) -> None:
        """`markers` gives a value that is another one once a producer has a marker somewhere."""
        self._runtime = runtime
        self._image = image
        self._verify = verify
        self._markers = markers

    # OffsetCommit

    def commit(
        self, request: OffsetCommitRequest, context: RequestContext
    ) -> Sliced[Answer[OffsetCommitResponse]]:
        """Keep offsets."""
        version = context.version
        existing, missing = yield from _sort_out_commit(
            self._image(), request.topics, by_id=version >= _COMMIT_BY_ID
        )
        refused = yield from _refuse(missing, _refused_commit, OffsetCommitResponsePartition)
        if not existing:
            return OffsetCommitResponse(topics=refused)
        answers: list[Answer[OffsetCommitResponse]] = []
        for part in _in_parts(request, existing, _commit_topic):
            if answers:
                yield
            answers.append(self._commit(part, version))
        return _joined(refused, answers)

    def _commit(self, request: OffsetCommitRequest, version: int) -> Answer[OffsetCommitResponse]:
        return self._runtime.call(
            request.group_id,
            lambda shard, ticket, now: shard.commit(request, version, ticket, now),
            lambda code: commit_refused(request, code),
        )

    def repeated(self, request: OffsetCommitRequest, version: int) -> RepeatedCommit | None:
        """Keep what a commit of one offset says, for when it comes again; None if it is refused."""
        by_id = version >= _COMMIT_BY_ID
        (asked,) = request.topics
        topic = _find(self._image(), asked, by_id=by_id)
        (partition,) = asked.partitions
        if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
            return None
        return RepeatedCommit(request, topic.name, topic.id, partition.partition_index)

    # TxnOffsetCommit

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, context: RequestContext
    ) -> Sliced[Answer[TxnOffsetCommitResponse] | Awaitable[TxnOffsetCommitResponse]]:
        """Keep offsets as part of a transaction."""
        version = context.version
        existing, missing = yield from _sort_out_commit(
            self._image(), request.topics, by_id=version >= _TRANSACTIONAL_COMMIT_BY_ID
        )
        if not request.group_id:
            missing += _all_of(existing, ErrorCode.INVALID_GROUP_ID)
            existing = []
        refused = yield from _refuse(
            missing, _refused_transactional_commit, TxnOffsetCommitResponsePartition
        )
        if not existing:
            return TxnOffsetCommitResponse(topics=refused)
        key = PartitionKey(self._runtime.topic, self._runtime.partition_for(request.group_id))
        is_current = self._watched(request, version, key)
        verified = self._verified(request, version, key)
        parts = _in_parts(request, existing, _transactional_commit_topic)
        if isinstance(verified, asyncio.Future):
            return self._commit_later(parts, version, verified, is_current, refused)
        answers = yield from self._commit_verified(parts, version, verified, is_current)
        return _joined(refused, answers)

    async def _commit_later(
        self,
        parts: Iterator[TxnOffsetCommitRequest],
        version: int,
        verified: asyncio.Future[ErrorCode],
        is_current: Callable[[], bool],
        refused: list[TxnOffsetCommitResponseTopic],
    ) -> TxnOffsetCommitResponse:
        verdict = await verified
        answers = await take_turns(self._commit_verified(parts, version, verdict, is_current))
        answer = _joined(refused, answers)
        return await answer if isinstance(answer, asyncio.Future) else answer

    def _commit_verified(
        self,
        parts: Iterator[TxnOffsetCommitRequest],
        version: int,
        verdict: ErrorCode,
        is_current: Callable[[], bool],
    ) -> Sliced[list[Answer[TxnOffsetCommitResponse]]]:
        answers: list[Answer[TxnOffsetCommitResponse]] = []
        for part in parts:
            if answers:
                yield
            if verdict is ErrorCode.NONE and not is_current():
                verdict = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            answers.append(self._commit_in_transaction(part, version, verdict))
        return answers

    def _watched(
        self, request: TxnOffsetCommitRequest, version: int, key: PartitionKey
    ) -> Callable[[], bool]:
        """Return what tells, in the turn of the append, whether a verdict may be out of date.

        A marker that was written meanwhile may have ended the transaction the verdict speaks of;
        offsets behind it would become part of the producer's next one. Where the broker adds the
        partition itself, every transaction has an epoch of its own, which fences (KIP-890).
        """
        if version >= _ADDS_PARTITION:
            return lambda: True
        before = self._markers(key, request.producer_id)
        return lambda: self._markers(key, request.producer_id) == before

    def _verified(
        self, request: TxnOffsetCommitRequest, version: int, key: PartitionKey
    ) -> Answer[ErrorCode]:
        return self._verify(
            request.transactional_id,
            ProducerIdentity(request.producer_id, request.producer_epoch),
            key,
            add=version >= _ADDS_PARTITION,
        )

    def _commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, verified: ErrorCode
    ) -> Answer[TxnOffsetCommitResponse]:
        def failed(code: ErrorCode) -> TxnOffsetCommitResponse:
            return transactional_commit_refused(request, _in_words_of(version, code))

        if verified is ErrorCode.NOT_COORDINATOR:
            # Of the transaction, that is: to the client it would mean the group's.
            verified = ErrorCode.COORDINATOR_NOT_AVAILABLE
        if verified is not ErrorCode.NONE:
            return failed(coordinator_error(verified))
        return self._runtime.call(
            request.group_id,
            lambda shard, ticket, now: shard.commit_in_transaction(request, version, ticket, now),
            failed,
        )

    # OffsetDelete

    def delete(
        self, request: OffsetDeleteRequest, context: RequestContext
    ) -> Sliced[Answer[OffsetDeleteResponse]]:
        """Forget offsets of topics that a group no longer subscribes to."""
        del context
        if not request.group_id:
            return OffsetDeleteResponse(ErrorCode.INVALID_GROUP_ID)
        existing, missing = yield from _sort_out(self._image(), request.topics, by_id=False)
        refused = yield from _refuse(missing, _refused_deletion, OffsetDeleteResponsePartition)
        if _count(existing) > OFFSETS_PER_REQUEST:
            return OffsetDeleteResponse(ErrorCode.INVALID_REQUEST)
        answers: list[Answer[OffsetDeleteResponse]] = []
        for part in _in_parts(request, existing, _deletion_topic):
            if answers:
                yield
            answers.append(self._delete(part))
        return _joined(refused, answers)

    def _delete(self, request: OffsetDeleteRequest) -> Answer[OffsetDeleteResponse]:
        def decide(shard: GroupShard, ticket: Ticket, now: Now) -> Outcome:
            del now
            return shard.delete_offsets(request, ticket)

        return self._runtime.call(request.group_id, decide, OffsetDeleteResponse)


def _find(image: MetadataImage, asked: Any, *, by_id: bool) -> Topic | None:
    return image.topic_by_id(asked.topic_id) if by_id else image.topic(asked.name)


def _sort_out(
    image: MetadataImage, topics: Iterable[Any], *, by_id: bool
) -> Sliced[tuple[list[_Existing], list[_Missing]]]:
    """Tell the topics and partitions of a request that there are from the others."""
    named = attrgetter("topic_id" if by_id else "name")
    wanted = yield from fold_partitions(
        (((named(asked), asked.name), asked.partitions) for asked in topics),
        attrgetter("partition_index"),
    )
    existing: list[_Existing] = []
    missing: list[_Missing] = []
    for (key, name), partitions in wanted.topics.items():
        topic_id = key if by_id else ZERO_TOPIC_ID
        topic = image.topic_by_id(key) if by_id else image.topic(key)
        if topic is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            missing.append(_Missing(name, topic_id, list(partitions), error))
            yield
            continue
        count = len(topic.partitions)
        there, absent = [], []
        for index, one in partitions.items():
            if 0 <= index < count:
                there.append(one)
            else:
                absent.append(index)
            yield
        if absent:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            missing.append(_Missing(topic.name, topic_id, absent, error))
        if there:
            existing.append(_Existing(topic, there))
    return existing, missing


def _refuse(
    missing: Iterable[_Missing],
    topic_of: Callable[[_Missing, list[P]], T],
    result_of: Callable[[int, ErrorCode], P],
) -> Sliced[list[T]]:
    """Make the results of partitions that there are not, by topic."""
    refused = []
    for one in missing:
        results = []
        for index in one.partitions:
            results.append(result_of(index, one.error))
            yield
        refused.append(topic_of(one, results))
        yield
    return refused


def _refused_commit(
    one: _Missing, results: list[OffsetCommitResponsePartition]
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(one.name, one.topic_id, results)


def _refused_transactional_commit(
    one: _Missing, results: list[TxnOffsetCommitResponsePartition]
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(one.name, one.topic_id, results)


def _refused_deletion(
    one: _Missing, results: list[OffsetDeleteResponsePartition]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(one.name, results)


def _sort_out_commit(
    image: MetadataImage, topics: Iterable[Any], *, by_id: bool
) -> Sliced[tuple[list[_Existing], list[_Missing]]]:
    """Do the same for a commit, all of which is refused if it has too many offsets."""
    existing, missing = yield from _sort_out(image, topics, by_id=by_id)
    if _count(existing) > OFFSETS_PER_REQUEST:
        missing += _all_of(existing, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        existing = []
    return existing, missing


def _count(existing: Iterable[_Existing]) -> int:
    return sum(len(one.partitions) for one in existing)


def _all_of(existing: Iterable[_Existing], error: ErrorCode) -> Iterator[_Missing]:
    """Refuse what there is."""
    for topic, partitions in existing:
        indexes = [partition.partition_index for partition in partitions]
        yield _Missing(topic.name, topic.id, indexes, error)


def _commit_topic(topic: Topic, partitions: list[Any]) -> OffsetCommitRequestTopic:
    return OffsetCommitRequestTopic(topic.name, topic.id, partitions)


def _transactional_commit_topic(topic: Topic, partitions: list[Any]) -> TxnOffsetCommitRequestTopic:
    return TxnOffsetCommitRequestTopic(topic.name, topic.id, partitions)


def _deletion_topic(topic: Topic, partitions: list[Any]) -> OffsetDeleteRequestTopic:
    return OffsetDeleteRequestTopic(topic.name, partitions)


def _in_parts(
    request: Q, existing: list[_Existing], topic_of: Callable[[Topic, list[Any]], Any]
) -> Iterator[Q]:
    """Leave in a request what there is; make several of it if that is more than a batch."""
    if _count(existing) <= OFFSETS_PER_BATCH:
        request.topics = [topic_of(*one) for one in existing]
        yield request
        return
    for part in _cut(existing):
        one_part = copy.copy(request)
        one_part.topics = [topic_of(*one) for one in part]
        yield one_part


def _cut(existing: Iterable[_Existing]) -> Iterator[list[_Existing]]:
    """Cut what there is into parts; a topic may stand in several of them."""
    part: list[_Existing] = []
    room = OFFSETS_PER_PART
    for topic, partitions in existing:
        first = 0
        while first < len(partitions):
            taken = partitions[first : first + room]
            part.append(_Existing(topic, taken))
            first += len(taken)
            room -= len(taken)
            if not room:
                yield part
                part, room = [], OFFSETS_PER_PART
    if part:
        yield part


def _joined(refused: list[Any], answers: list[Answer[R]]) -> Answer[R]:
    """Make one answer of what was refused and what was decided, in this order."""
    if not refused and len(answers) == 1:
        return answers[0]
    return combined(answers, lambda responses: _merged(refused, responses))


def _merged(refused: list[Any], responses: list[R]) -> R:
    """Join the parts of an answer, topic by topic; an error of the whole stands alone."""
    topics = {topic.name: topic for topic in refused}
    for response in responses:
        if isinstance(response, OffsetDeleteResponse) and response.error_code:
            return response
        for decided in response.topics:
            if decided.name in topics:
                topics[decided.name].partitions += decided.partitions
            else:
                topics[decided.name] = decided
                refused.append(decided)
    merged = responses[0]
    merged.topics = refused
    return merged


def _in_words_of(version: int, code: ErrorCode) -> ErrorCode:
    """Say an error of a transaction so that a client of this version acts on it rightly."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.NETWORK_EXCEPTION:
        # It has not been asked about the transaction yet: try again, here.
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _KNOWS_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # clients before 2.0 crashed (KAFKA-7296)
    return code
