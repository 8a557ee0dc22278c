"""One transactional id: who may use it now, and how far its transaction is.

    Empty --add--> Ongoing --end--> PrepareCommit --markers--> CompleteCommit --+
      ^              ^  |  +------> PrepareAbort  --markers--> CompleteAbort  --+
      |              |  +--fence--> PrepareAbort                                |
      +--- init -----+---------------------- add, init -------------------------+

A `Transaction` is what one record of the transaction log says; it never changes. A step makes the
next one, whose record is written before anybody acts on it. The decision to commit or to abort is
the Prepare record: nothing takes it back, and until every partition has its marker nothing else
happens to the id.

Three generations of clients are served (KIP-98, KIP-360, KIP-890). Those of transaction version 2
get a new epoch with every end, so that what is left over from one transaction cannot get into the
next; for the older ones the epoch rises only when a producer starts, or is fenced.

The rules here decide on one id, from its state and a request. Records, tickets, timers and markers
are the shard's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from typing import Final, TypeAlias

from moldau.base.ids import NO_PRODUCER_ID, PartitionKey
from moldau.base.limits import PARTITIONS_PER_TRANSACTION, TOPICS_PER_TRANSACTION
from moldau.coordination.outcome import ProducerIdentity
from moldau.coordination.refusals import coordinator_error
from moldau.protocol.errors import ErrorCode

NO_PRODUCER_EPOCH: Final = -1
NO_TIME: Final = -1

FENCING_EPOCH: Final = 32_767
"""The largest an int16 holds. No client ever gets it, so that the last epoch of a producer id can
be fenced too."""
LAST_CLIENT_EPOCH: Final = FENCING_EPOCH - 1

EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which every end of a transaction raises the epoch (KIP-890)."""


class TransactionState(IntEnum):
    """How far a transaction is; the numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    """On its way out, in Kafka's memory only: expiry writes a tombstone."""
    PREPARE_EPOCH_FENCE = 7
    """In Kafka's memory only: fencing writes PREPARE_ABORT."""

    @property
    def label(self) -> str:
        """The name that clients and tools know."""
        return "".join(word.capitalize() for word in self.name.split("_"))


ENDING: Final = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})


class Missing(Enum):
    """What a step cannot be taken without."""

    PRODUCER_ID = "a producer id that nobody had before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id and its latest transaction, as a record holds them."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    previous_producer_id: int = NO_PRODUCER_ID
    """The one before, if this very step changed the producer id."""
    next_producer_id: int = NO_PRODUCER_ID
    """The one from the end of this transaction on, if its epochs are used up by then."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[PartitionKey] = frozenset()
    start_ms: int = NO_TIME
    last_update_ms: int
    client_version: int = 0
    """The transaction version its client spoke in this transaction."""
    last_producer_epoch: int = field(default=NO_PRODUCER_EPOCH, compare=False)
    """The epoch before, while the same producer may ask for this one again. The log has no room
    for it, so that a retry across a change of coordinator is fenced, as Kafka's is."""

    @property
    def ending(self) -> bool:
        """Whether it is decided, and its markers are being written."""
        return self.state in ENDING

    @property
    def committed(self) -> bool:
        """Whether the decision was to commit."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def producer(self) -> ProducerIdentity:
        """Who may write, or ends it, now."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)

    @property
    def following_producer(self) -> ProducerIdentity:
        """Who may write once it is complete."""
        if self.next_producer_id == NO_PRODUCER_ID:
            return self.producer
        return ProducerIdentity(self.next_producer_id, 0)


Step: TypeAlias = Transaction | ErrorCode | Missing
"""The next state, to be written; or why there is none (NONE: it is as wanted already); or what is
needed first."""


# Beginning


def create(
    transactional_id: str, timeout_ms: int, now_ms: int, fresh: int | None
) -> Transaction | Missing:
    """Give a transactional id that nobody used before its first producer."""
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
    """Give the id to whoever asks, with a new epoch; `expected` is who it believes to be.

    A producer that names itself keeps its place only if nobody took it meanwhile (KIP-360). What
    it asks twice it is told twice. Only for an id that is not in a transaction.
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
    """Tell whether this is the id's producer, or the one it was before its epochs were used up."""
    return producer_id == transaction.producer_id or (
        producer_id == transaction.previous_producer_id and producer_epoch >= LAST_CLIENT_EPOCH
    )


def _emptied(transaction: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
    """The same producer without a transaction.

    Where it came from is kept: a producer that asks again is known by it.
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
    """Take partitions into the transaction, and begin it with the first.

    One with too many is refused as the log would refuse a record that is too large.
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
    """Say of each partition whether this producer has it in its transaction (KIP-890)."""
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
    """Say why somebody may not use the id now."""
    if producer.producer_id != transaction.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
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
    """Decide the transaction for its producer, unless a step of it is still under way.

    A client with epochs per transaction hears of that step before anything else: it may be using
    the producer id or the epoch that the step brings.
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
    """Decide for a client whose epoch stays: a second end in it is a retry."""
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
    """Decide for a client that gets a new epoch: an end in the epoch before is a retry.

    An abort is taken without a transaction too: a client that lost an answer does not know
    whether one was begun, and is in a new epoch with certainty afterwards.
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
    """Tell whether a producer asks for the end that it was given, and did not hear of."""
    if producer.producer_id == transaction.producer_id:
        return producer.producer_epoch + 1 == transaction.producer_epoch
    return (
        producer == (transaction.previous_producer_id, LAST_CLIENT_EPOCH)
        and transaction.producer_epoch == 0
    )


def fence(transaction: Transaction, transaction_version: int, now_ms: int) -> Transaction:
    """Abort a transaction over its producer's head, and shut that producer out.

    With transaction version 2 the producer may still learn that its transaction was aborted, and
    go on; until then its epoch is too old for everything else.
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
    """Close a decided transaction, now that every partition has its marker."""
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
