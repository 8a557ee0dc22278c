"""The requests for the transactional ids of one partition of __transaction_state.

Every step of an id is written before anybody is told of it, one step at a time: while a record is
on its way to being committed, or markers are out, every other request for the id is answered with
CONCURRENT_TRANSACTIONS, and its client tries again. The way of an end is

    Prepare record -committed-> reply, markers -all written-> Complete record -committed-> free

The reply goes out with the decision: nothing can stop it any more. A coordinator that takes over
begins at the markers, for every id that it finds decided.

Replies are values of this package; what they are on the wire is the server's business.
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
    """The answer to the end of a transaction."""

    error: ErrorCode
    producer: ProducerIdentity = NOBODY
    """Who the client is from now on, where it has ended."""


class ShownTransactions(NamedTuple):
    """All transactional ids of one shard, or why there are none to see."""

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
        """Begin empty; the epoch is the partition's leader epoch."""
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

        Missing: ask again with a producer id as `fresh`. An open transaction of the id is aborted
        first; its client comes back for the epoch when that is done.
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
        """Take partitions into the producer's transaction. Replies an ErrorCode."""
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
        """Say which partitions the producer's transaction has. Replies a code for each."""
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
        """Commit or abort. Replies Ended, or Missing: then ask again with a `fresh` id."""
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
        """Show an id; while markers are out, with those partitions. Replies Transaction or None."""
        transaction = self._ledger.get(transactional_id)
        awaited = self._marking.awaited(transactional_id)
        if transaction is not None and awaited is not None:
            transaction = replace(transaction, partitions=awaited)
        return _reply(ticket, transaction)

    def all_transactions(self, ticket: Ticket) -> Outcome:
        """Show every id, for a list of them. Replies ShownTransactions.

        They may be hundreds of thousands: whoever asked filters them, and may pause between two.
        """
        return _reply(ticket, ShownTransactions(ErrorCode.NONE, tuple(self._ledger)))

    def markers_written(
        self, markers: WriteMarkers, results: Mapping[PartitionKey, MarkerResult], now: Now
    ) -> Outcome:
        """Hear what became of markers that an effect asked for."""
        return self._marking.written(markers, results, now)

    def count_ids(self) -> Counter[TransactionState]:
        """Count ids by their state; may be asked from another thread while they change."""
        return Counter(transaction.state for transaction in tuple(self._ledger))

    # Steps

    def _is_busy(self, transactional_id: str) -> bool:
        return self._ledger.is_proposed(transactional_id) or self._marking.is_under_way(
            transactional_id
        )

    def _take(
        self, step: Transaction, ticket: Ticket, answer: object, timers: Sequence[Timer] = ()
    ) -> Outcome:
        """Take a step that is over once it is committed."""

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
        """Decide a transaction; its markers follow."""

        def committed(now: Now) -> Outcome:
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
        """Take one record into the state; this log is not written to in transactions."""
        del producer
        self._ledger.replay(record)

    def transaction_ended(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Pass over a marker: it ends nothing here."""

    def loaded(self, now: Now) -> Outcome:
        """Begin to serve, and finish what an earlier coordinator decided."""
        del now
        decided = ids_of(transaction for transaction in self._ledger if transaction.ending)
        sweeps = self._sweeps.timers() if self._ledger else ()
        return Outcome(timers=(*sweeps, *self._marking.begin_later(decided)))

    def timer_fired(self, key: Hashable, now: Now) -> Outcome:
        """Go on with what a timer was set for."""
        if isinstance(key, SendMarkers):
            return self._marking.timer_fired(key, now)
        if isinstance(key, Sweep):
            return self._sweeps.timer_fired(key, now)
        raise InvariantViolated(f"a timer of nobody: {key!r}")

    def resigned(self) -> None:
        """Stop serving: whoever leads now finds everything in the log."""
        self._ledger.clear()
        self._marking.clear()


def _as_it_is(code: ErrorCode) -> ErrorCode:
    return code


def _reply(ticket: Ticket, answer: object) -> Outcome:
    return Outcome(replies=(Reply(ticket, answer),))
