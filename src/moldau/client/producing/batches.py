"""One batch on its way: filled by `send`, sealed once, perhaps sent several times, or split.

It is a `BatchBuilder` (so that adding a record is one call), and knows besides when it was begun,
how often it was sent and what is reserved for it. Sealed, it keeps only the bytes that go out: a
batch that gets another number has its header written anew, one that is split is read back.
Pure.
"""

from __future__ import annotations

from moldau.client.errors import ClientError
from moldau.client.producing.batch_results import BatchResult, Moved
from moldau.records.batch import HEADER_SIZE, TRANSACTIONAL_BIT, pack_batch, parse_header
from moldau.records.builder import NO_SEQUENCE, BatchBuilder
from moldau.records.compression import Codec
from moldau.records.record import read_records


class ProducerBatch(BatchBuilder):
    """A batch for one partition."""

    __slots__ = (
        "_sealed",
        "attempts",
        "batch_result",
        "deadline",
        "expired",
        "failure",
        "identity",
        "not_before",
        "opened_at",
        "reserved",
    )

    def __init__(
        self,
        batch_result: BatchResult,
        codec: Codec,
        level: int | None,
        *,
        transactional: bool,
        opened_at: float,
        deadline: float,
        reserved: int,
    ) -> None:
        super().__init__(codec, level, transactional=transactional)
        self.batch_result = batch_result
        self.opened_at = opened_at
        self.deadline = deadline
        """When its records are given up if they were not acknowledged."""
        self.reserved = reserved
        """Bytes of the producer's buffer that are taken for it."""
        self.attempts = 0
        """How often it was sent."""
        self.not_before = 0.0
        """When it may be sent again after a failure."""
        self.expired = False
        """Its deadline passed while it was on its way; the answer no longer counts for anyone."""
        self.failure: ClientError | None = None
        """Why it was not written the last time it was sent."""
        self.identity: tuple[int, int] | None = None
        """The producer id and epoch it is numbered under, if it is."""
        self._sealed: bytes | None = None

    @property
    def sequence(self) -> int:
        """The number of its first record; -1 until it has one."""
        return self._base_sequence

    @property
    def numbered(self) -> bool:
        return self._base_sequence != NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """The number after that of its last record; they go on at 0 after 2^31 - 1."""
        return (self._base_sequence + self.count) & 0x7FFFFFFF

    def number(self, producer_id: int, producer_epoch: int, sequence: int) -> None:
        """Give it its place in the order that the broker checks; a new one if it had one."""
        self.identity = (producer_id, producer_epoch)
        self.set_producer(producer_id, producer_epoch, sequence)
        if self._sealed is not None:
            header = parse_header(self._sealed)._replace(
                producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence
            )
            self._sealed = pack_batch(header, memoryview(self._sealed)[HEADER_SIZE:])

    def sealed(self) -> bytes:
        """Return the bytes that go out; from now on nothing can be added."""
        if self._sealed is None:
            self._sealed = self.build()
            self._parts.clear()
        return self._sealed

    def drop(self) -> None:
        """Let go of the records: it is settled, and nobody will ask for its bytes again."""
        self._parts.clear()
        self._sealed = b""

    def halves(self) -> list[ProducerBatch]:
        """Split it in two by size, for a broker that refuses it as too large."""
        half = HEADER_SIZE + (self.size - HEADER_SIZE) // 2
        halves = [self._empty()]
        for record in read_records(self.sealed()):
            fields = (record.timestamp, record.key, record.value, record.headers)
            if not halves[-1].append(*fields, limit=half):
                # The second half takes all the rest, so that there are two of them.
                half = self.size
                halves.append(self._empty())
                halves[-1].append(*fields)
        sequence = self.sequence
        for part in halves:
            part.reserved = self.reserved * part.count // self.count
            if self.numbered:
                part.number(self._producer_id, self._producer_epoch, sequence)
                sequence = part.next_sequence
        self.batch_result.move(*(Moved(part.count, part.batch_result, 0) for part in halves))
        return halves

    def _empty(self) -> ProducerBatch:
        empty = ProducerBatch(
            BatchResult(
                self.batch_result.topic, self.batch_result.partition, self.batch_result.guard
            ),
            self._codec,
            self._level,
            transactional=self._attributes & TRANSACTIONAL_BIT != 0,
            opened_at=self.opened_at,
            deadline=self.deadline,
            reserved=0,
        )
        empty.attempts = self.attempts
        return empty
