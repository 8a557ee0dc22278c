"""The producer state of one log: sequence numbers and open transactions.

A producer with an id numbers its records per partition. The log keeps the epoch and the last five
batches of every producer, so that

- a batch sent twice is not appended again: the answer has the offsets of the first time (five is
  the most that a client keeps in flight; KIP-98, KIP-185);
- a batch after a gap is refused with OUT_OF_ORDER_SEQUENCE_NUMBER, and the client sends the
  missing batches first;
- a producer with an older epoch is fenced with INVALID_PRODUCER_EPOCH.

An unknown producer may start at any sequence: its state may have expired, or its records may have
been deleted (KIP-360; UNKNOWN_PRODUCER_ID is no longer returned). One exception: if its first batch
was refused temporarily, that batch must come first (`expect`). A new epoch of a known producer
starts at sequence 0. Sequences wrap from 2^31 - 1 to 0.

A transactional batch opens a transaction at its first offset; a marker closes it. The transaction
is stable once the high watermark has passed the marker. The first offset of the oldest transaction
that is not stable is the first unstable offset. `apply_marker` returns an aborted transaction, and
the caller writes it to `.txnindex`.

A leader calls `check`, appends, and calls `apply`, without an `await` in between: `check` changes
nothing and `apply` refuses nothing. Followers and recovery call `replay`, which checks nothing,
because a leader has accepted the batch. A replay from a snapshot gives the same state as the
appends did, except for batches that a snapshot does not keep. No files (see `producer_snapshot`)
and no clock here.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from heapq import heappop, heappush
from itertools import islice
from typing import NamedTuple

from moldau.base.checks import invariant
from moldau.base.files import Buffer
from moldau.base.ids import NO_OFFSET, Offset
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader
from moldau.records.control import EndTransactionMarker, end_transaction_marker

BATCHES_REMEMBERED = 5
"""As many as an idempotent client may have in flight."""

EXPECTED_MAX = 1000
"""How many unknown producers with a refused first batch are remembered; the oldest is dropped. A
transaction coordinator that is loading refuses the first batches of all its producers at once."""

SEQUENCE_MAX = 2**31 - 1
NO_SEQUENCE = -1
NO_PRODUCER_EPOCH = -1


class Origin(Enum):
    """Who appends; it decides what `check` looks at."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Transactional offset commits have no sequences; only their epoch is checked."""


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
    """The offset of the marker."""
    last_stable_offset: int
    """The first offset of the oldest transaction still open, else the offset after the marker."""
    aborted: bool


