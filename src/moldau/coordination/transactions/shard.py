"""The requests for the transactional ids of one partition of __transaction_state.

Every step of an id is committed to the log before anybody hears of it, one step at a time. While a
step is not committed, or markers are not confirmed, other requests for the id that would change it
get CONCURRENT_TRANSACTIONS, and their clients retry. A transaction ends like this:

    Prepare record -committed-> reply, markers -all written-> Complete record -committed-> free

The reply is sent when the decision is committed, before the markers: from then on every coordinator
finishes the decision. A coordinator that takes over starts at the markers, for every id that it
finds decided.

Replies are values of this package; the server encodes them for the wire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from moldau.base.errors import InvariantViolated
from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import (
    NOTHING,
    Now,
    Outcome,
    ProducerIdentity,
    Reply,
    StateRecord,
    Ticket,
    Timer,
)
from moldau.coordination.refusals import coordinator_error
from moldau.coordination.transactions import transaction as rules
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.effects import MarkerResult, WriteMarkers
from moldau.coordination.transactions.ledger import Ledger, ids_of
from moldau.coordination.transactions.marking import Marking, SendMarkers
from moldau.coordination.transactions.sweeping import Sweep, Sweeps, TransactionSettings
from moldau.coordination.transactions.transaction import (
    Missing,
    Transaction,
    TransactionState,
)
from moldau.protocol.errors import ErrorCode

NOBODY = ProducerIdentity(-1, -1)


class Ended(NamedTuple):
    """The reply to an EndTxn."""

    error: ErrorCode
    producer: ProducerIdentity = NOBODY
    """The producer id and epoch of the client from now on, if the transaction has ended."""


class ShownTransactions(NamedTuple):
    """All transactional ids of one shard, or an error."""

    error: ErrorCode
    transactions: Sequence[Transaction] = ()


class TransactionShard:
    """The state machine of one partition of the transaction log. A `Shard`."""

    def __init__(
        self,
        coordinator_epoch: int,
        settings: TransactionSettings,
        counters: TransactionCounters | None = None,
    ) -> None:
        """Start empty; `coordinator_epoch` is the leader epoch of the partition."""
        counters = counters or TransactionCounters()
        self._settings = settings
        self._ledger = Ledger(settings.transaction_version)
        self._marking = Marking(self._ledger, coordinator_epoch, counters)
        self._sweeps = Sweeps(self._ledger, self._marking, settings, counters)

    # Requests

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdentity | None,
        fresh: int | None,
        ticket: Ticket,
        now: Now,
    ) -> Outcome:
        """Give the id to a producer. Replies ProducerIdentity, ErrorCode or Missing.

        After Missing, call again with a new producer id as `fresh`. An open transaction of the id
        is aborted first. The client gets CONCURRENT_TRANSACTIONS and retries until that is done.
        """
        if not 0 < timeout_ms <= self._settings.max_timeout_ms:
            return _reply(ticket, ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        transaction = self._ledger.get(transactional_id)
        step: rules.Step
        if self._is_busy(transactional_id):
            step = ErrorCode.CONCURRENT_TRANSACTIONS
        elif transaction is None:
            step = rules.create(transactional_id, timeout_ms, now.wall_ms, fresh)
        elif transaction.state is not TransactionState.ONGOING:
            step = rules.initialize(transaction, expected, timeout_ms, now.wall_ms, fresh)
        elif expected is not None and expected.producer_id != transaction.producer_id:
            step = ErrorCode.PRODUCER_FENCED
        else:
            fenced = rules.fence(transaction, self._settings.transaction_version(), now.wall_ms)
            return self._decide(fenced, ticket, ErrorCode.CONCURRENT_TRANSACTIONS, _as_it_is)
        if not isinstance(step, Transaction):
            return _reply(ticket, step)
        timers = () if self._ledger else self._sweeps.timers()
        return self._take(step, ticket, step.producer, timers)

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Iterable[PartitionKey],
        client_version: int,
        ticket: Ticket,
        now: Now,
    ) -> Outcome:
        """Add partitions to the producer's transaction. Replies an ErrorCode."""
        transaction = self._ledger.get(transactional_id)
        if transaction is None:
            return _reply(ticket, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if self._is_busy(transactional_id):
            return _reply(ticket, ErrorCode.CONCURRENT_TRANSACTIONS)
        step = rules.add(transaction, producer, partitions, client_version, now.wall_ms)
        if not isinstance(step, Transaction):
            return _reply(ticket, step)
        return self._take(step, ticket, ErrorCode.NONE)

    def verify_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[PartitionKey],
        ticket: Ticket,
    ) -> Outcome:
        """Check which partitions are in the producer's transaction. Replies a code for each."""
        transaction = self._ledger.get(transactional_id)
        if transaction is None:
            codes = dict.fromkeys(partitions, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        else:
            codes = rules.verify(transaction, producer, partitions)
        return _reply(ticket, codes)

    def end_transaction(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        client_version: int,
        fresh: int | None,
        ticket: Ticket,
        now: Now,
        *,
        commit: bool,
    ) -> Outcome:
        """Commit or abort. Replies Ended, or Missing: then call again with a `fresh` id."""
        transaction = self._ledger.get(transactional_id)
        if transaction is None:
            return _reply(ticket, Ended(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        step = rules.end(
            transaction,
            producer,
            client_version,
            now.wall_ms,
            fresh,
            commit=commit,
            busy=self._is_busy(transactional_id),
        )
        if isinstance(step, Missing):
            return _reply(ticket, step)
        if step is ErrorCode.NONE:
            return _reply(ticket, Ended(step, transaction.producer))
        if isinstance(step, ErrorCode):
            return _reply(ticket, Ended(step))
        answer = Ended(ErrorCode.NONE, step.following_producer)
        return self._decide(step, ticket, answer, Ended)

    def describe(self, transactional_id: str, ticket: Ticket) -> Outcome:
        """Show an id. Replies Transaction or None.

        While markers are being written, its partitions are those without a confirmed marker.
        """
        transaction = self._ledger.get(transactional_id)
        awaited = self._marking.awaited(transactional_id)
        if transaction is not None and awaited is not None:
            transaction = replace(transaction, partitions=awaited)
        return _reply(ticket, transaction)

    def all_transactions(self, ticket: Ticket) -> Outcome:
        """Show every id, for ListTransactions. Replies ShownTransactions.

        There may be hundreds of thousands. So the caller filters them, with pauses.
        """
        return _reply(ticket, ShownTransactions(ErrorCode.NONE, tuple(self._ledger)))

    def markers_written(
        self, markers: WriteMarkers, results: Mapping[PartitionKey, MarkerResult], now: Now
    ) -> Outcome:
        """Take the results of the markers that an effect asked for."""
        return self._marking.written(markers, results, now)

    def leaders_changed(self, keys: frozenset[PartitionKey]) -> Outcome:
        """Take the news that these partitions have another leader."""
        return self._marking.leaders_changed(keys)

    def count_ids(self) -> Counter[TransactionState]:
        """Count ids by their state. Another thread may call this."""
        return Counter(transaction.state for transaction in tuple(self._ledger))

    # Steps

    def _is_busy(self, transactional_id: str) -> bool:
        return self._ledger.is_proposed(transactional_id) or self._marking.is_under_way(
            transactional_id
        )

    def _take(
        self, step: Transaction, ticket: Ticket, answer: object, timers: Sequence[Timer] = ()
    ) -> Outcome:
        """Write a step that needs nothing more after its commit."""

        def committed(_: Now) -> Outcome:
            self._ledger.settle(step.transactional_id)
            return NOTHING

        return Outcome(
            records=(self._ledger.propose(step),),
            replies=(Reply(ticket, answer),),
            timers=timers,
            then=committed,
            refused=self._refused(step, ticket, _as_it_is),
        )

    def _decide(
        self,
        step: Transaction,
        ticket: Ticket,
        answer: object,
        failure: Callable[[ErrorCode], object],
    ) -> Outcome:
        """Write a decision; its markers follow once it is committed."""

        def committed(now: Now) -> Outcome:
            # No marker before this: a decision that is not committed may be lost with the
            # leadership, and the next coordinator might decide otherwise. Both lines happen in one
            # turn, so the id stays busy: first by the proposal, then by the markers.
            self._ledger.settle(step.transactional_id)
            return self._marking.begin(step.transactional_id, now)

        return Outcome(
            records=(self._ledger.propose(step),),
            replies=(Reply(ticket, answer),),
            then=committed,
            refused=self._refused(step, ticket, failure),
        )

    def _refused(
        self, step: Transaction, ticket: Ticket, failure: Callable[[ErrorCode], object]
    ) -> Callable[[ErrorCode, Now], Outcome]:
        def refused(code: ErrorCode, _: Now) -> Outcome:
            self._ledger.settle(step.transactional_id)
            return _reply(ticket, failure(coordinator_error(code)))

        return refused

    # The log, and time

    def replay(self, record: StateRecord, producer: ProducerIdentity | None) -> None:
        """Take one record into the state. Records of this log are never part of a transaction."""
        del producer
        self._ledger.replay(record)

    def transaction_ended(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Ignore a marker: no record of this log belongs to a transaction."""

    def loaded(self, now: Now) -> Outcome:
        """Begin to serve, and finish the transactions that an earlier coordinator decided.

        All decided ids are held before the first request comes. A request for one of them could
        otherwise change the id while partitions lack the marker of the decision.
        """
        del now
        decided = ids_of(transaction for transaction in self._ledger if transaction.ending)
        sweeps = self._sweeps.timers() if self._ledger else ()
        return Outcome(timers=(*sweeps, *self._marking.begin_later(decided)))

    def timer_fired(self, key: Hashable, now: Now) -> Outcome:
        """Do the work that a timer was set for."""
        if isinstance(key, SendMarkers):
            return self._marking.timer_fired(key, now)
        if isinstance(key, Sweep):
            return self._sweeps.timer_fired(key, now)
        raise InvariantViolated(f"an unknown timer: {key!r}")

    def resigned(self) -> None:
        """Stop serving. The next leader finds everything in the log."""
        self._ledger.clear()
        self._marking.clear()


def _as_it_is(code: ErrorCode) -> ErrorCode:
    return code


def _reply(ticket: Ticket, answer: object) -> Outcome:
    return Outcome(replies=(Reply(ticket, answer),))
