"""What a transaction shard wants done outside of itself, and what it hears of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import ProducerIdentity


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Write the marker of a decided transaction to partitions, wherever they are led.

    What became of it is told to `TransactionShard.markers_written`, together with this very
    object, in one call or in several, but of every partition: the id is held until then.
    """

    transactional_id: str
    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    transaction_version: int
    partitions: frozenset[PartitionKey]


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Say in the log that a transaction was aborted because it took too long."""

    transactional_id: str
    producer: ProducerIdentity
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class MarkersLate:
    """Say in the log that a decided transaction still holds its id; once for each."""

    transactional_id: str
    partitions: frozenset[PartitionKey]
    """Those that have not taken the marker. None if it is the last record that is refused."""


class MarkerResult(Enum):
    """What became of a marker in one partition."""

    WRITTEN = "written"
    DELETED = "the partition is gone, and with it what the marker would end"
    FENCED = "the partition has seen a newer epoch, and ended the transaction with it"
    UNAVAILABLE = "not written now; it may be later"
