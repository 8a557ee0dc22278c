"""One transactional id: which producer may use it, and the state of its transaction.

    Empty --add--> Ongoing --end--> PrepareCommit --markers--> CompleteCommit --+
      ^              ^  |  +------> PrepareAbort  --markers--> CompleteAbort  --+
      |              |  +--fence--> PrepareAbort                                |
      +--- init -----+---------------------- add, init -------------------------+

A `Transaction` is the content of one record of the transaction log; it never changes. A step makes
the next one. Its record is committed before anybody acts on the step. The decision to commit or to
abort is the Prepare record. It is never taken back: partitions may have the marker already. Until
every partition has its marker, the only step that may follow is Complete (`FOLLOWERS`).

The epoch of a producer id never decreases. Partitions and this coordinator refuse older epochs, so
a producer that was replaced, or that comes back after a pause, cannot write into the transaction of
its successor. An epoch that is used up (`FENCING_EPOCH`) is followed by a new producer id.

Three generations of clients are served (KIP-98, KIP-360, KIP-890). Clients of transaction version 2
get a new epoch with every end, so that late batches of one transaction cannot get into the next.
For older clients the epoch rises only when a producer starts or is fenced.

The rules here decide on one id, from its state and a request. Records, tickets, timers and markers
are left to the shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Final, TypeAlias

from moldau.base.checks import invariant
from moldau.base.ids import NO_PRODUCER_ID, PartitionKey
from moldau.base.limits import PARTITIONS_PER_TRANSACTION, TOPICS_PER_TRANSACTION
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.refusals import coordinator_error
from moldau.protocol.errors import ErrorCode

NO_PRODUCER_EPOCH: Final = -1
NO_TIME: Final = -1

FENCING_EPOCH: Final = 32_767
"""The largest int16. No client ever gets it, so the last epoch of a client can be fenced too."""
LAST_CLIENT_EPOCH: Final = FENCING_EPOCH - 1

EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which every end of a transaction raises the epoch (KIP-890)."""


class TransactionState(IntEnum):
    """The state of a transaction; the numbers are those of the log."""

    EMPTY = 0
    """The id has a producer and no transaction."""
    ONGOING = 1
    """The transaction has partitions and is not decided."""
    PREPARE_COMMIT = 2
    """Decided: commit. Markers are being written."""
    PREPARE_ABORT = 3
    """Decided: abort. Markers are being written."""
    COMPLETE_COMMIT = 4
    """Every partition has its marker."""
    COMPLETE_ABORT = 5
    """Every partition has its marker."""
    DEAD = 6
    """Never in a log. In Kafka's memory, an id that expires; its record is a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """Never in a log. In Kafka's memory, an id that is fenced; its record is PREPARE_ABORT."""

    @property
    def label(self) -> str:
        """The name that clients and tools use."""
        return "".join(word.capitalize() for word in self.name.split("_"))


ENDING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided, and not complete: markers are being written."""

EXPIRABLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""Without an open transaction: only such an id may be forgotten."""

_FREE_FOLLOWERS: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
)
"""PREPARE_ABORT too: a client of transaction version 2 may abort without a transaction."""

FOLLOWERS: Final = {
    TransactionState.EMPTY: _FREE_FOLLOWERS,
    TransactionState.ONGOING: frozenset({TransactionState.ONGOING, *ENDING}),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _FREE_FOLLOWERS,
    TransactionState.COMPLETE_ABORT: _FREE_FOLLOWERS,
}
"""The states that may follow each. Nothing but its own Complete follows a decision."""