@dataclass(slots=True)
class Producer:
    """The state of one producer in this log."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    """Of the transaction coordinator that sent the last marker; -1 without a marker."""
    last_timestamp: int
    transaction_first_offset: int
    """-1 if no transaction is open."""
    batches: deque[RememberedBatch]
    """At most five, oldest first, all of the current epoch."""
    marker_count: int = field(default=0, compare=False)
    """Markers since the log was opened or the producer expired."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """All producers of one log."""

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
        """Open transactions: first offset -> producer id. Keys ascend, so the oldest is first."""
        self._unreplicated: OrderedDict[int, int] = OrderedDict()
        """Closed transactions whose marker is at or above the high watermark: first offset ->
        marker offset. Values ascend, so the high watermark passes the first one first."""
        self._unreplicated_firsts: list[int] = []
        """A heap of their first offsets; offsets of stable transactions are dropped lazily."""
        self.first_unstable_offset: Offset | None = None
        """A `read_committed` consumer reads only below it; None if all transactions are stable."""
        self._expected: dict[int, tuple[int, int]] = {}
        """Epoch and sequence of the refused first batch of a producer that is still unknown."""
        self.load(producers)

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        """Return the state of a producer; None if it is unknown."""
        return self._producers.get(producer_id)

    def marker_count(self, producer_id: int) -> int:
        """Return how many markers of a producer were applied since the log was opened.

        A caller compares it before and after it asks the coordinator, to see whether a
        transaction ended meanwhile.
        """
        producer = self._producers.get(producer_id)
        return 0 if producer is None else producer.marker_count

    def expect(self, header: BatchHeader) -> None:
        """Remember a batch that was refused temporarily and will be sent again.

        A producer has several batches in flight. Without this note, the second one would be taken
        for the first of an unknown producer, and the first one could never follow (KIP-890).
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
        """Check whether a batch may be appended; changes nothing.

        Returns None to append it, or the earlier batch if this is a duplicate. Raises ApiError to
        refuse it.
        """
        if header.producer_id < 0:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            if self._expected:
                self._check_expected(header)
            return None
        if not _continues(producer, header):
            # Duplicates before epoch and sequence checks: a retry has an old sequence, and its
            # answer must be the first one's offsets, not an error.
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
        """Update the producer after a data batch was appended at this offset."""
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
            invariant(
                not self._ongoing or base_offset > next(reversed(self._ongoing)),
                f"producer {header.producer_id}: a transaction at {base_offset} is out of order",
            )
            producer.transaction_first_offset = base_offset
            self._ongoing[base_offset] = producer.producer_id
            if self.first_unstable_offset is None:
                self.first_unstable_offset = Offset(base_offset)

    def check_marker(
        self, header: BatchHeader, marker: EndTransactionMarker, transaction_version: int
    ) -> None:
        """Check whether a marker may be appended; ApiError refuses it.

        Since transaction version 2 the coordinator raises the epoch for every marker (KIP-890). So
        a marker of the current epoch belongs to an earlier transaction: it is refused if another
        transaction is open. If none is open it is a harmless retry.
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
        """Close a transaction after its marker was appended at this offset; None if none was open.

        The transaction becomes stable when the high watermark passes the marker.
        """
        producer = self._producer(header.producer_id)
        producer.marker_count += 1
        _enter_epoch(producer, header.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        first_offset = producer.transaction_first_offset
        if first_offset < 0:
            return None
        invariant(
            not self._unreplicated or offset > next(reversed(self._unreplicated.values())),
            f"producer {header.producer_id}: a marker at {offset} is out of order",
        )
        producer.transaction_first_offset = NO_OFFSET
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        heappush(self._unreplicated_firsts, first_offset)
        last_stable_offset = next(iter(self._ongoing), offset + 1)
        return CompletedTransaction(
            producer.producer_id, first_offset, offset, last_stable_offset, marker.aborted
        )

    def replay(self, header: BatchHeader, batch: Buffer) -> CompletedTransaction | None:
        """Apply a batch that is already in the log; for followers and recovery.

        Nothing is checked: a leader has accepted the batch. A control batch without a record is
        skipped: compaction has removed its transaction.
        """
        if header.producer_id < 0:
            return None
        if not header.control:
            self.apply(header, header.base_offset)
            return None
        marker = end_transaction_marker(batch) if header.count else None
        return None if marker is None else self.apply_marker(header, marker, header.base_offset)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Make the closed transactions stable whose markers are below the high watermark."""
        if self._unreplicated:
            self._drop_replicated(high_watermark)

    def log_start_moved(self, log_start_offset: int) -> None:
        """Drop the closed transactions whose markers are below the log start.

        Producers stay: their sequences must outlive their records (KIP-360).
        """
        if self._unreplicated:
            self._drop_replicated(log_start_offset)

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers idle for `producer.id.expiration.ms`; return how many.

        A producer with an open transaction stays: without it, no marker could close the
        transaction, and the first unstable offset would never move again.
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
        """Remove everything, before a snapshot is loaded and batches are replayed."""
        self._producers.clear()
        self._expected.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._unreplicated_firsts.clear()
        self._update_first_unstable()

    def load(self, producers: Iterable[Producer]) -> None:
        """Replace everything by the producers of a snapshot."""
        self.clear()
        for producer in producers:
            self._producers[producer.producer_id] = producer
        # `_ongoing` must ascend, and a snapshot is in no order.
        opened = [p for p in self._producers.values() if p.transaction_first_offset >= 0]
        for producer in sorted(opened, key=lambda p: p.transaction_first_offset):
            self._ongoing[producer.transaction_first_offset] = producer.producer_id
        self._update_first_unstable()

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

    def _drop_replicated(self, offset: int) -> None:
        """Drop the closed transactions whose marker is below an offset."""
        unreplicated = self._unreplicated
        while unreplicated and next(iter(unreplicated.values())) < offset:
            unreplicated.popitem(last=False)
        self._update_first_unstable()

    def _update_first_unstable(self) -> None:
        """Set the first unstable offset from the oldest open and the oldest unreplicated one.

        Only these two are looked at: there may be one per producer, and after a recovery every
        transaction that recovery has replayed.
        """
        firsts = self._unreplicated_firsts
        while firsts and firsts[0] not in self._unreplicated:
            heappop(firsts)
        unstable = [*firsts[:1], *islice(self._ongoing, 1)]
        self.first_unstable_offset = Offset(min(unstable)) if unstable else None


def _continues(producer: Producer, header: BatchHeader) -> bool:
    """Return whether a batch has the next sequence of the same epoch, as most batches do."""
    batches = producer.batches
    return (
        header.producer_epoch == producer.epoch
        and len(batches) > 0
        and header.base_sequence == (batches[-1].last_sequence + 1) & SEQUENCE_MAX
    )


def _duplicate(producer: Producer, header: BatchHeader) -> RememberedBatch | None:
    """Find the remembered batch of the same epoch with the same sequences."""
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
