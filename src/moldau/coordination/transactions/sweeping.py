"""Two periodic searches: for transactions past their timeout, and for ids that nobody uses.

A search runs in short turns. Each turn looks at some ids and writes its results in one batch. A
partition without ids has no timer, so fifty empty partitions cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from operator import length_hint
from typing import Final

from moldau.coordination.outcome import NOTHING, Now, Outcome, StateRecord, Timer
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.effects import TimedOut
from moldau.coordination.transactions.ledger import Ledger, ids_of
from moldau.coordination.transactions.marking import Marking
from moldau.coordination.transactions.transaction import (
    EXPIRABLE,
    Transaction,
    TransactionState,
    fence,
)
from moldau.protocol.errors import ErrorCode

LOOKS_PER_TURN: Final = 2_000
"""Ids that one turn looks at. It takes less than a millisecond if none is due."""

RECORDS_PER_TURN: Final = 100
"""Records that one turn writes. It takes three milliseconds."""

BYTES_PER_TURN: Final = 32 * 1024
"""A batch is full at this size. The record of a transaction with thousands of partitions takes
milliseconds by itself."""


class Sweep(Enum):
    """What a search looks for; also the key of its timer."""

    TIMED_OUT = "transactions past their timeout"
    EXPIRED = "transactional ids that are not used any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's settings of transactions."""

    max_timeout_ms: int
    abort_interval_ms: int
    """How often to search for transactions past their timeout."""
    expiration_ms: int
    expiration_interval_ms: int
    transaction_version: Callable[[], int]
    """The level of `transaction.version` in force in the cluster; it may rise at any time."""


class Sweeps:
    """The two searches through one partition of the transaction log."""

    def __init__(
        self,
        ledger: Ledger,
        marking: Marking,
        settings: TransactionSettings,
        counters: TransactionCounters,
    ) -> None:
        self._ledger = ledger
        self._marking = marking
        self._settings = settings
        self._counters = counters
        self._intervals_s = {
            Sweep.TIMED_OUT: settings.abort_interval_ms / 1000,
            Sweep.EXPIRED: settings.expiration_interval_ms / 1000,
        }
        self._under_way: dict[Sweep, Iterator[str]] = {}
        """The ids that a sweep has not looked at yet."""

    def timers(self) -> tuple[Timer, ...]:
        """Return the timers of both sweeps, for a partition that has its first id."""
        return tuple(Timer(sweep, after_s) for sweep, after_s in self._intervals_s.items())

    def timer_fired(self, sweep: Sweep, now: Now) -> Outcome:
        """Look at some ids and write the results; continue in the next turn, or restart later."""
        if not self._ledger:
            self._under_way.pop(sweep, None)
            return NOTHING
        ids = self._under_way.pop(sweep, None)
        if ids is None:
            ids = iter(self._ledger.ids())
        is_due = self._is_timed_out if sweep is Sweep.TIMED_OUT else self._is_expired
        swept: list[Transaction] = []
        records: list[StateRecord] = []
        size = 0
        for transactional_id in islice(ids, LOOKS_PER_TURN):
            transaction = self._ledger.get(transactional_id)
            if transaction is None or not is_due(transaction, now):
                continue
            # A pending step decides about the id. An id that is still due is found next time.
            if self._ledger.is_proposed(transactional_id):
                continue
            record = self._propose(sweep, transaction, now)
            size += len(record.key) + len(record.value or b"")
            swept.append(transaction)
            records.append(record)
            if len(records) >= RECORDS_PER_TURN or size >= BYTES_PER_TURN:
                break
        after_s = self._intervals_s[sweep]
        if length_hint(ids):
            self._under_way[sweep] = ids
            after_s = 0.0
        return self._written(sweep, swept, records, Timer(sweep, after_s))

    def _is_timed_out(self, transaction: Transaction, now: Now) -> bool:
        return (
            transaction.state is TransactionState.ONGOING
            and transaction.start_ms + transaction.timeout_ms < now.wall_ms
        )

    def _is_expired(self, transaction: Transaction, now: Now) -> bool:
        oldest_ms = now.wall_ms - self._settings.expiration_ms
        return transaction.state in EXPIRABLE and transaction.last_update_ms <= oldest_ms

    def _propose(self, sweep: Sweep, transaction: Transaction, now: Now) -> StateRecord:
        if sweep is Sweep.EXPIRED:
            return self._ledger.propose_to_forget(transaction.transactional_id)
        version = self._settings.transaction_version()
        return self._ledger.propose(fence(transaction, version, now.wall_ms))

    def _written(
        self,
        sweep: Sweep,
        swept: Sequence[Transaction],
        records: Sequence[StateRecord],
        again: Timer,
    ) -> Outcome:
        ids = ids_of(swept)
        times_out = sweep is Sweep.TIMED_OUT

        def committed(_: Now) -> Outcome:
            self._ledger.settle(*ids)
            if not times_out:
                return NOTHING
            self._counters.timed_out += len(ids)
            return Outcome(timers=self._marking.begin_later(ids))

        def refused(_code: ErrorCode, _now: Now) -> Outcome:
            self._ledger.settle(*ids)
            self._under_way.pop(sweep, None)  # the log refuses records now: start again later
            return Outcome(timers=(Timer(sweep, self._intervals_s[sweep]),))

        return Outcome(
            records=records,
            timers=(again,),
            effects=[
                TimedOut(one.transactional_id, one.producer, one.timeout_ms)
                for one in (swept if times_out else ())
            ],
            then=committed,
            refused=refused,
        )
