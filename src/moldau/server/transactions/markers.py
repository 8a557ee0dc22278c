"""Transaction markers: written to the partitions this broker leads, for whoever decided.

Three ask for it: the transaction coordinator of this broker, by an effect; one of another broker,
by WriteTxnMarkers; an operator who ends a transaction that hangs, by the same request (KIP-664).
A marker in the offsets topic also decides over the offsets that were committed in the transaction,
so that the group coordinator is told of it.

`marker_sending` finds out who leads a partition, and has the marker written here or elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from moldau.base.clock import Clock
from moldau.base.errors import StorageError
from moldau.base.ids import PartitionKey
from moldau.coordination.outcome import ProducerIdentity
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader, parse_header
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions
from moldau.replication.pending_commits import PendingCommits
from moldau.server.lifecycle.internal_topics import OFFSETS_TOPIC
from moldau.storage.flushing import Flusher

COMMIT_TIMEOUT_S: Final = 30.0
"""How long a marker waits for followers, then it is written again: Kafka's `request.timeout.ms`."""

MARKERS_PER_TURN: Final = 10
"""Markers that are appended before others get their turn: half a millisecond, and up to five where
each is the first batch of its partition, whose index files are made with it."""


class Marker(NamedTuple):
    """The end of one transaction, the same for every partition."""

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    transaction_version: int


Written: TypeAlias = dict[PartitionKey, ErrorCode]
"""What became of one marker in each of its partitions."""


class OffsetsEnded(Protocol):
    """Tells the group coordinator of a marker that stands in a partition of the offsets topic."""

    def __call__(self, index: int, producer: ProducerIdentity, *, committed: bool) -> None: ...


class _Turns:
    """Gives others their turn after so many markers."""

    def __init__(self) -> None:
        self._count = 0

    async def take(self) -> None:
        """Call it before each marker, and before each of its partitions."""
        self._count += 1
        if not self._count % MARKERS_PER_TURN:
            await asyncio.sleep(0)


class MarkerWriter:
    """Appends markers to partitions of this broker."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        flusher: Flusher,
        offsets_ended: OffsetsEnded,
        storage_failed: Callable[[StorageError], None],
    ) -> None:
        self._partitions = partitions
        self._clock = clock
        self._flusher = flusher
        self._offsets_ended = offsets_ended
        self._storage_failed = storage_failed

    async def write(self, marker: Marker, keys: Iterable[PartitionKey]) -> Written:
        """Write one marker to all these partitions; say of each what became of it."""
        (written,) = await self.write_all([(marker, keys)])
        return written

    async def write_all(
        self, markers: Iterable[tuple[Marker, Iterable[PartitionKey]]]
    ) -> list[Written]:
        """Write each marker to its partitions; say of each what became of it, in their order.

        Some are appended in each turn of the loop: a transaction may have thousands of partitions.
        Then those of topics with `flush.messages` are waited for, and followers that have not got
        theirs yet, all together. Until then nobody may say that a transaction has ended.
        """
        all_written: list[Written] = []
        unflushed: list[tuple[Partition, Written]] = []
        commits, turns = PendingCommits(), _Turns()
        for marker, keys in markers:
            await turns.take()
            append = self._appender(marker)
            written: Written = {}
            all_written.append(written)
            for key in keys:
                await turns.take()
                try:
                    partition, end_offset = append(key)
                except ApiError as error:
                    written[key] = error.code
                except StorageError as error:
                    written[key] = self._failed(error)
                else:
                    written[key] = ErrorCode.NONE
                    if end_offset > partition.high_watermark:
                        failed = partial(written.__setitem__, key)
                        commits.add(partition, end_offset, COMMIT_TIMEOUT_S, failed)
                    if partition.flush_is_due:
                        unflushed.append((partition, written))
        await self._flush(unflushed)
        if commits:
            await commits.answer(None)
        return all_written

    async def _flush(self, unflushed: Iterable[tuple[Partition, Written]]) -> None:
        for partition, written in unflushed:
            try:
                await partition.flush(self._flusher)
            except StorageError as error:
                written[partition.key] = self._failed(error)

    def _failed(self, error: StorageError) -> ErrorCode:
        self._storage_failed(error)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _appender(self, marker: Marker) -> Callable[[PartitionKey], tuple[Partition, int]]:
        """Make the batch of a marker, once for all its partitions."""
        batch = end_transaction_batch(
            EndTransactionMarker(not marker.committed, marker.coordinator_epoch),
            *marker.producer,
            self._clock.wall_ms(),
        )
        return partial(self._append, marker, batch, parse_header(batch))

    def _append(
        self, marker: Marker, batch: bytes, header: BatchHeader, key: PartitionKey
    ) -> tuple[Partition, int]:
        """Append a marker; return the partition, and where it ends now."""
        _check_producer(marker.producer)
        partition = self._partitions.get(*key)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        appended = partition.append_marker(batch, header, marker.transaction_version)
        if key.topic == OFFSETS_TOPIC:
            self._offsets_ended(key.partition, marker.producer, committed=marker.committed)
        return partition, appended.last_offset + 1


def _check_producer(producer: ProducerIdentity) -> None:
    """Refuse what is nobody's transaction. Kafka fails on both."""
    if producer.producer_id < 0:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if producer.producer_epoch < 0:
        raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
