"""Transactions during a cleaning: which batches were aborted, and which markers may be removed.

A cleaning walks the log in order and passes every batch to this class. A batch of an aborted
transaction is removed at once: no consumer gets it. A marker may be removed only if the cleaning
met no batch of its transaction. Otherwise a consumer could take the remaining batches for a part of
the next transaction. All transactions below the end of a cleaning are complete, so a transactional
batch that was not aborted was committed.

The aborted transactions are read from the `.txnindex` files along with the batches, in the order of
their markers, and no further than needed. The last stable offset of an entry says where to stop:
no later entry has a transaction that starts below it. So only the transactions around the current
offset are in memory. Those whose markers are kept go to the `.txnindex` of the new segment.
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
"""Greater than all offsets."""


class CleanedTransactions:
    """The transactions around the current offset of a cleaning."""

    __slots__ = ("_aborted", "_ahead", "_committed", "_kept", "_known_below", "_seen", "_waiting")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._ahead = iter(aborted)
        """Aborted transactions that are not read yet, in the order of their markers."""
        self._known_below = 0
        """Every aborted transaction that starts below this was read."""
        self._waiting: list[tuple[int, AbortedTransaction]] = []
        """A heap of aborted transactions that start after the current offset."""
        self._aborted: dict[int, AbortedTransaction] = {}
        """By producer: the aborted transaction that is open at the current offset."""
        self._seen: set[int] = set()
        """Producers in `_aborted` with a batch that was passed."""
        self._committed: set[int] = set()
        """Producers with a passed batch of a committed transaction, until its marker."""
        self._kept = AbortedIndex()
        """Aborted transactions whose marker is kept."""

    def pass_data(self, header: BatchHeader) -> bool:
        """Pass a data batch; return whether its transaction was aborted."""
        self._open_up_to(header.last_offset)
        if not header.transactional:
            return False
        producer_id = header.producer_id
        if producer_id in self._aborted:
            self._seen.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def pass_control(self, header: BatchHeader, batch: Buffer) -> bool:
        """Pass a control batch; return whether its transaction has no batches left."""
        self._open_up_to(header.last_offset)
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
        """Return the aborted transactions with kept markers since the last call."""
        kept, self._kept = self._kept, AbortedIndex()
        return kept

    def _open_up_to(self, offset: int) -> None:
        """Open the aborted transactions that start at or below an offset."""
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
