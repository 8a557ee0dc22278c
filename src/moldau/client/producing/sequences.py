"""The numbers that let a broker write every batch once and in order (KIP-98), and their repair.

A partition's batches are numbered when they are first sent and keep their numbers through every
retry. What each answer means for the numbers is decided here (`verdict`):

- a batch the broker has already is as good as written;
- one that is out of order because an earlier one failed is sent again after that one;
- one that is out of order although everything before it is settled, or whose producer the broker
  has forgotten, shows a gap. The producer then raises its own epoch and numbers what the partition
  has not acknowledged from 0 under it (KIP-360), once nothing is on its way any more;
- one that is given up leaves a possible gap: it may have been written. What was sent after it is
  first tried again under its old numbers, or a batch that was written could be written twice.

A transactional producer does not repair a gap: the transaction is aborted, and the coordinator
gives the next epoch. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final

from moldau.base.tuples import NamedTuple
from moldau.client.producing.batches import ProducerBatch
from moldau.protocol.errors import ErrorCode

_EPOCH_MAX: Final = 2**15 - 1
"""At the last epoch a new producer id is needed."""


_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_OUT_OF_SEQUENCE: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)


class SequenceIdentity(NamedTuple):
    """Who numbers: the id a broker gave out, and which life of it this is."""

    producer_id: int
    producer_epoch: int

    def raised(self) -> SequenceIdentity | None:
        """Return the next epoch's identity; None after the last, when a new id is due."""
        if self.producer_epoch >= _EPOCH_MAX - 1:
            return None
        return SequenceIdentity(self.producer_id, self.producer_epoch + 1)


class Gap(Enum):
    """Whether a number is missing at the broker."""

    NONE = auto()
    POSSIBLE = auto()
    """A numbered batch was given up; nothing new may be sent before that is settled."""
    CERTAIN = auto()
    """The broker will take nothing more under these numbers."""


class Verdict(Enum):
    """What to do with a batch after its answer."""

    WRITTEN = auto()
    RETRY = auto()
    RENUMBER = auto()
    """Try again under a raised epoch."""
    SPLIT = auto()
    FAIL = auto()


class Sequences:
    """The numbers of one partition."""

    __slots__ = ("_last_acknowledged", "_next", "gap", "identity", "introduced")

    def __init__(self) -> None:
        self.identity: SequenceIdentity | None = None
        """Under which its open batches are numbered; another one is taken over when none is."""
        self.gap = Gap.NONE
        self.introduced = False
        """The partition's leader knows this producer id. One that does not takes any number for the
        first (KIP-360), so nothing may follow a batch that could be refused (KAFKA-14359)."""
        self._next = 0
        self._last_acknowledged = -1

    def adopt(self, identity: SequenceIdentity) -> None:
        """Begin at 0 as this producer."""
        if self.identity is None or self.identity.producer_id != identity.producer_id:
            self.introduced = False
        self.identity = identity
        self.gap = Gap.NONE
        self._next = 0
        self._last_acknowledged = -1

    def number(self, batch: ProducerBatch) -> None:
        """Give a batch the next numbers."""
        assert self.identity is not None
        batch.number(*self.identity, self._next)
        self._next = batch.next_sequence

    def acknowledged(self, batch: ProducerBatch) -> None:
        """Remember how far the broker has written."""
        if self._is_of(batch):
            self.introduced = True
            self._last_acknowledged = (batch.next_sequence - 1) & 0x7FFFFFFF

    def is_next(self, batch: ProducerBatch) -> bool:
        """Tell whether everything before a batch has been acknowledged."""
        return self._is_of(batch) and batch.sequence == (self._last_acknowledged + 1) & 0x7FFFFFFF

    def given_up(self, batch: ProducerBatch) -> None:
        """Remember that a batch will not be sent again."""
        if batch.numbered and self._is_of(batch) and self.gap is Gap.NONE:
            self.gap = Gap.POSSIBLE

    def close_gap(self) -> bool:
        """With nothing left to send again: forget a gap that turned out to be none, and tell."""
        if self.gap is Gap.POSSIBLE and self._next == (self._last_acknowledged + 1) & 0x7FFFFFFF:
            self.gap = Gap.NONE
        return self.gap is Gap.NONE

    def renumber(self, identity: SequenceIdentity, batches: Iterable[ProducerBatch]) -> None:
        """Number open batches from 0 under a raised epoch."""
        self.adopt(identity)
        for batch in batches:
            self.number(batch)

    def _is_of(self, batch: ProducerBatch) -> bool:
        return self.identity == batch.identity


def verdict(
    code: ErrorCode, batch: ProducerBatch, sequences: Sequences | None, *, is_first: bool
) -> Verdict:
    """Decide on a batch by its answer.

    `sequences` are None where batches are not numbered; `is_first` says that no batch sent before
    this one is still to be acknowledged.
    """
    if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Verdict.WRITTEN
    if code in _TOO_LARGE and batch.count > 1:
        return Verdict.SPLIT
    if sequences is not None and code in _OUT_OF_SEQUENCE:
        missing = is_first and sequences.gap is not Gap.NONE
        forgotten = code is ErrorCode.UNKNOWN_PRODUCER_ID
        lost = forgotten or missing or sequences.is_next(batch)
        return Verdict.RENUMBER if lost else Verdict.RETRY
    return Verdict.RETRY if code.retriable else Verdict.FAIL