class Missing(Enum):
    """What the caller has to get before a step can be made."""

    PRODUCER_ID = "a new producer id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id and its latest transaction: the content of one record."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before this step, if this step changed it."""
    next_producer_id: int = NO_PRODUCER_ID
    """The producer id after the end of this transaction, if this end uses up the last epoch."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[PartitionKey] = frozenset()
    start_ms: int = NO_TIME
    last_update_ms: int
    client_version: int = 0
    """The transaction version that its client used in this transaction."""
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)
    """The epoch before this one, for a producer that repeats a request whose answer was lost. The
    record has no field for it. So a retry after a change of the coordinator is fenced, as in Kafka.
    """

    @property
    def ending(self) -> bool:
        """Whether it is decided and its markers are being written."""
        return self.state in ENDING

    @property
    def committed(self) -> bool:
        """Whether the decision was to commit."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def producer(self) -> ProducerIdentity:
        """The producer that may use the id now; for a decided transaction, that of its markers."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def following_producer(self) -> ProducerIdentity:
        """The producer that may use the id once the transaction is complete."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer
        return ProducerIdentity(self.next_producer_id, 0)


Step: TypeAlias = Transaction | ErrorCode | Missing
"""The next state, to be written; or an error (NONE: the state is as wanted already); or what the
caller has to get first."""


def check_step(old: Transaction | None, step: Transaction) -> None:
    """Raise InvariantViolated if a step must not follow the state of its id.

    The rules below never make such a step, whatever a client sends. To write one would lose a
    decision, or let a fenced producer write again.
    """
    if old is None:
        invariant(
            step.state is TransactionState.EMPTY,
            f"{step.transactional_id!r} begins in state {step.state.label}",
        )
        return
    invariant(
        step.state in FOLLOWERS[old.state],
        f"{step.transactional_id!r} goes from {old.state.label} to {step.state.label}",
    )
    # A damaged record may name its own producer id as the next one, which starts at epoch 0. That
    # must not end the shard.
    invariant(
        step.producer_id != old.producer_id
        or step.producer_epoch >= old.producer_epoch
        or step.producer == old.following_producer,
        f"{step.transactional_id!r} goes from {old.producer} back to {step.producer}",
    )


# Beginning


def create(
    transactional_id: str, timeout_ms: int, now_ms: int, fresh: int | None
) -> Transaction | Missing:
    """Give a new transactional id its first producer; `fresh` is an unused producer id."""
    if fresh is None:
        return Missing.PRODUCER_ID
    return Transaction(
        transactional_id=transactional_id,
        producer_id=fresh,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        last_update_ms=now_ms,
    )


def initialize(
    transaction: Transaction,
    expected: ProducerIdentity | None,
    timeout_ms: int,
    now_ms: int,
    fresh: int | None,
) -> Step:
    """Give the id to a producer that starts, with a new epoch. Only for an id without transaction.

    `expected` is the producer and epoch that the client had, or None for a new client. A client
    that names them is fenced if another one got the id meanwhile (KIP-360). If it repeats a
    request, it gets the same answer again.
    """
    current = transaction.producer_epoch
    if expected is None:
        last = NO_PRODUCER_EPOCH
    elif not _is_known(transaction, expected.producer_id, expected.producer_epoch):
        return ErrorCode.PRODUCER_FENCED
    elif expected.producer_epoch == current:
        last = current
    elif expected.producer_epoch != transaction.last_producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    elif current <= LAST_CLIENT_EPOCH:
        # A retry: the client's answer with the current epoch was lost.
        return _emptied(transaction, timeout_ms, now_ms)
    else:
        last = expected.producer_epoch
    emptied = _emptied(transaction, timeout_ms, now_ms)
    if current < LAST_CLIENT_EPOCH:
        return replace(
            emptied,
            producer_epoch=current + 1,
            previous_producer_id=NO_PRODUCER_ID,
            last_producer_epoch=last,
        )
    # The epochs of this producer id are used up: no client may get FENCING_EPOCH.
    if fresh is None:
        return Missing.PRODUCER_ID
    return replace(
        emptied,
        producer_id=fresh,
        producer_epoch=0,
        previous_producer_id=transaction.producer_id,
        last_producer_epoch=last,
    )


def _is_known(transaction: Transaction, producer_id: int, producer_epoch: int) -> bool:
    """Tell whether this is the id's producer, or its predecessor whose epochs were used up."""
    return producer_id == transaction.producer_id or (
        producer_id == transaction.previous_producer_id and producer_epoch >= LAST_CLIENT_EPOCH
    )


