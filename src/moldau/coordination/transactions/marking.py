"""From the decision of a transaction to its end: a marker in every partition, then Complete.

    Prepare committed --> due --WriteMarkers--> asked --WRITTEN, DELETED, FENCED--> done
                           ^                      |
                           +----- backoff --------+ UNAVAILABLE; a new leader is asked at once
    all partitions done --> Complete record --committed--> the id is free

A decided transaction holds its id until every partition has the marker. An effect asks for markers,
and `written` takes the results, in one call or several. Markers that could not be written are
retried without end: the decision is made, and a partition without the marker would hold back its
readers for ever. The progress is not in the log. A new coordinator starts with all partitions of
the decision again.

A second marker in a partition does no harm while the id is held. Once the id is free it does: with
the older protocol the next transaction has the same epoch, and a late marker would end it.
Therefore a partition is never asked again before its first answer is there, and the transaction is
not complete while an answer is missing. Late markers of an earlier coordinator are refused by the
partitions, once they have seen the epoch of the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.base.checks import invariant
from moldau.base.ids import PartitionKey
from moldau.coordination.backoff import backoff_s
from moldau.coordination.outcome import NOTHING, Now, Outcome, Timer
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.effects import MarkerResult, MarkersLate, WriteMarkers
from moldau.coordination.transactions.ledger import Ledger
from moldau.coordination.transactions.transaction import complete
from moldau.protocol.errors import ErrorCode

RETRY_FIRST_S: Final = 0.1
"""The first backoff of a marker that could not be written: about the time of an election."""

RETRY_MAX_S: Final = 5.0
"""The longest backoff. If partitions are offline for hours, thousands of ids may wait for them, and
each retry of an id costs a task."""

LATE_RETRY: Final = 6
"""The retry at which a line is logged, after three seconds: an election would be over."""


class SendMarkers(NamedTuple):
    """The timer of an id whose markers are due, for the first time or for a retry."""

    transactional_id: str


@dataclass(slots=True)
class _Ending:
    """The partitions that a decided transaction waits for."""

    due: frozenset[PartitionKey]
    """Partitions that are to be asked to write the marker."""
    asked: dict[PartitionKey, WriteMarkers] = field(default_factory=dict)
    """Partitions that have not answered yet, each with the effect that asked it."""
    timer_set: bool = False
    retry_count: int = 0
    """Since the start, or since another broker leads one of the partitions."""
    is_late: bool = False
    """Whether a line was logged."""

    def waits(self, key: PartitionKey, markers: WriteMarkers) -> bool:
        """Tell whether this effect is the one that a partition has not answered yet.

        Compared by identity: after the id was used again, an equal effect of an earlier transaction
        must not count.
        """
        return self.asked.get(key) is markers


class Marking:
    """Every decided transaction of one partition of the transaction log."""

    def __init__(
        self, ledger: Ledger, coordinator_epoch: int, counters: TransactionCounters
    ) -> None:
        """`coordinator_epoch` is the partition's leader epoch. Every marker carries it."""
        self._ledger = ledger
        self._coordinator_epoch = coordinator_epoch
        self._counters = counters
        self._endings: dict[str, _Ending] = {}

    def awaited(self, transactional_id: str) -> frozenset[PartitionKey] | None:
        """The partitions without a confirmed marker; None if no decision holds the id."""
        ending = self._endings.get(transactional_id)
        return None if ending is None else ending.due.union(ending.asked)

    def is_under_way(self, transactional_id: str) -> bool:
        """Tell whether a decision holds an id."""
        return transactional_id in self._endings

    def begin(self, transactional_id: str, now: Now) -> Outcome:
        """Write the markers of a transaction whose decision is committed."""
        self._add_ending(transactional_id)
        return self._continue(transactional_id, now)

    def begin_later(self, transactional_ids: Iterable[str]) -> tuple[Timer, ...]:
        """Write the markers of many decided transactions, each in its own turn of the loop."""
        timers = []
        for transactional_id in transactional_ids:
            self._add_ending(transactional_id).timer_set = True
            timers.append(Timer(SendMarkers(transactional_id), 0.0))
        return tuple(timers)

    def _add_ending(self, transactional_id: str) -> _Ending:
        transaction = self._ledger[transactional_id]
        # A marker without a committed decision would make readers see records, or drop them, that
        # the producer may still abort or commit.
        invariant(
            transaction.ending and not self._ledger.is_proposed(transactional_id),
            f"{transactional_id!r} gets markers without a decision",
        )
        # A second one would ask partitions that have not answered the first.
        invariant(
            transactional_id not in self._endings, f"{transactional_id!r} is being ended already"
        )
        ending = self._endings[transactional_id] = _Ending(transaction.partitions)
        return ending

    def timer_fired(self, key: SendMarkers, now: Now) -> Outcome:
        """Ask for the markers that are due."""
        self._endings[key.transactional_id].timer_set = False
        return self._continue(key.transactional_id, now)

    def written(
        self, markers: WriteMarkers, results: Mapping[PartitionKey, MarkerResult], now: Now
    ) -> Outcome:
        """Take the results of markers; results that are not waited for are ignored.

        A partition that is deleted or has fenced the marker counts as done: there is no open
        transaction in it, and a wait would hold the id for ever.
        """
        transactional_id = markers.transactional_id
        ending = self._endings.get(transactional_id)
        answered = [] if ending is None else [key for key in results if ending.waits(key, markers)]
        if ending is None or not answered:
            return NOTHING
        for key in answered:
            del ending.asked[key]
        ending.due = ending.due.union(
            key for key in answered if results[key] is MarkerResult.UNAVAILABLE
        )
        if not ending.due:
            return NOTHING if ending.asked else self._complete(transactional_id, now)
        if ending.timer_set:
            return NOTHING
        return self._retry(transactional_id, ending)

    def leaders_changed(self, keys: frozenset[PartitionKey]) -> Outcome:
        """Ask partitions again at once that have another leader, and begin with the backoff anew.

        Partitions that have not answered yet are asked again when they have.
        """
        timers = []
        for transactional_id, ending in self._endings.items():
            is_due = not ending.due.isdisjoint(keys)
            if is_due or not keys.isdisjoint(ending.asked):
                ending.retry_count = 0
            if is_due and ending.timer_set:
                timers.append(Timer(SendMarkers(transactional_id), 0.0))
        return Outcome(timers=tuple(timers)) if timers else NOTHING

    def clear(self) -> None:
        """Forget everything: this broker no longer leads the partition."""
        self._endings.clear()

    def _retry(self, transactional_id: str, ending: _Ending) -> Outcome:
        """Try again after a backoff."""
        ending.timer_set = True
        ending.retry_count += 1
        after_s = backoff_s(ending.retry_count, RETRY_FIRST_S, RETRY_MAX_S)
        timers = (Timer(SendMarkers(transactional_id), after_s),)
        if ending.retry_count < LATE_RETRY or ending.is_late:
            return Outcome(timers=timers)
        ending.is_late = True
        return Outcome(timers=timers, effects=(MarkersLate(transactional_id, ending.due),))

    def _continue(self, transactional_id: str, now: Now) -> Outcome:
        """Ask for the markers that are due; complete the transaction if there are none."""
        ending = self._endings[transactional_id]
        if not ending.due:
            return self._complete(transactional_id, now)
        transaction = self._ledger[transactional_id]
        effect = WriteMarkers(
            transactional_id,
            transaction.producer,
            transaction.committed,
            self._coordinator_epoch,
            transaction.client_version,
            ending.due,
        )
        ending.asked.update(dict.fromkeys(ending.due, effect))
        ending.due = frozenset()
        return Outcome(effects=(effect,))

    def _complete(self, transactional_id: str, now: Now) -> Outcome:
        """Write the Complete record. The proposal keeps the id busy until it is committed."""
        transaction = self._ledger[transactional_id]
        ending = self._endings.pop(transactional_id)
        # The next transaction of the id may have the same epoch: a marker that is still on its way
        # would end it.
        invariant(
            not ending.due and not ending.asked,
            f"{transactional_id!r} is complete while partitions lack the marker",
        )

        def committed(_: Now) -> Outcome:
            self._ledger.settle(transactional_id)
            if transaction.committed:
                self._counters.committed += 1
            else:
                self._counters.aborted += 1
            return NOTHING

        def refused(_code: ErrorCode, _now: Now) -> Outcome:
            self._ledger.settle(transactional_id)
            self._endings[transactional_id] = ending
            return self._retry(transactional_id, ending)

        return Outcome(
            records=(self._ledger.propose(complete(transaction, now.wall_ms)),),
            then=committed,
            refused=refused,
        )
