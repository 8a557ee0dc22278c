"""Transaction markers: written to the partitions this broker leads, for whoever decided.

Three ask for it: the transaction coordinator of this broker, by an effect; one of another broker,
by WriteTxnMarkers; an operator who ends a transaction that hangs, by the same request (KIP-664).
A marker in the offsets topic also decides over the offsets that were committed in the transaction,
so that the group coordinator is told of it.

`MarkerSender` is where markers for partitions of other brokers will leave from. With one broker,
every partition that exists is led here or by nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from heapq import nsmallest
from typing import Final, NamedTuple, Protocol

from moldau.base.clock import Clock
from moldau.base.errors import InvariantViolated, StorageError
from moldau.base.ids import PartitionKey
from moldau.cluster.image import MetadataImage
from moldau.coordination.outcome import Now, Outcome, ProducerIdentity
from moldau.coordination.transactions.effects import (
    MarkerResult,
    MarkersLate,
    TimedOut,
    WriteMarkers,
)
from moldau.coordination.transactions.shard import TransactionShard
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader, parse_header
from moldau.records.control import EndTransactionMarker, end_transaction_batch
from moldau.replication.partition import Partition
from moldau.replication.partitions import Partitions
from moldau.replication.pending_commits import PendingCommits
from moldau.server.lifecycle.internal_topics import OFFSETS_TOPIC
from moldau.server.network.repeats import sort
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns
from moldau.storage.flushing import Flusher

logger = logging.getLogger(__name__)

FENCING: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""What a partition says that has ended the transaction already, and seen a newer epoch since."""

COMMIT_TIMEOUT_S: Final = 30.0
"""How long a marker waits for followers, then it is written again: Kafka's `request.timeout.ms`."""

MARKERS_PER_TURN: Final = 10
"""Markers that are appended before others get their turn: half a millisecond, and up to five where
each is the first batch of its partition, whose index files are made with it."""

KEYS_PER_TURN: Final = 500
"""Partitions that are looked up, or whose results are translated, in one turn: half a millisecond.
Nearly all transactions have fewer, and so wait for no other turn."""

PARTITIONS_NAMED: Final = 5
"""Partitions that a line of the log names: a transaction may have thousands."""


class Marker(NamedTuple):
    """The end of one transaction, the same for every partition."""

    producer: ProducerIdentity
    committed: bool
    coordinator_epoch: int
    transaction_version: int


class OffsetsEnded(Protocol):
    """Tells the group coordinator of a marker that stands in a partition of the offsets topic."""

    def __call__(self, index: int, producer: ProducerIdentity, *, committed: bool) -> None: ...


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

    async def write(
        self, marker: Marker, keys: Iterable[PartitionKey]
    ) -> dict[PartitionKey, ErrorCode]:
        """Write one marker to all these partitions; say of each what became of it.

        Some are appended in each turn of the loop: a transaction may have thousands of partitions.
        Then those of topics with `flush.messages` are waited for, and followers that have not got
        theirs yet. Until then nobody may say that the transaction has ended.
        """
        batch = end_transaction_batch(
            EndTransactionMarker(not marker.committed, marker.coordinator_epoch),
            *marker.producer,
            self._clock.wall_ms(),
        )
        header = parse_header(batch)
        results: dict[PartitionKey, ErrorCode] = {}
        unflushed: list[Partition] = []
        commits = PendingCommits()
        for count, key in enumerate(keys, 1):
            if not count % MARKERS_PER_TURN:
                await asyncio.sleep(0)
            try:
                partition, end_offset = self._append(key, marker, batch, header)
            except ApiError as error:
                results[key] = error.code
            except StorageError as error:
                results[key] = self._failed(error)
            else:
                results[key] = ErrorCode.NONE
                if end_offset > partition.high_watermark:
                    failed = partial(results.__setitem__, key)
                    commits.add(partition, end_offset, COMMIT_TIMEOUT_S, failed)
                if partition.flush_is_due:
                    unflushed.append(partition)
        await self._flush(unflushed, results)
        if commits:
            await commits.answer(results)
        return results

    async def _flush(
        self, partitions: Iterable[Partition], results: dict[PartitionKey, ErrorCode]
    ) -> None:
        for partition in partitions:
            try:
                await partition.flush(self._flusher)
            except StorageError as error:
                results[partition.key] = self._failed(error)

    def _failed(self, error: StorageError) -> ErrorCode:
        self._storage_failed(error)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _append(
        self, key: PartitionKey, marker: Marker, batch: bytes, header: BatchHeader
    ) -> tuple[Partition, int]:
        """Append a marker; return the partition, and where it ends now."""
        partition = self._partitions.get(*key)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        appended = partition.append_marker(batch, header, marker.transaction_version)
        if key.topic == OFFSETS_TOPIC:
            self._offsets_ended(key.partition, marker.producer, committed=marker.committed)
        return partition, appended.last_offset + 1


