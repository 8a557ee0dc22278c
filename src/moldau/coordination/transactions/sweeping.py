"""What only time decides: transactions that take too long, and ids that nobody uses any more.

Both are looked for from time to time. What is found is written in batches of a bounded size, each
in a turn of its own. Where there is no id there is no timer: fifty empty partitions cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from moldau.coordination.outcome import NOTHING, Now, Outcome, StateRecord, Timer
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.effects import TimedOut
from moldau.coordination.transactions.ledger import Ledger, ids_of
from moldau.coordination.transactions.marking import Marking
from moldau.coordination.transactions.transaction import Transaction, TransactionState, fence
from moldau.protocol.errors import ErrorCode

BATCH_BYTES: Final = 256 * 1024
"""A batch is full when it has this much: well below any `max.message.bytes` in use, and written in
a few milliseconds."""

EXPIRABLE: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)


class Sweep(Enum):
    """What is looked for; also the key of its timer."""

    TIMED_OUT = "transactions past their time-out"
    EXPIRED = "transactional ids that nobody uses any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's settings of transactions."""

    max_timeout_ms: int
    abort_interval_ms: int
    """How often transactions past their time-out are looked for."""
    expiration_ms: int
    expiration_interval_ms: int
    transaction_version: Callable[[], int]
    """The level of the feature that the cluster has agreed on; it may rise at any time."""


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

    def timers(self) -> tuple[Timer, ...]:
        """Begin to look: for a partition that has its first id."""
        return tuple(Timer(sweep, after_s) for sweep, after_s in self._intervals_s.items())

    def timer_fired(self, sweep: Sweep, now: Now) -> Outcome:
        """Look, write a batch of what is found, and look again later."""
        if not self._ledger:
            return NOTHING
        found = self._timed_out(now) if sweep is Sweep.TIMED_OUT else self._expired(now)
        fence_them = sweep is Sweep.TIMED_OUT
        version = self._settings.transaction_version()
        swept: list[Transaction] = []
        records: list[StateRecord] = []
        size = 0
        after_s = self._intervals_s[sweep]
        for transaction in found:
            if size >= BATCH_BYTES:
                after_s = 0.0
                break
            record = (
                self._ledger.propose(fence(transaction, version, now.wall_ms))
                if fence_them
                else self._ledger.propose_to_forget(transaction.transactional_id)
            )
            size += len(record.key) + len(record.value or b"")
            swept.append(transaction)
            records.append(record)
        return self._written(sweep, swept, records, Timer(sweep, after_s))

    def _timed_out(self, now: Now) -> Iterable[Transaction]:
        return (
            transaction
            for transaction in self._ledger
            if transaction.state is TransactionState.ONGOING
            and transaction.start_ms + transaction.timeout_ms < now.wall_ms
            and not self._ledger.is_proposed(transaction.transactional_id)
        )

    def _expired(self, now: Now) -> Iterable[Transaction]:
        oldest_ms = now.wall_ms - self._settings.expiration_ms
        return (
            transaction
            for transaction in self._ledger
            if transaction.state in EXPIRABLE
            and transaction.last_update_ms <= oldest_ms
            and not self._ledger.is_proposed(transaction.transactional_id)
        )

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
