"""The effects of a transaction shard: work for the rest of the broker, and its results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import ProducerIdentity


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Write the marker of a decided transaction to partitions, on whichever brokers lead them.

    Every partition must be reported to `TransactionShard.markers_written`, with this very object,
    in one call or in several. The id is held until then: a partition that is never reported blocks
    the id as long as this broker coordinates it.
    """

    transactional_id: str
    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    """The leader epoch of the coordinator's partition. Partitions refuse a marker of an older epoch
    than they have seen: it comes from a coordinator that was replaced."""
    transaction_version: int
    partitions: frozenset[PartitionKey]


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Log that a transaction was aborted because of its timeout."""

    transactional_id: str
    producer: ProducerIdentity
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class MarkersLate:
    """Log, once for each transaction, that a decided transaction still holds its id."""

    transactional_id: str
    partitions: frozenset[PartitionKey]
    """Partitions without the marker. Empty if all have it and only the Complete record fails."""


class MarkerResult(Enum):
    """The result of writing a marker to one partition."""

    WRITTEN = "written"
    DELETED = "the partition is deleted, and the transaction's records with it"
    FENCED = "the partition has seen a newer epoch, which has ended the transaction"
    UNAVAILABLE = "not written; try again later"
