"""A transaction shard on virtual time, and those who speak to it: what its tests share.

The desk does what the coordinator's runtime does, in its order, on a log that commits at once,
later or not at all. A ticket that is answered twice fails the test.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import Now, Outcome, ProducerIdentity, StateRecord, Timer
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.effects import (
    MarkerResult,
    MarkersLate,
    TimedOut,
    WriteMarkers,
)
from moldau.coordination.transactions.shard import TransactionShard
from moldau.coordination.transactions.sweeping import TransactionSettings
from moldau.coordination.transactions.transaction import Transaction
from moldau.protocol.errors import ErrorCode

START_MS = 1_700_000_000_000
ABORT_INTERVAL_MS = 10_000
EXPIRATION_MS = 36_000_000
EXPIRATION_INTERVAL_MS = 3_600_000
MAX_TIMEOUT_MS = 900_000
TIMEOUT_MS = 60_000

ORDERS_0 = PartitionKey("orders", 0)
ORDERS_1 = PartitionKey("orders", 1)
OFFSETS_7 = PartitionKey("__consumer_offsets", 7)


class Waiter:
    """One request that waits for its answer."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"{len(self.answers)} answers"
        return self.answers[0]


class Desk:
    """Runs one shard."""

    def __init__(self, *, version: int = 2, coordinator_epoch: int = 5, commits: bool = True):
        self.version = version
        self.commits = commits
        self.refusal: ErrorCode | None = None
        self.refusals_left: int | None = None
        """After so many refusals the log is fine again; None: until a test says so."""
        self.log: list[StateRecord] = []
        self.committed_count = 0
        self.now_ms = START_MS
        self.next_producer_id = 4000
        self.written: list[WriteMarkers] = []
        self.timed_out: list[TimedOut] = []
        self.late: list[MarkersLate] = []
        self.counters = TransactionCounters()
        self.settings = TransactionSettings(
            max_timeout_ms=MAX_TIMEOUT_MS,
            abort_interval_ms=ABORT_INTERVAL_MS,
            expiration_ms=EXPIRATION_MS,
            expiration_interval_ms=EXPIRATION_INTERVAL_MS,
            transaction_version=lambda: self.version,
        )
        self._begin(coordinator_epoch)

    def _begin(self, coordinator_epoch: int) -> None:
        self.coordinator_epoch = coordinator_epoch
        self.shard = TransactionShard(coordinator_epoch, self.settings, self.counters)
        self.timers: dict[Any, int] = {}
        self.held: deque[tuple[int, Outcome]] = deque()
        for record in self.log:
            self.shard.replay(record, None)
        self.carry_out(self.shard.loaded(self.now))

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms / 1000)

    # What the runtime does

    def carry_out(self, outcome: Outcome) -> None:
        following: Outcome | None = outcome
        while following is not None:
            following = self._step(following)

    def _step(self, outcome: Outcome) -> Outcome | None:
        if outcome.records:
            if self.refusal is not None:
                assert outcome.refused is not None
                return outcome.refused(self._refuse(), self.now)
            for record in outcome.records:
                self.log.append(record)
                self.shard.replay(record, None)
        for timer in outcome.timers:
            self.timers.pop(timer.key, None)
            if isinstance(timer, Timer):
                self.timers[timer.key] = self.now_ms + round(timer.after_s * 1000)
        if self.commits and not self.held:
            self.committed_count = len(self.log)
            return self._finish(outcome)
        self.held.append((len(self.log), outcome))
        return None

    def _refuse(self) -> ErrorCode:
        refusal = self.refusal
        assert refusal is not None
        if self.refusals_left is not None:
            self.refusals_left -= 1
            if not self.refusals_left:
                self.refusal = self.refusals_left = None
        return refusal

    def _finish(self, outcome: Outcome) -> Outcome | None:
        for ticket, response in outcome.replies:
            assert isinstance(ticket, Waiter)
            ticket.answers.append(response)
            assert len(ticket.answers) == 1, "answered twice"
        for effect in outcome.effects:
            match effect:
                case TimedOut():
                    self.timed_out.append(effect)
                case MarkersLate():
                    self.late.append(effect)
                case WriteMarkers():
                    self.written.append(effect)
        return None if outcome.then is None else outcome.then(self.now)

    def commit(self) -> None:
        """Commit everything that is written."""
        while self.held:
            end, outcome = self.held.popleft()
            self.committed_count = end
            following = self._finish(outcome)
            if following is not None:
                self.carry_out(following)
        self.committed_count = len(self.log)

    def crash(self, *, kept: int | None = None) -> None:
        """Lose everything but the log, and perhaps of that what is not committed; load it anew."""
        kept = len(self.log) if kept is None else kept
        assert kept >= self.committed_count
        del self.log[kept:]
        self.committed_count = kept
        self.written.clear()
        self._begin(self.coordinator_epoch + 1)

    def wait(self, ms: int) -> None:
        """Let time pass, and timers fire when they are due."""
        end_ms = self.now_ms + ms
        while self.timers:
            key, due_ms = min(self.timers.items(), key=lambda item: item[1])
            if due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            del self.timers[key]
            self.carry_out(self.shard.timer_fired(key, self.now))
        self.now_ms = end_ms

    # What clients do

    def ask(self, handler: Callable[..., Outcome], *args: Any, **named: Any) -> Waiter:
        waiter = Waiter()
        self.carry_out(handler(*args, ticket=waiter, **named))
        return waiter

    def fresh(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def init(
        self,
        transactional_id: str = "copier",
        expected: ProducerIdentity | None = None,
        *,
        timeout_ms: int = TIMEOUT_MS,
        fresh: int | None = None,
    ) -> Any:
        """Ask for an identity, with a producer id at hand."""
        return self.ask(
            self.shard.init_producer_id,
            transactional_id,
            timeout_ms,
            expected,
            self.fresh() if fresh is None else fresh,
            now=self.now,
        ).answer

    def add(
        self,
        producer: ProducerIdentity,
        *keys: PartitionKey,
        transactional_id: str = "copier",
        version: int = 2,
    ) -> Any:
        return self.ask(
            self.shard.add_partitions, transactional_id, producer, keys, version, now=self.now
        ).answer

    def end(
        self,
        producer: ProducerIdentity,
        *,
        commit: bool = True,
        transactional_id: str = "copier",
        version: int = 2,
        fresh: int | None = None,
    ) -> Any:
        return self.ask(
            self.shard.end_transaction,
            transactional_id,
            producer,
            version,
            fresh,
            now=self.now,
            commit=commit,
        ).answer

    def state(self, transactional_id: str = "copier") -> Transaction:
        found: Transaction = self.ask(self.shard.describe, transactional_id).answer
        return found

    # What the outside does

    def mark(self, results: Mapping[PartitionKey, MarkerResult] | None = None) -> WriteMarkers:
        """Report on the oldest markers asked for: all written, unless told otherwise."""
        effect = self.written.pop(0)
        written = dict.fromkeys(effect.partitions, MarkerResult.WRITTEN)
        self.report(effect, written if results is None else results)
        return effect

    def report(self, effect: WriteMarkers, results: Mapping[PartitionKey, MarkerResult]) -> None:
        self.carry_out(self.shard.markers_written(effect, results, self.now))
