"""From the decision of a transaction to its end: a marker in every partition, then the last record.

A decided transaction holds its id until every partition has the marker. Markers are asked for by
an effect and reported by `written`, in one call or several; what could not be written is asked for
again until it is. Nothing of this is in the log: a coordinator that takes over begins with all
partitions of the decision anew.

A second marker does no harm as long as the id is held. Afterwards it does: with the older protocol
the next transaction has the same epoch, and a marker that comes late would end it. Therefore a
partition is never asked a second time before the first answer is there, and nothing is complete
while an answer is out. Markers of an earlier coordinator are fenced by the partition itself, which
has seen the epoch of the one in office.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.base.ids import PartitionKey
from moldau.coordination.backoff import backoff_s
from moldau.coordination.outcome import NOTHING, Now, Outcome, Timer
from moldau.coordination.transactions.counters import TransactionCounters
from moldau.coordination.transactions.effects import MarkerResult, MarkersLate, WriteMarkers
from moldau.coordination.transactions.ledger import Ledger
from moldau.coordination.transactions.transaction import complete
from moldau.protocol.errors import ErrorCode

RETRY_FIRST_S: Final = 0.1
"""How long a marker rests that could not be written: an election takes about that long."""

RETRY_MAX_S: Final = 5.0
"""How long it rests at last. Partitions that are away for hours may hold thousands of ids, each of
which costs a task for every try."""

LATE_RETRY: Final = 6
"""The retry before which the log is told, after three seconds: it is no election any more."""


class SendMarkers(NamedTuple):
    """The timer of an id whose markers are due, for the first time or again."""

    transactional_id: str


@dataclass(slots=True)
class _Ending:
    """What a decided transaction waits for."""

    due: frozenset[PartitionKey]
    """Partitions that are to be asked to write the marker."""
    asked: dict[PartitionKey, WriteMarkers] = field(default_factory=dict)
    """Partitions that have not answered yet, and by which effect they were asked."""
    timer_set: bool = False
    retry_count: int = 0

    def waits(self, key: PartitionKey, markers: WriteMarkers) -> bool:
        """Tell whether a partition owes an answer to this very effect."""
        return self.asked.get(key) is markers


class Marking:
    """Every decided transaction of one partition of the transaction log."""

    def __init__(
        self, ledger: Ledger, coordinator_epoch: int, counters: TransactionCounters
    ) -> None:
        """The epoch is the partition's leader epoch; it stands in every marker."""
        self._ledger = ledger
        self._coordinator_epoch = coordinator_epoch
        self._counters = counters
        self._endings: dict[str, _Ending] = {}

    def awaited(self, transactional_id: str) -> frozenset[PartitionKey] | None:
        """The partitions not known to have the marker; None if the id is not held by a decision."""
        ending = self._endings.get(transactional_id)
        return None if ending is None else ending.due.union(ending.asked)

    def is_under_way(self, transactional_id: str) -> bool:
        """Tell whether an id is held by its decision."""
        return transactional_id in self._endings

    def begin(self, transactional_id: str, now: Now) -> Outcome:
        """End a transaction whose decision was just committed."""
        self._endings[transactional_id] = _Ending(self._ledger[transactional_id].partitions)
        return self._go_on(transactional_id, now)

    def begin_later(self, transactional_ids: Iterable[str]) -> tuple[Timer, ...]:
        """End many, one by one, in turns of their own."""
        timers = []
        for transactional_id in transactional_ids:
            partitions = self._ledger[transactional_id].partitions
            self._endings[transactional_id] = _Ending(partitions, timer_set=True)
            timers.append(Timer(SendMarkers(transactional_id), 0.0))
        return tuple(timers)

    def timer_fired(self, key: SendMarkers, now: Now) -> Outcome:
        """Ask for the markers that are due."""
        self._endings[key.transactional_id].timer_set = False
        return self._go_on(key.transactional_id, now)

    def written(
        self, markers: WriteMarkers, results: Mapping[PartitionKey, MarkerResult], now: Now
    ) -> Outcome:
        """Hear what became of markers; what nobody waits for any more is passed over.

        A partition that is gone or has fenced the marker is done with: there is nothing left to
        end there, and waiting for it would hold the id for ever.
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

    def clear(self) -> None:
        """Forget everything: somebody else has the log."""
        self._endings.clear()

    def _retry(self, transactional_id: str, ending: _Ending) -> Outcome:
        """Try again after a while, each time after a longer one."""
        ending.timer_set = True
        ending.retry_count += 1
        after_s = backoff_s(ending.retry_count, RETRY_FIRST_S, RETRY_MAX_S)
        late = MarkersLate(transactional_id, ending.due)
        return Outcome(
            timers=(Timer(SendMarkers(transactional_id), after_s),),
            effects=(late,) if ending.retry_count == LATE_RETRY else (),
        )

    def _go_on(self, transactional_id: str, now: Now) -> Outcome:
        """Ask for the markers that are due, or end the transaction if there are none to write."""
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
        transaction = self._ledger[transactional_id]
        ending = self._endings.pop(transactional_id)

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
