"""Which transactions a cleaning passes: aborted records go, markers outlive their records.

A cleaning walks the log in order and tells this of every batch of a producer. A batch of an
aborted transaction can go at once: no reader is ever given it. The marker that ends a transaction
may only go when no batch of it was met on the way, so that no reader takes what is left of one
transaction for a part of the next. Since every transaction in reach of a cleaning is decided, a
batch of none that was aborted belongs to one that was committed.

Which were aborted is read along with the batches, in the order of their markers, and no further
than needed: each entry says up to where everything was decided when its marker was written, so no
transaction that begins below is told of by a later one. At a time this holds only those that the
cleaning is in the midst of. The ones whose markers stay are kept for the new segment's `.txnindex`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from moldau.base.files import Buffer
from moldau.records.batch import BatchHeader
from moldau.records.control import ControlType, control_type
from moldau.records.record import read_records
from moldau.storage.indexes import AbortedIndex, AbortedTransaction

EVERYTHING: Final = 1 << 63
"""Above all offsets."""


class CleanedTransactions:
    """The transactions open at the place that a cleaning has reached."""

    __slots__ = ("_aborted", "_ahead", "_committed", "_kept", "_known_below", "_seen", "_waiting")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._ahead = iter(aborted)
        """Aborted ones that were not looked at yet, in the order of their markers."""
        self._known_below = 0
        """Every aborted one that begins below this was looked at."""
        self._waiting: list[tuple[int, AbortedTransaction]] = []
        """Aborted ones that begin further on, the next one first."""
        self._aborted: dict[int, AbortedTransaction] = {}
        """By producer, aborted ones that have begun."""
        self._seen: set[int] = set()
        """Producers of those of which a batch was met."""
        self._committed: set[int] = set()
        """Producers of which a batch was met that is going to be committed."""
        self._kept = AbortedIndex()
        """Aborted ones whose marker stays."""

    def pass_data(self, header: BatchHeader) -> bool:
        """Go past a batch of records; tell whether its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.transactional:
            return False
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def pass_control(self, header: BatchHeader, batch: Buffer) -> bool:
        """Go past a control batch; tell whether nothing is left of what it ends."""
        self._begin_up_to(header.last_offset)
        record = next(read_records(batch), None)
        if record is None:
            return True
        kind = control_type(record.key)
        producer_id = header.producer_id
        if kind is ControlType.COMMIT:
            unseen = producer_id not in self._committed
            self._committed.discard(producer_id)
            return unseen
        if kind is not ControlType.ABORT:
            return False
        transaction = self._aborted.pop(producer_id, None)
        unseen = producer_id not in self._seen
        self._seen.discard(producer_id)
        if transaction is None or unseen:
            return True
        self._kept.append(transaction)
        return False

    def take_kept(self) -> AbortedIndex:
        """Return the aborted transactions kept since the last time."""
        kept, self._kept = self._kept, AbortedIndex()
        return kept

    def _begin_up_to(self, offset: int) -> None:
        """Come to an offset: what begins up to there has begun."""
        waiting = self._waiting
        while self._known_below <= offset:
            ahead = next(self._ahead, None)
            if ahead is None:
                self._known_below = EVERYTHING
            else:
                heapq.heappush(waiting, (ahead.first_offset, ahead))
                self._known_below = ahead.last_stable_offset
        while waiting and waiting[0][0] <= offset:
            _, transaction = heapq.heappop(waiting)
            self._aborted.setdefault(transaction.producer_id, transaction)
