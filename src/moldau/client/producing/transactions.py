"""Transactions: all records and offsets of one, or none (KIP-98).

Stands between the sender and the coordinator. Two protocols are spoken, by what the cluster has
agreed on (its feature `transaction.version`):

- the older one adds every partition to the transaction before the first batch goes there, and keeps
  its epoch from one transaction to the next;
- the newer one (version 2, KIP-890) writes at once, because the leader adds the partition by
  itself, and gets the next epoch with the end of each transaction, so nothing old can be late.

An error of a batch or of the coordinator breaks the transaction: sending is refused until it is
aborted. Being fenced by a newer producer of the same id ends the producer. What is possible when is
`transaction_rules`'.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

from moldau.base.shielding import shielded
from moldau.client.errors import (
    BrokerError,
    ClientClosed,
    ClientError,
    CommitFailed,
    InvalidArgument,
    InvalidState,
    ProducerFenced,
    UnsupportedVersion,
)
from moldau.client.producer_settings import ProducerSettings
from moldau.client.producing.batch_results import aborted_transaction, fresh
from moldau.client.producing.outbox import Outbox
from moldau.client.producing.queues import PartitionQueue
from moldau.client.producing.scopes import GroupMember, Offsets
from moldau.client.producing.sender import Sender
from moldau.client.producing.sequences import Gap, SequenceIdentity
from moldau.client.producing.transaction_rules import (
    ALLOWED,
    FORGOTTEN,
    State,
    as_seen_by_user,
    is_fatal,
    refusal,
    send_refusal,
)
from moldau.engine.arguments import check_int, check_text
from moldau.engine.background import Crashed, in_background
from moldau.engine.cluster import Cluster, CoordinatorKind, Lane
from moldau.engine.partitions import as_offsets
from moldau.engine.retry import raise_for, read_or_lost, retried
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import ProduceRequest
from moldau.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

FEATURE: Final = "transaction.version"
FEATURE_VERSION: Final = 2
LAST_OLD_PRODUCE: Final = 11
FIRST_NEW_PRODUCE: Final = 12
LAST_OLD_END: Final = 4
FIRST_NEW_END: Final = 5
LAST_OLD_OFFSETS: Final = 4
FIRST_NEW_OFFSETS: Final = 5
"""TxnOffsetCommit 6 names topics by id alone, which a user of ours need not know."""
LAST_CLIENT_ADD: Final = 3
"""Later versions of AddPartitionsToTxn are for brokers."""
FIRST_RAISING_INIT: Final = 3
"""From here on a producer may ask for its own next epoch (KIP-360)."""

_LEFT_GROUP: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)


class Transactions:
    """The transactions of one producer, one after the other. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        outbox: Outbox[Any],
        sender: Sender,
        settings: ProducerSettings,
        crashed: Crashed,
    ) -> None:
        assert settings.transactional_id is not None
        self._cluster = cluster
        self._outbox = outbox
        self._sender = sender
        self._settings = settings
        self._crashed = crashed
        self._id = settings.transactional_id
        self._state = State.NEW
        self._error: ClientError | None = None
        self._is_new_protocol = False
        self._added: set[PartitionQueue] = set()
        self._to_add: set[PartitionQueue] = set()
        self._adding: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        """Tells the coordinator of the end, whoever waits for that."""
        self._closing = False
        self._begun = False
        """The coordinator may know of the transaction, so it must be told of its end."""
        self._is_known = False
        """With the older protocol: the coordinator has said that it knows of it."""
        self.identity: SequenceIdentity | None = None
        outbox.refuse(send_refusal(State.NEW))
        sender.gate = sender.settling.gate = self

    # What the sender asks

    @property
    def version_max(self) -> int | None:
        """The newest version of Produce that fits the protocol."""
        return None if self._is_new_protocol else LAST_OLD_PRODUCE

    @property
    def retries(self) -> bool:
        """Whether a batch that failed may be sent again."""
        return self._state in (State.OPEN, State.COMMITTING)

    def admits(self, queue: PartitionQueue) -> bool:
        """Tell whether a partition may be written to; if it must be added first, see to that."""
        if self._state not in (State.OPEN, State.COMMITTING):
            return False
        if self._is_new_protocol:
            self._begun = True
            return True
        if queue in self._added:
            return True
        self._to_add.add(queue)
        if self._adding is None:
            self._adding = in_background(
                self._add_partitions(), "the adding of partitions", self._crashed
            )
        return False

    def failed(self, error: ClientError) -> None:
        """Break the transaction: a batch of it failed for good. Called with the guard held."""
        if self._state in (State.OPEN, State.COMMITTING):
            self._break(error, from_coordinator=False)

    def _break(self, error: ClientError, *, from_coordinator: bool) -> None:
        self._error = error
        if is_fatal(error, from_coordinator=from_coordinator):
            self._state = State.FATAL
        elif self._state in (State.OPEN, State.COMMITTING):
            self._state = State.BROKEN
        told: ClientError = error
        if self._state is State.BROKEN and not isinstance(error, ProducerFenced):
            told = InvalidState(
                f"the transaction is broken: {error.what}", advice="Abort it; then go on."
            )
            told.__cause__ = error
        self._outbox.refuse(told)
        # On a later turn: the guard is held here, and it takes it too.
        asyncio.get_running_loop().call_soon(self._give_up_rest, error)

    def _give_up_rest(self, error: ClientError) -> None:
        """Fail what will not be sent any more, so that nobody waits for it."""
        if self._error is not error:
            return  # it has been aborted since, and what there is now is the next one's
        self._sender.settling.fail_all(error, in_flight_too=self._state is State.FATAL)

    def _check(self, action: str) -> None:
        if self._state in ALLOWED[action]:
            return
        if self._error is not None and self._state in (State.FATAL, State.BROKEN):
            raise fresh(self._error)
        raise refusal(self._state, action)

    # The life of a transaction

    async def init(self) -> None:
        """Take the transactional id, away from whoever has it, and end what it left open.

        Cancelled, or timed out, it may be tried again.
        """
        deadline = self._deadline()
        try:
            self.identity = await self._retried(self._init_producer_id, deadline)
            self._is_new_protocol = await self._retried(self._speaks_new_protocol, deadline)
        except ClientError as error:
            seen = as_seen_by_user(error)
            raise seen from seen.__cause__
        self._become_ready()

    def _deadline(self) -> float:
        return self._cluster.deadline(self._settings.max_block_ms)

    def _become_ready(self) -> None:
        self._state = State.READY
        self._error = None
        self._begun = self._is_known = False
        self._added.clear()
        self._to_add.clear()
        self._outbox.refuse(send_refusal(State.READY))

    def begin(self) -> None:
        """Begin a transaction; nobody is told before something is sent in it."""
        self._check("begin")
        self._state = State.OPEN
        self._outbox.accept()

    async def send_offsets(self, offsets: Offsets, member: GroupMember) -> None:
        """Make a group's offsets part of the transaction (KIP-447). Cancelled: abort."""
        self._check("send offsets in")
        offsets = as_offsets(offsets)
        _check_member(member)
        deadline = self._deadline()
        if not offsets:
            return
        self._begun = True
        try:
            if not self._is_new_protocol:
                await self._retried(lambda: self._add_offsets(member.group_id), deadline)
            await retried(
                self._cluster,
                lambda: self._commit_offsets(offsets, member, deadline),
                deadline,
                coordinator=(CoordinatorKind.GROUP, member.group_id),
            )
        except ClientError as error:
            seen = self._broken_by(error)
            raise seen from seen.__cause__

    async def commit(self) -> None:
        """Make everything of the transaction count, after all of it was acknowledged.

        That takes what deliveries take; from then on the coordinator has `max.block.ms`. Cancelled
        before it was told, the transaction is open as before; after that it is committed first.
        Timed out, it must be called again: the outcome is not known before.
        """
        self._check("commit")
        is_first = self._state is State.OPEN
        self._state = State.COMMITTING
        self._outbox.refuse(send_refusal(State.COMMITTING))
        try:
            await self._sender.flush()
        except asyncio.CancelledError:
            if is_first and self._state is State.COMMITTING:
                self._state = State.OPEN
                self._outbox.accept()
            raise
        if self._error is not None:
            raise fresh(self._error)
        await self._carry_through(committed=True)

    async def abort(self) -> None:
        """Make nothing of the transaction count; what was not sent fails with DeliveryAborted.

        Cancelled before the coordinator was told, or timed out, it must be called again.
        """
        self._check("abort")
        self._state = State.ABORTING
        self._outbox.refuse(send_refusal(State.ABORTING))
        await self._stop_adding()
        self._sender.settling.fail_all(aborted_transaction(), in_flight_too=False)
        await self._sender.flush()  # what is on its way is answered, but not sent again
        await self._carry_through(committed=False)

    async def finish(self) -> None:
        """Commit or abort, whichever was begun; abort if neither was, for a producer that closes.

        Cancelled, it waits for nothing: closing has a limit of its own.
        """
        self._closing = True
        if self._state is State.COMMITTING:
            await self.commit()
        else:
            await self.abort()

    async def _carry_through(self, *, committed: bool) -> None:
        """Have the transaction ended; cancelled, it is ended first: there is no way back.

        Cancelled twice, it is ended without anybody waiting.
        """
        if self._ending is None:
            end = self._end(committed=committed, deadline=self._deadline())
            self._ending = asyncio.get_running_loop().create_task(end)
            self._ending.add_done_callback(self._ended)
        ending = self._ending
        try:
            await shielded(ending)
        except asyncio.CancelledError:
            if ending.cancelled():
                raise ClientClosed("the producer was closed before the transaction ended") from None
            if not ending.done() and not self._closing:
                await asyncio.wait([ending])
            raise

    def _ended(self, ending: asyncio.Task[None]) -> None:
        self._ending = None
        if not ending.cancelled():
            ending.exception()  # seen: who waited for it may have been cancelled

    async def _end(self, *, committed: bool, deadline: float) -> None:
        try:
            if self._begun:
                self.identity = await self._tell_end(committed=committed, deadline=deadline)
            if not self._is_new_protocol and any(map(_has_gap, self._added)):
                self.identity = await self._retried(self._raise_epoch, deadline)
        except ClientError as error:
            seen = self._broken_by(error)
            raise seen from seen.__cause__
        self._become_ready()

    async def _tell_end(self, *, committed: bool, deadline: float) -> SequenceIdentity:
        """Have the coordinator end the transaction; return who we are after it."""
        identity: SequenceIdentity
        try:
            identity = await self._retried(lambda: self._end_txn(committed), deadline)
        except BrokerError as error:
            assert self.identity is not None
            if not committed and error.code is ErrorCode.INVALID_TXN_STATE and self._is_unheard:
                return self.identity
            if committed or error.code not in FORGOTTEN:
                raise
            # Who is not known has nothing open, so the abort is done; what is missing is a life of
            # the id to go on with. If it is another's by now, that is refused: we are fenced.
            identity = await self._retried(self._raise_epoch, deadline)
        return identity

    @property
    def _is_unheard(self) -> bool:
        """Whether the coordinator may never have heard of the transaction.

        It was given up while it was being told; so nothing can have been written in it either.
        """
        return not self._is_new_protocol and not self._is_known

    def _broken_by(self, error: ClientError) -> ClientError:
        """Take an error of the coordinator's over; one that passes changes nothing."""
        seen = as_seen_by_user(error)
        if not seen.retriable:
            self._break(seen, from_coordinator=True)
        return seen

    async def close(self) -> None:
        """End the tasks of its own; an open transaction is the coordinator's to time out."""
        await self._stop_adding()
        if self._ending is not None:
            self._ending.cancel()
            await asyncio.wait([self._ending])

    async def _stop_adding(self) -> None:
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait([self._adding])
            self._adding = None  # one that had not begun could not take note of its end

    @property
    def is_open(self) -> bool:
        """Whether there is something to abort; also if an abort was begun and not finished."""
        return self._state in ALLOWED["abort"]

    @property
    def is_unfinished(self) -> bool:
        """Whether there is something to abort, or a commit whose outcome is not known."""
        return self.is_open or self._state is State.COMMITTING

    # Asking the coordinators

    async def _retried(self, attempt: Any, deadline: float) -> Any:
        coordinator = (CoordinatorKind.TRANSACTION, self._id)
        return await retried(self._cluster, attempt, deadline, coordinator=coordinator)

    async def _call(self, request: Any, version_max: int | None = None) -> Any:
        """Ask the coordinator once, in a version not above the one given."""
        broker_id = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self._id, math.inf)
        connection = await self._cluster.connection(broker_id, Lane.COORDINATION)
        version = connection.agreed_version(type(request))
        if version_max is not None:
            version = min(version, version_max)
        return await read_or_lost(connection.send(request, version))

    async def _init_producer_id(self) -> SequenceIdentity:
        request = InitProducerIdRequest(self._id, self._settings.transaction_timeout_ms)
        answer: InitProducerIdResponse = await self._call(request)
        raise_for(answer.error_code)
        return SequenceIdentity(answer.producer_id, answer.producer_epoch)

    async def _raise_epoch(self) -> SequenceIdentity:
        """Ask for the next epoch of one's own (KIP-360)."""
        assert self.identity is not None
        request = InitProducerIdRequest(
            self._id, self._settings.transaction_timeout_ms, *self.identity
        )
        broker_id = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self._id, math.inf)
        if self._cluster.version_of(broker_id, InitProducerIdRequest) < FIRST_RAISING_INIT:
            raise UnsupportedVersion("the broker is too old to bump this producer's epoch")
        answer: InitProducerIdResponse = await self._call(request)
        raise_for(answer.error_code)
        return SequenceIdentity(answer.producer_id, answer.producer_epoch)

    async def _speaks_new_protocol(self) -> bool:
        """Ask which protocol the cluster has agreed on."""
        broker_id = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self._id, math.inf)
        connection = await self._cluster.connection(broker_id, Lane.COORDINATION)
        enough = (
            connection.agreed_version(EndTxnRequest) >= FIRST_NEW_END
            and connection.agreed_version(ProduceRequest) >= FIRST_NEW_PRODUCE
            and connection.agreed_version(TxnOffsetCommitRequest) >= FIRST_NEW_OFFSETS
        )
        if not enough:
            return False
        version = connection.agreed_version(ApiVersionsRequest)
        answer: ApiVersionsResponse = await connection.send(
            ApiVersionsRequest("moldau", "0"), version
        )
        return any(
            one.name == FEATURE and one.max_version_level >= FEATURE_VERSION
            for one in answer.finalized_features
        )

    async def _add_partitions(self) -> None:
        """Add partitions until none waits. Cancelled by an abort."""
        try:
            while self._to_add:
                queues = frozenset(self._to_add)
                await self._retried(lambda: self._add(queues), math.inf)  # noqa: B023 - awaited here
                self._to_add -= queues
                self._added |= queues
                self._sender.look_again(queues)
        except ClientError as error:
            self._broken_by(error)
        finally:
            self._adding = None

    async def _add(self, queues: frozenset[PartitionQueue]) -> None:
        assert self.identity is not None
        topics: dict[str, list[int]] = {}
        for queue in queues:
            topics.setdefault(queue.topic, []).append(queue.partition)
        request = AddPartitionsToTxnRequest(
            [],
            self._id,
            *self.identity,
            [AddPartitionsToTxnTopic(name, sorted(given)) for name, given in topics.items()],
        )
        self._begun = True
        answer = await self._call(request, LAST_CLIENT_ADD)
        codes = [
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]
        _raise_worst(codes)
        self._is_known = True

    async def _add_offsets(self, group_id: str) -> None:
        assert self.identity is not None
        request = AddOffsetsToTxnRequest(self._id, *self.identity, group_id)
        answer = await self._call(request)
        raise_for(answer.error_code)
        self._is_known = True

    async def _commit_offsets(self, offsets: Offsets, member: GroupMember, deadline: float) -> None:
        assert self.identity is not None
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), kept in offsets.items():
            epoch = -1 if kept.leader_epoch is None else kept.leader_epoch
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(partition, kept.offset, epoch, kept.metadata)
            )
        request = TxnOffsetCommitRequest(
            self._id,
            member.group_id,
            *self.identity,
            member.generation_id,
            member.member_id,
            member.group_instance_id,
            [TxnOffsetCommitRequestTopic(name, bytes(16), given) for name, given in topics.items()],
        )
        broker_id = await self._cluster.coordinator(
            CoordinatorKind.GROUP, member.group_id, deadline
        )
        connection = await self._cluster.connection(broker_id, Lane.COORDINATION)
        most = FIRST_NEW_OFFSETS if self._is_new_protocol else LAST_OLD_OFFSETS
        version = min(connection.agreed_version(TxnOffsetCommitRequest), most)
        answer = await read_or_lost(connection.send(request, version))
        codes = [one.error_code for topic in answer.topics for one in topic.partitions]
        if _LEFT_GROUP.intersection(map(ErrorCode.of, codes)):
            raise CommitFailed(
                f"the member is no longer in group {member.group_id}",
                advice="Abort; the new owner of the partitions processes the records again.",
            )
        _raise_worst(codes)

    async def _end_txn(self, committed: bool) -> SequenceIdentity:
        assert self.identity is not None
        request = EndTxnRequest(self._id, *self.identity, committed)
        answer: EndTxnResponse = await self._call(
            request, None if self._is_new_protocol else LAST_OLD_END
        )
        raise_for(answer.error_code)
        if self._is_new_protocol and answer.producer_id >= 0:
            return SequenceIdentity(answer.producer_id, answer.producer_epoch)
        return self.identity


def _check_member(given: GroupMember) -> None:
    """Refuse what cannot say who commits offsets, such as the name of a group alone."""
    try:
        check_text("group_id", given.group_id)
        check_int("generation_id", given.generation_id)
        check_text("member_id", given.member_id)
        if given.group_instance_id is not None:
            check_text("group_instance_id", given.group_instance_id)
    except AttributeError:
        raise InvalidArgument(
            f"group={given!r:.100} is not a group member",
            advice="Pass the result of consumer.group_metadata().",
        ) from None


def _has_gap(queue: PartitionQueue) -> bool:
    """Tell whether a numbered batch was given up: only a new epoch numbers from 0 again."""
    return queue.sequences is not None and queue.sequences.gap is not Gap.NONE


def _raise_worst(codes: list[int]) -> None:
    """Raise for what cannot be tried again, else for what can."""
    wrong = [ErrorCode.of(code) for code in codes if code != ErrorCode.NONE]
    told = [code for code in wrong if code is not ErrorCode.OPERATION_NOT_ATTEMPTED] or wrong
    for code in sorted(told, key=lambda one: one.retriable):
        raise_for(code)
