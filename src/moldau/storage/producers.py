"""What a log remembers of its producers: idempotence and open transactions.

A producer with an id numbers its records per partition. Of every producer the log keeps the epoch
and the last five batches, so that

- a batch sent twice is answered with the offset of the first time, not appended again (five is
  the most a client keeps in flight; KIP-98, KIP-185);
- a batch that leaves a gap is refused with OUT_OF_ORDER_SEQUENCE_NUMBER, which makes the client
  send the missing ones first;
- a producer with an older epoch is fenced with INVALID_PRODUCER_EPOCH.

A producer the log does not know may begin at any sequence: its state may have expired, or its
records may have been deleted (KIP-360; UNKNOWN_PRODUCER_ID is no longer an answer). Only if an
earlier batch of it was turned away for a moment, that one must come first. A new epoch of a known
producer begins at 0. Sequences wrap from 2^31 - 1 to 0.

A transactional batch opens a transaction at its first offset; a marker closes it. Nothing from
the first open transaction on is stable, nor from one whose marker the high watermark has not
passed yet; an aborted transaction is reported to the caller, who keeps it in `.txnindex`.

The use is check, append, apply, with nothing in between: `check` changes nothing, `apply` cannot
fail. Followers and recovery call `replay`, which trusts what a leader once accepted; a replay of
the log from its newest snapshot yields the same state as living through it did. All of it is
pure: no files (see `producer_snapshot`), no clock.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from moldau.base.files import Buffer
from moldau.base.ids import NO_OFFSET, Offset
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader
from moldau.records.control import EndTransactionMarker, end_transaction_marker

BATCHES_REMEMBERED = 5
"""As many as a client may have in flight with idempotence on."""

EXPECTED_MAX = 1000
"""Producers whose first batch is awaited again; a coordinator that loads turns away as many as
write to a partition for the first time in that moment. Beyond, the oldest note is dropped."""

SEQUENCE_MAX = 2**31 - 1
NO_SEQUENCE = -1
NO_PRODUCER_EPOCH = -1


class Origin(Enum):
    """Who appends, which decides how much is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Offset commits in transactions carry no sequences; only their epoch is checked."""


class RememberedBatch(NamedTuple):
    """One of a producer's last batches."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        if self.last_sequence < 0:
            return NO_SEQUENCE
        return (self.last_sequence - self.offset_delta) & SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that a marker has just closed."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Where the marker stands."""
    last_stable_offset: int
    """The first offset not yet decided once this transaction is."""
    aborted: bool


