"""The batches of a fetch answer: which of them came whole, and which of those a user may see.

`split` finds the whole ones by their headers, as soon as the answer is here. `BatchWalk` goes
through them one after the other. It leaves out control batches, batches below the position (batches
come whole, and a broker may send more than was asked for) and, where the answer names aborted
transactions, their batches. Owns the rule which those are; knows nothing of single records.

Pure. What is wrong with a batch is CorruptRecords when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moldau.base.errors import CorruptRecords
from moldau.base.tuples import NamedTuple
from moldau.engine.metadata import NO_EPOCH
from moldau.protocol.messages.data import AbortedTransaction
from moldau.records.batch import (
    MAGIC,
    BatchHeader,
    BatchSpan,
    crc_ok,
    iter_batches,
    parse_header,
)


class Split(NamedTuple):
    """The whole batches of an answer, seen from the outside."""

    spans: list[BatchSpan]
    next_offset: int
    leader_epoch: int
    size: int


def split(view: memoryview, fetch_offset: int) -> Split:
    """Find the whole batches; what is cut at the end comes again with the next fetch.

    CorruptRecords if the bytes cannot be walked. No progress (`next_offset` equal to the fetch
    offset) means that not even one batch is whole.
    """
    spans = list(iter_batches(view, allow_cut=True))
    if not spans:
        return Split(spans, fetch_offset, NO_EPOCH, 0)
    last = spans[-1]
    next_offset, leader_epoch = last.base_offset + 1, NO_EPOCH
    if last.magic == MAGIC:
        header = parse_header(view, last.position)
        if not header.last_offset_delta >= 0:
            raise CorruptRecords(f"a batch ends {-header.last_offset_delta} before it begins")
        next_offset, leader_epoch = header.next_offset, header.leader_epoch
    return Split(spans, max(next_offset, fetch_offset), leader_epoch, last.position + last.size)


class VisibleBatch(NamedTuple):
    """A batch with records for the user, or a message of a format before batches."""

    span: BatchSpan
    header: BatchHeader | None
    """None for such a message."""
    first_wanted: int
    """Records before it were asked for by nobody."""
    next_offset: int
    """Where the user is, once the batch is done with."""
    leader_epoch: int
    """The term of the leader that took the batch."""


class BatchWalk:
    """Goes through the batches of one answer."""

    __slots__ = (
        "_aborted",
        "_aborted_producers",
        "_check_crcs",
        "_spans",
        "_view",
        "leader_epoch",
        "next_offset",
    )

    def __init__(
        self,
        view: memoryview,
        spans: Iterable[BatchSpan],
        fetch_offset: int,
        aborted: Sequence[AbortedTransaction] = (),
        *,
        check_crcs: bool = True,
    ) -> None:
        self._view = view
        self._spans = iter(spans)
        self._check_crcs = check_crcs
        self._aborted = sorted(aborted, key=_first_offset, reverse=True)
        self._aborted_producers: set[int] = set()
        self.next_offset = fetch_offset
        """Where the user is, once everything up to here is done with."""
        self.leader_epoch = NO_EPOCH
        """The term in which the batch before that offset was written."""

    def next(self) -> VisibleBatch | None:
        """Find the next batch that has something for the user; None at the end."""
        for span in self._spans:
            wanted = self.next_offset
            if span.magic != MAGIC:
                self._pass(span.base_offset + 1, NO_EPOCH)
                return VisibleBatch(span, None, wanted, self.next_offset, NO_EPOCH)
            if self._check_crcs and not crc_ok(self._view, span.position, span.size):
                raise CorruptRecords(
                    f"the batch at offset {span.base_offset} does not match its checksum"
                )
            header = parse_header(self._view, span.position)
            hidden = self._hidden(header, span)
            self._pass(header.next_offset, header.leader_epoch)
            if self.next_offset > wanted and not hidden:
                return VisibleBatch(span, header, wanted, self.next_offset, header.leader_epoch)
        return None

    def _pass(self, next_offset: int, leader_epoch: int) -> None:
        if next_offset > self.next_offset:
            self.next_offset, self.leader_epoch = next_offset, leader_epoch

    def _hidden(self, header: BatchHeader, span: BatchSpan) -> bool:
        """Tell whether a batch is not for users: a control batch, or one that was aborted.

        Aborted transactions of one producer come one after the other, so its marker ends exactly
        the one that was open.
        """
        while self._aborted and self._aborted[-1].first_offset <= header.last_offset:
            self._aborted_producers.add(self._aborted.pop().producer_id)
        if not header.control:
            return header.transactional and header.producer_id in self._aborted_producers
        if header.producer_id in self._aborted_producers:
            from moldau.records import control  # noqa: PLC0415 - only aborted transactions need it

            whole = self._view[span.position : span.position + span.size]
            marker = control.end_transaction_marker(whole)
            if marker is not None and marker.aborted:
                self._aborted_producers.discard(header.producer_id)
        return True


def _first_offset(transaction: AbortedTransaction) -> int:
    return transaction.first_offset
