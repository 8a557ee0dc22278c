"""Batches of values that name their producer and partition and carry a number, each value once.

Values are `producer/partition/number/padding`. So a value that is found anywhere tells where it
belongs, and a reader sees whether values are missing, doubled or out of order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.records.builder import BatchBuilder
from moldau.records.compression import Codec
from moldau.sim.world import World

RECORDS_MAX = 4
PADDING_MAX = 160
OUT_OF_ORDER = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""How a broker refuses a batch of an idempotent producer for its sequence number."""


class SentBatch(NamedTuple):
    """One batch, as it is sent and sent again."""

    values: list[bytes]
    data: bytes


@dataclass(kw_only=True)
class ProducerState:
    """How far a producer has written to one partition."""

    producer_id: int = -1
    next_sequence: int = 0
    written: int = 0
    """Records made so far; their numbers go on when the producer id changes."""
    begun: bool = False
    """A batch of this producer id has been acknowledged."""


class NumberedBatches:
    """Makes the batches of one producer."""

    def __init__(
        self, world: World, producer: str, codec: Codec, in_flight: int, *, idempotent: bool
    ) -> None:
        self._clock = world.clock
        self._chance = world.random(producer)
        self._producer = producer
        self._codec = codec
        self._in_flight = in_flight
        self._idempotent = idempotent

    def make_burst(self, partition: str, state: ProducerState) -> list[SentBatch]:
        """Make some batches that are to be in flight together.

        A log takes any sequence from a producer it does not know, so an idempotent producer's
        first batch goes alone.
        """
        room = self._in_flight if state.begun or not self._idempotent else 1
        count = self._chance.randrange(1, room + 1)
        return [self._make(partition, state) for _ in range(count)]

    def _make(self, partition: str, state: ProducerState) -> SentBatch:
        builder = BatchBuilder(
            self._codec,
            producer_id=state.producer_id if self._idempotent else -1,
            producer_epoch=0 if self._idempotent else -1,
            base_sequence=state.next_sequence if self._idempotent else -1,
        )
        values = []
        for _ in range(self._chance.randrange(1, RECORDS_MAX + 1)):
            padding = "." * self._chance.randrange(PADDING_MAX)
            values.append(f"{self._producer}/{partition}/{state.written:06d}/{padding}".encode())
            builder.append(self._clock.wall_ms(), None, values[-1])
            state.written += 1
        state.next_sequence += len(values)
        return SentBatch(values, builder.build())