@dataclass(slots=True)
class Producer:
    """One producer, as this log knows it."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """Of the transaction coordinator that sent the last marker, -1 when none did."""
    last_timestamp: int
    transaction_first_offset: int
    """-1 when no transaction is open."""
    batches: deque[RememberedBatch]
    """At most five, oldest first, all of the current epoch."""
    marker_count: int = field(default=0, compare=False)
    """Its markers since the log was opened, or it was forgotten."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """Every producer of one log."""

    __slots__ = (
        "_expected",
        "_ongoing",
        "_producers",
        "_unreplicated",
        "_unreplicated_firsts",
        "first_unstable_offset",
    )

    def __init__(self, producers: Iterable[Producer] = ()) -> None:
        self._producers: dict[int, Producer] = {}
        self._ongoing: OrderedDict[int, int] = OrderedDict()
        """Open transactions, first offset -> producer id, ascending as offsets are given out."""
        self._unreplicated: OrderedDict[int, int] = OrderedDict()
        """Closed ones the high watermark has not passed, first offset -> marker's offset, which
        ascends: the first to close is the first to go."""
        self._unreplicated_firsts: list[int] = []
        """A heap of their first offsets, among others that have gone."""
        self.first_unstable_offset: Offset | None = None
        """Where what a `read_committed` consumer must not see begins; None when all is stable."""
        self._expected: dict[int, tuple[int, int]] = {}
        """Producers not known yet whose first batch was turned away: its epoch and sequence."""
        self.load(producers)

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        """Look one producer up."""
        return self._producers.get(producer_id)

    def marker_count(self, producer_id: int) -> int:
        """Return how many markers of a producer were taken since the log was opened.

        Whoever asked elsewhere about a transaction sees from it whether one ended meanwhile.
        """
        producer = self._producers.get(producer_id)
        return 0 if producer is None else producer.marker_count

    def expect(self, header: BatchHeader) -> None:
        """Note that a batch was turned away for the moment, and will be sent again.

        A producer has several in flight. Without the note, the next one would find a producer that
        nobody knows, begin with its own sequence, and shut the first one out (KIP-890).
        """
        producer_id = header.producer_id
        note = (header.producer_epoch, header.base_sequence)
        noted = self._expected.get(producer_id)
        if producer_id in self._producers or (noted is not None and noted[0] > note[0]):
            return
        if noted is not None and noted[0] == note[0]:
            note = min(noted, note)
        elif len(self._expected) >= EXPECTED_MAX:
            del self._expected[next(iter(self._expected))]
        self._expected[producer_id] = note

    def check(self, header: BatchHeader, origin: Origin = Origin.CLIENT) -> RememberedBatch | None:
        """Say whether a batch may be appended, without changing anything.

        None: append it. A remembered batch: it is there already, answer with its offsets.
        ApiError: refuse it.
        """
        if header.producer_id < 0:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if self._expected:
                self._check_expected(header)
            return None
        if not _continues(producer, header):
            if origin is Origin.CLIENT:
                duplicate = _duplicate(producer, header)
                if duplicate is not None:
                    return duplicate
            _check_epoch(producer, header.producer_epoch)
            if origin is Origin.CLIENT:
                _check_sequence(producer, header)
        if producer.transaction_first_offset >= 0 and not header.transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open and sent a batch outside it",
            )
        return None

    def apply(self, header: BatchHeader, base_offset: int) -> None:
        """Remember a data batch that was appended at this offset."""
        if header.producer_id < 0:
            return
        producer = self._producer(header.producer_id)
        _enter_epoch(producer, header.producer_epoch)
        delta = header.last_offset_delta
        producer.batches.append(
            RememberedBatch(header.last_sequence, base_offset + delta, delta, header.max_timestamp)
        )
        producer.last_timestamp = header.max_timestamp
        if header.transactional and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = base_offset
            self._ongoing[base_offset] = producer.producer_id
            if self.first_unstable_offset is None:
                self.first_unstable_offset = Offset(base_offset)

    def check_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int
    ) -> None:
        """Say whether a marker may be appended; ApiError refuses it.

        Since transaction version 2 the coordinator raises the epoch before every marker (KIP-890),
        so an equal epoch with a transaction still open belongs to an earlier transaction; with
        none open it is the retry of a marker already written, which is harmless.
        """
        producer = self._producers.get(header.producer_id)
        if producer is None:
            return
        _check_epoch(producer, header.producer_epoch)
        late = transaction_version >= 2 and header.producer_epoch == producer.epoch
        if late and producer.transaction_first_offset >= 0:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id}: a marker of epoch {producer.epoch} is late",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {header.producer_id}: marker of coordinator epoch "
                f"{marker.coordinator_epoch} after one of {producer.coordinator_epoch}",
            )

    def apply_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, offset: int
    ) -> CompletedTransaction | None:
        """Remember a marker that was appended at this offset; None if it closed nothing.

        What it closes is not stable before the high watermark has passed the marker.
        """
        producer = self._producer(header.producer_id)
        producer.marker_count += 1
        _enter_epoch(producer, header.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        producer.transaction_first_offset = NO_OFFSET
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        heappush(self._unreplicated_firsts, first_offset)
        last_stable_offset = next(iter(self._ongoing), offset + 1)
        return CompletedTransaction(
            producer.producer_id, first_offset, offset, last_stable_offset, marker.aborted
        )

    def replay(self, header: BatchHeader, batch: Buffer) -> CompletedTransaction | None:
        """Take a batch that is in the log already, as followers and recovery do.

        Nothing is refused: a leader accepted it once. A control batch without a record is what
        compaction leaves of a transaction that is gone, and means nothing.
        """
        if header.producer_id < 0:
            return None
        if not header.control:
            self.apply(header, header.base_offset)
            return None
        marker = end_transaction_marker(batch) if header.count else None
        return None if marker is None else self.apply_marker(header, marker, header.base_offset)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Let closed transactions become stable whose markers are now replicated."""
        if self._unreplicated:
            self._forget_unreplicated(high_watermark)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Let closed transactions go whose markers are no longer in the log.

        Producers stay: what they last sent is worth knowing longer than the records are kept.
        """
        if self._unreplicated:
            self._forget_unreplicated(log_start_offset)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers idle for `producer.id.expiration.ms`; returns how many.

        A producer with an open transaction stays: forgetting it would leave the log unstable
        forever.
        """
        expired = [
            producer.producer_id
            for producer in self._producers.values()
            if producer.transaction_first_offset < 0
            and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def clear(self) -> None:
        """Forget everything: the log was cut, and a snapshot and a replay follow."""
        self._producers.clear()
        self._expected.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._unreplicated_firsts.clear()
        self._stability_changed()

    def load(self, producers: Iterable[Producer]) -> None:
        """Take over the producers of a snapshot, in place of everything known."""
        self.clear()
        for producer in producers:
            self._producers[producer.producer_id] = producer
        opened = [p for p in self._producers.values() if p.transaction_first_offset >= 0]
        for producer in sorted(opened, key=lambda p: p.transaction_first_offset):
            self._ongoing[producer.transaction_first_offset] = producer.producer_id
        self._stability_changed()

    def _producer(self, producer_id: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            batches: deque[RememberedBatch] = deque(maxlen=BATCHES_REMEMBERED)
            producer = Producer(producer_id, NO_PRODUCER_EPOCH, -1, -1, NO_OFFSET, batches)
            self._producers[producer_id] = producer
            self._expected.pop(producer_id, None)
        return producer

    def _check_expected(self, header: BatchHeader) -> None:
        producer_epoch, sequence = self._expected.get(header.producer_id, (NO_PRODUCER_EPOCH, 0))
        if header.producer_epoch == producer_epoch and header.base_sequence > sequence:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} at epoch {producer_epoch}: sequence "
                f"{header.base_sequence} where {sequence} was turned away and is still to come",
            )

    def _forget_unreplicated(self, offset: int) -> None:
        """Let those go whose marker lies below an offset."""
        unreplicated = self._unreplicated
        while unreplicated and next(iter(unreplicated.values())) < offset:
            unreplicated.popitem(last=False)
        self._stability_changed()

    def _stability_changed(self) -> None:
        """Find the first unstable offset anew, looking at the first of each kind alone.

        There may be many of both: one of each producer, and after a recovery all that were closed.
        """
        firsts = self._unreplicated_firsts
        while firsts and firsts[0] not in self._unreplicated:
            heappop(firsts)
        unstable = [*firsts[:1], *islice(self._ongoing, 1)]
        self.first_unstable_offset = Offset(min(unstable)) if unstable else None