class TellShard(Protocol):
    """Lets the shard of a transactional id decide on an event; `Runtime.tell`."""

    def __call__(
        self, key: str, handler: Callable[[TransactionShard, Now], Outcome], /
    ) -> None: ...


class MarkerSender:
    """Carries out what transaction shards ask for: the `perform` of their runtime."""

    def __init__(
        self,
        writer: MarkerWriter,
        image: Callable[[], MetadataImage],
        tell: TellShard,
    ) -> None:
        self._writer = writer
        self._image = image
        self._tell = tell
        self._sending: set[asyncio.Task[None]] = set()

    def __call__(self, effect: object) -> None:
        """Carry an effect out, in a later turn of the loop."""
        if isinstance(effect, WriteMarkers):
            task = asyncio.get_running_loop().create_task(self._send(effect), name="write markers")
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
        elif isinstance(effect, TimedOut):
            logger.info(
                "the transaction of %r (producer %d, epoch %d) is aborted: "
                "it was open for more than its %d ms",
                effect.transactional_id, *effect.producer, effect.timeout_ms,
            )  # fmt: skip
        elif isinstance(effect, MarkersLate):
            logger.warning(
                "the transaction of %r is decided, but does not come to its end: "
                "%d partition(s) take no marker now %s",
                effect.transactional_id, len(effect.partitions),
                [str(key) for key in nsmallest(PARTITIONS_NAMED, effect.partitions)],
            )  # fmt: skip
        else:
            raise InvariantViolated(f"not an effect of a transaction shard: {effect!r}")

    async def close(self) -> None:
        """Wait for what is being written, for an orderly stop."""
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _send(self, effect: WriteMarkers) -> None:
        """Write the markers and report, whatever became of them."""
        results = dict.fromkeys(effect.partitions, MarkerResult.UNAVAILABLE)
        marker = Marker(
            effect.producer,
            effect.committed,
            effect.coordinator_epoch,
            effect.transaction_version,
        )
        try:
            here = await take_turns(_existing(self._image(), results))
            codes = await self._writer.write(marker, here)
            await take_turns(self._translate(effect, codes, results))
        except Exception:
            # A report there must be: without one the id would be held until a restart.
            logger.exception("markers of %r could not be written", effect.transactional_id)
        self._tell(
            effect.transactional_id,
            lambda shard, now: shard.markers_written(effect, results, now),
        )

    def _translate(
        self,
        effect: WriteMarkers,
        codes: Mapping[PartitionKey, ErrorCode],
        results: dict[PartitionKey, MarkerResult],
    ) -> Sliced[None]:
        """Say in the words of the coordinator what became of the markers."""
        for count, (key, code) in enumerate(codes.items(), 1):
            results[key] = self._result(effect, key, code)
            if not count % KEYS_PER_TURN:
                yield

    def _result(self, effect: WriteMarkers, key: PartitionKey, code: ErrorCode) -> MarkerResult:
        if code is ErrorCode.NONE:
            return MarkerResult.WRITTEN
        if code in FENCING:
            logger.warning(
                "%s refuses the marker of %r (producer %d, epoch %d): %s",
                key, effect.transactional_id, *effect.producer, code.name,
            )  # fmt: skip
            return MarkerResult.FENCED
        return MarkerResult.UNAVAILABLE


def _existing(
    image: MetadataImage, results: dict[PartitionKey, MarkerResult]
) -> Sliced[Iterable[PartitionKey]]:
    """Note which partitions are gone; return the others in order."""
    there: list[PartitionKey] = []
    for count, key in enumerate(results, 1):
        if image.partition(key) is None:
            results[key] = MarkerResult.DELETED
        else:
            there.append(key)
        if not count % KEYS_PER_TURN:
            yield
    if len(there) <= KEYS_PER_TURN:
        return sorted(there)
    return (yield from sort(there))
