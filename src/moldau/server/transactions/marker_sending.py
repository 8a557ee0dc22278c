"""The way of markers from the coordinator that has decided to the leaders of the partitions.

A shard asks for markers by an effect, and hears of each partition what became of it: written here,
or by the broker that leads it now. It asks again for those that could not be reached, and by then
another broker may lead. A partition without a leader is waited for; one that is deleted is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from typing import Final

from moldau.base.errors import InvariantViolated
from moldau.base.ids import BrokerId, PartitionKey
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import NO_LEADER
from moldau.coordination.runtime import Runtime
from moldau.coordination.transactions.effects import (
    MarkerResult,
    MarkersLate,
    TimedOut,
    WriteMarkers,
)
from moldau.coordination.transactions.shard import TransactionShard
from moldau.protocol.errors import ErrorCode
from moldau.server.network.repeats import sort
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns
from moldau.server.transactions.markers import Marker, MarkerWriter
from moldau.server.transactions.remote_markers import RemoteMarkers

logger = logging.getLogger(__name__)

FENCING: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""What a partition says that has ended the transaction already, and seen a newer epoch since."""

KEYS_PER_TURN: Final = 500
"""Partitions that are looked up, or whose results are translated, in one turn: half a millisecond.
Nearly all transactions have fewer, and so wait for no other turn."""

PARTITIONS_NAMED: Final = 5
"""Partitions that a line of the log names: a transaction may have thousands."""


class MarkerSender:
    """Carries out what transaction shards ask for: the `perform` of their runtime."""

    def __init__(
        self,
        broker_id: BrokerId,
        writer: MarkerWriter,
        remote: RemoteMarkers,
        image: Callable[[], MetadataImage],
        runtime: Callable[[], Runtime[TransactionShard]],
    ) -> None:
        """`runtime` is a function, because the runtime is made with this sender."""
        self._broker_id = broker_id
        self._writer = writer
        self._remote = remote
        self._image = image
        self._runtime = runtime
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

    async def settled(self) -> None:
        """Wait until everything that is asked for now is written or has failed."""
        if self._sending:
            await asyncio.wait(tuple(self._sending))

    async def close(self) -> None:
        """Wait for what this broker writes, for an orderly stop; others are not waited for."""
        await self._remote.close()
        await self.settled()

    async def _send(self, effect: WriteMarkers) -> None:
        """Have the markers written, by all leaders at the same time."""
        unreachable: dict[PartitionKey, MarkerResult] = {}
        leaders: dict[BrokerId, list[PartitionKey]] = {}
        try:
            leaders = await take_turns(_by_leader(self._image(), effect.partitions, unreachable))
        except Exception:
            logger.exception("nobody knows who leads the partitions of %r", effect.transactional_id)
            unreachable = dict.fromkeys(effect.partitions, MarkerResult.UNAVAILABLE)
        if unreachable:
            self._report(effect, unreachable)
        # In the order of ids: partitions are a set, whose order differs from run to run.
        await asyncio.gather(*(self._send_to(effect, *one) for one in sorted(leaders.items())))

    async def _send_to(
        self, effect: WriteMarkers, leader: BrokerId, keys: Sequence[PartitionKey]
    ) -> None:
        """Have the markers of one leader written and report, whatever became of them."""
        results = dict.fromkeys(keys, MarkerResult.UNAVAILABLE)
        marker = Marker(
            effect.producer,
            effect.committed,
            effect.coordinator_epoch,
            effect.transaction_version,
        )
        try:
            ordered = await take_turns(_in_order(keys))
            if leader == self._broker_id:
                codes = await self._writer.write(marker, ordered)
            else:
                is_wanted = partial(self._is_coordinator_of, effect)
                codes = await self._remote.write(leader, marker, ordered, is_wanted)
            await take_turns(self._translate(effect, codes, results))
        except Exception:
            # A report there must be: without one the id would be held until a restart.
            logger.exception("markers of %r could not be written", effect.transactional_id)
        self._report(effect, results)

    def _is_coordinator_of(self, effect: WriteMarkers) -> bool:
        """Tell whether the coordinator that asked for markers still is the one of its id."""
        runtime = self._runtime()
        index = runtime.partition_for(effect.transactional_id)
        return runtime.leader_epoch(index) == effect.coordinator_epoch

    def _report(self, effect: WriteMarkers, results: Mapping[PartitionKey, MarkerResult]) -> None:
        self._runtime().tell(
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


def _by_leader(
    image: MetadataImage,
    keys: frozenset[PartitionKey],
    unreachable: dict[PartitionKey, MarkerResult],
) -> Sliced[dict[BrokerId, list[PartitionKey]]]:
    """Return the partitions of each leader; note those that are gone or have none."""
    leaders: dict[BrokerId, list[PartitionKey]] = {}
    for count, key in enumerate(keys, 1):
        partition = image.partition(key)
        if partition is None:
            unreachable[key] = MarkerResult.DELETED
        elif partition.leader == NO_LEADER:
            unreachable[key] = MarkerResult.UNAVAILABLE
        else:
            leaders.setdefault(partition.leader, []).append(key)
        if not count % KEYS_PER_TURN:
            yield
    return leaders


def _in_order(keys: Sequence[PartitionKey]) -> Sliced[Iterable[PartitionKey]]:
    if len(keys) <= KEYS_PER_TURN:
        return sorted(keys)
    return (yield from sort(keys))