def _continues(producer: Producer, header: BatchHeader) -> bool:
    """Tell whether a batch goes on right behind the last one, as nearly every batch does."""
    batches = producer.batches
    return (
        header.producer_epoch == producer.epoch
        and len(batches) > 0
        and header.base_sequence == (batches[-1].last_sequence + 1) & SEQUENCE_MAX
    )


def _duplicate(producer: Producer, header: BatchHeader) -> RememberedBatch | None:
    """Find the batch of the same epoch with exactly these sequences."""
    if header.producer_epoch != producer.epoch:
        return None
    last_sequence = header.last_sequence
    for batch in producer.batches:
        if batch.last_sequence == last_sequence and batch.offset_delta == header.last_offset_delta:
            return batch
    return None


def _check_epoch(producer: Producer, producer_epoch: int) -> None:
    if producer_epoch < producer.epoch:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"epoch {producer_epoch} of producer {producer.producer_id}, after {producer.epoch}",
        )


def _check_sequence(producer: Producer, header: BatchHeader) -> None:
    same_epoch = header.producer_epoch == producer.epoch
    last_sequence = producer.last_sequence if same_epoch else NO_SEQUENCE
    expected = (last_sequence + 1) & SEQUENCE_MAX
    if header.base_sequence != expected:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {producer.producer_id} at epoch {header.producer_epoch}: "
            f"sequence {header.base_sequence} where {expected} is next",
        )


def _enter_epoch(producer: Producer, producer_epoch: int) -> None:
    if producer.epoch != producer_epoch:
        producer.epoch = producer_epoch
        producer.batches.clear()