def _emptied(transaction: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    """Return the same producer without a transaction.

    `previous_producer_id` and `last_producer_epoch` stay: a retry is recognised by them.
    """
    return replace(
        transaction,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        timeout_ms=timeout_ms,
        start_ms=NO_TIME,
        last_update_ms=now_ms,
    )


# Adding


def add(
    transaction: Transaction,
    producer: ProducerIdentity,
    partitions: Iterable[PartitionKey],
    client_version: int,
    now_ms: int,
) -> Transaction | ErrorCode:
    """Add partitions to the transaction; the first ones begin it.

    Too many are refused with the error of a record that is too large for the log.
    """
    refusal = _refusal(transaction, producer)
    if refusal is not ErrorCode.NONE:
        return refusal
    ongoing = transaction.state is TransactionState.ONGOING
    together = transaction.partitions.union(partitions)
    if ongoing and len(together) == len(transaction.partitions):
        return ErrorCode.NONE
    if _is_too_large(together):
        return coordinator_error(ErrorCode.MESSAGE_TOO_LARGE)
    return replace(
        transaction,
        state=TransactionState.ONGOING,
        partitions=together,
        previous_producer_id=NO_PRODUCER_ID,
        start_ms=transaction.start_ms if ongoing else now_ms,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def _is_too_large(partitions: Collection[PartitionKey]) -> bool:
    if len(partitions) <= TOPICS_PER_TRANSACTION:
        return False  # nearly always: there cannot be more topics than partitions
    return (
        len(partitions) > PARTITIONS_PER_TRANSACTION
        or len({key.topic for key in partitions}) > TOPICS_PER_TRANSACTION
    )


def verify(
    transaction: Transaction, producer: ProducerIdentity, partitions: Iterable[PartitionKey]
) -> dict[PartitionKey, ErrorCode]:
    """Check for each partition whether the producer's transaction includes it (KIP-890)."""
    refusal = _refusal(transaction, producer)
    if refusal is ErrorCode.NONE and transaction.ending:
        refusal = ErrorCode.CONCURRENT_TRANSACTIONS
    if refusal is not ErrorCode.NONE:
        return dict.fromkeys(partitions, refusal)
    return {
        key: ErrorCode.NONE if key in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for key in partitions
    }


def _refusal(transaction: Transaction, producer: ProducerIdentity) -> ErrorCode:
    """Return the error for a producer that may not use the id now; NONE if it may."""
    if producer.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    # A newer epoch than ours is refused too: no coordinator gave it to this client.
    if producer.producer_epoch != transaction.producer_epoch or (
        producer.producer_epoch > LAST_CLIENT_EPOCH
    ):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


# Ending


def end(
    transaction: Transaction,
    producer: ProducerIdentity,
    client_version: int,
    now_ms: int,
    fresh: int | None,
    *,
    commit: bool,
    busy: bool,
) -> Step:
    """Commit or abort the transaction for its producer, unless a step of the id is pending.

    For a client with an epoch per transaction the pending step is checked first: the client may
    already use the producer id or the epoch of that step, and must not be fenced for it.
    """
    if client_version < EPOCH_PER_TRANSACTION:
        return _end_in_epoch(transaction, producer, now_ms, commit=commit, busy=busy)
    if busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return _end_with_epoch(transaction, producer, client_version, now_ms, fresh, commit=commit)


def _end_in_epoch(
    transaction: Transaction,
    producer: ProducerIdentity,
    now_ms: int,
    *,
    commit: bool,
    busy: bool,
) -> Transaction | ErrorCode:
    """Decide for a client whose epoch stays the same: a second end in an epoch is a retry."""
    refusal = _refusal(transaction, producer)
    if refusal is not ErrorCode.NONE:
        return refusal
    if busy:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is TransactionState.ONGOING:
        return _decided(transaction, now_ms, commit=commit, client_version=0)
    if transaction.state is _complete(commit=commit):
        return ErrorCode.NONE
    return ErrorCode.INVALID_TXN_STATE


def _end_with_epoch(
    transaction: Transaction,
    producer: ProducerIdentity,
    client_version: int,
    now_ms: int,
    fresh: int | None,
    *,
    commit: bool,
) -> Step:
    """Decide for a client that gets a new epoch: an end in the previous epoch is a retry.

    An abort is accepted without a transaction too. A client that lost an answer does not know
    whether a transaction has begun; after the abort it has a new epoch in any case.
    """
    state = transaction.state
    if state not in (TransactionState.EMPTY, TransactionState.ONGOING) and _ends_again(
        transaction, producer
    ):
        if transaction.producer_epoch > LAST_CLIENT_EPOCH:
            return ErrorCode.PRODUCER_FENCED
        wanted = state is _complete(commit=commit)
        return ErrorCode.NONE if wanted else ErrorCode.INVALID_TXN_STATE
    refusal = _refusal(transaction, producer)
    if refusal is not ErrorCode.NONE:
        return refusal
    ongoing = state is TransactionState.ONGOING
    if commit and not ongoing:
        return ErrorCode.INVALID_TXN_STATE
    exhausted = transaction.producer_epoch >= LAST_CLIENT_EPOCH
    if exhausted and fresh is None:
        return Missing.PRODUCER_ID
    decided = _decided(transaction, now_ms, commit=commit, client_version=client_version)
    return replace(
        decided,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=transaction.producer_epoch,
        next_producer_id=NO_PRODUCER_ID if fresh is None or not exhausted else fresh,
        start_ms=transaction.start_ms if ongoing else now_ms,
    )


def _ends_again(transaction: Transaction, producer: ProducerIdentity) -> bool:
    """Tell whether a producer repeats the end of its last transaction: its answer was lost."""
    if producer.producer_id == transaction.producer_id:
        return producer.producer_epoch + 1 == transaction.producer_epoch
    return (
        producer == (transaction.previous_producer_id, LAST_CLIENT_EPOCH)
        and transaction.producer_epoch == 0
    )


def fence(transaction: Transaction, transaction_version: int, now_ms: int) -> Transaction:
    """Abort a transaction without its producer, and fence that producer by a higher epoch.

    With transaction version 2 the producer can still learn that its transaction was aborted, and
    get the new epoch. For everything else its epoch is too old.
    """
    bumps = transaction_version >= EPOCH_PER_TRANSACTION
    aborted = _decided(
        transaction,
        now_ms,
        commit=False,
        client_version=transaction_version if bumps else 0,
    )
    return replace(
        aborted,
        producer_epoch=min(transaction.producer_epoch + 1, FENCING_EPOCH),
        last_producer_epoch=transaction.producer_epoch if bumps else NO_PRODUCER_EPOCH,
    )


def _decided(
    transaction: Transaction, now_ms: int, *, commit: bool, client_version: int
) -> Transaction:
    return replace(
        transaction,
        state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        previous_producer_id=NO_PRODUCER_ID,
        last_update_ms=now_ms,
        client_version=client_version,
    )


def _complete(*, commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Complete a decided transaction. Only when every partition has its marker."""
    following = transaction.following_producer
    changed = following.producer_id != transaction.producer_id
    return replace(
        transaction,
        state=_complete(commit=transaction.committed),
        producer_id=following.producer_id,
        producer_epoch=following.producer_epoch,
        previous_producer_id=transaction.producer_id if changed else NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
