"""The consumer for asyncio."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from moldau.client.consuming.coordination import (
    CommitCallback,
    GroupMetadata,
    Subscription,
)
from moldau.client.consuming.core import ConsumerCore
from moldau.client.consuming.face import (
    CLOSE_TIMEOUT_S,
    ConsumerFace,
    arrow_form,
    subscription_of,
)
from moldau.client.consuming.holding import Walk
from moldau.client.consuming.marks import Mark
from moldau.client.consuming.positions import EARLIEST, LATEST
from moldau.client.consuming.user_calls import CallsOnLoop
from moldau.client.errors import ClientClosed, InvalidState
from moldau.client.records import K_co, OffsetAndMetadata, Record, TopicPartition, V_co
from moldau.engine.arguments import check_function, check_text, check_timeout
from moldau.engine.offset_lookup import OffsetAndTimestamp
from moldau.engine.owning_loop import check_loop
from moldau.engine.partitions import (
    ByPartition,
    Partition,
    as_offsets,
    as_partition,
    as_partitions,
    check_offset,
)

if TYPE_CHECKING:
    from moldau.engine.arrow_batches import ArrowForm, RecordBatch

T = TypeVar("T")


class AsyncConsumer(ConsumerFace[K_co, V_co]):
    """Consumes records in asyncio. One task uses it at a time; any task may close it."""

    _holder: asyncio.Task[Any] | None = None
    """Who was handed records last; nobody while more are asked for."""
    _walk: Walk | None = None
    """What `anext` takes from; whatever else is asked of the consumer takes back the rest of it."""

    _loop: asyncio.AbstractEventLoop

    # Beginning and ending

    async def start(self) -> None:
        """Connect to the cluster; raises NoBrokerReachable if no broker answers.

        `async with` calls it. If cancelled, it leaves no connections or tasks behind.
        """
        self._check_not_closed()
        if self._core is not None:
            raise InvalidState("the consumer is already started")
        self._loop = asyncio.get_running_loop()
        core = self._make_core(CallsOnLoop())
        await self._begin(core)
        self._core = core

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:  # noqa: ASYNC109 - both faces
        """Commit (if commits are automatic), leave the group and close; may be called twice.

        A loop over the consumer in another task ends. It does not commit the records which that
        task is still processing. It commits nothing while an exception is being handled. If
        cancelled, it still closes, but the group may not have been notified.
        """
        check_timeout("timeout", timeout)
        await self._end(timeout, done=sys.exception() is None)

    async def _end(self, timeout_s: float, *, done: bool) -> None:
        if self._core is not None and not self._is_closing:
            check_loop(self._loop, "consumer")
        core, was_closing = self._core, self._is_closing
        self._is_closing = True
        if core is None or was_closing:
            return
        done = done and self._is_holder_done()
        try:
            await core.close(timeout_s * 1000, done=done)
        finally:
            self._is_closed = True
            self._close_parts()

    def _is_holder_done(self) -> bool:
        """Tell whether who was handed records last is this task, or one that has ended well.

        The latter because `asyncio.wait_for` may ask in a task of its own.
        """
        holder = self._holder
        if holder is None or not holder.done():
            return holder is asyncio.current_task()
        return not holder.cancelled() and holder.exception() is None

    @property
    def _running(self) -> ConsumerCore:
        core = super()._running
        check_loop(self._loop, "consumer")
        return core

    async def _handed(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for records; this task holds them from then on."""
        self._holder = None
        records = await work
        self._holder = asyncio.current_task()
        return records

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What was being worked on when an exception came is not done with.
        await self._end(CLOSE_TIMEOUT_S, done=kind is None)

    # What to consume

    def subscribe(
        self,
        topics: Sequence[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: Any = None,
    ) -> None:
        """Subscribe to topics by name, or by a pattern that matches whole names.

        Replaces an earlier subscription. The listener is called when partitions are assigned,
        revoked or lost.
        """
        self._subscription = subscription_of(topics, pattern, listener)
        self._running.subscribe(self._subscription)

    async def unsubscribe(self) -> None:
        """Stop consuming: leave the group, or drop the manual assignment.

        If cancelled, the group may not have been notified.
        """
        self._subscription = Subscription()
        await self._running.unsubscribe(done=sys.exception() is None)

    def subscription(self) -> Subscription:
        """Return the current subscription."""
        return self._subscription

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Consume exactly these partitions, without group management.

        Partitions that were assigned before keep their positions. Offsets of removed partitions are
        committed in the background if commits are automatic.
        """
        done = sys.exception() is None
        self._running.assign(as_partitions(partitions), done=done)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._running.positions.partitions

    # Consuming

    async def __aiter__(self) -> AsyncIterator[Record[K_co, V_co]]:
        """Return records one by one until the consumer is closed.

        You can leave the loop and start it again at any time: each record is returned once.
        """
        core = self._running
        while not self._is_closing:
            try:
                walk = await self._handed(core.walk())
            except ClientClosed:
                return
            for record in walk.rest:
                yield record

    async def __anext__(self) -> Record[K_co, V_co]:
        """Return the next record; a loop over the consumer costs less per record.

        As with `poll`, automatic commits include the record after you have asked for the next one.
        A cancelled call consumes no record.
        """
        core = self._running if not self._is_closing else None
        while core is not None:
            record = next(self._walk.rest, None) if self._walk is not None else None
            if record is not None:
                return record
            try:
                self._walk = await self._handed(core.walk())
            except ClientClosed:
                break
        raise StopAsyncIteration

    async def batches(self) -> AsyncIterator[list[Record[K_co, V_co]]]:
        """Return lists of records, each of one partition and up to `max_poll_records` long."""
        core = self._running
        while not self._is_closing:
            try:
                records = await self._handed(core.batch())
            except ClientClosed:
                return
            yield records

    async def arrow_batches(self, form: ArrowForm | None = None) -> AsyncIterator[RecordBatch]:
        """Return `pyarrow.RecordBatch`es, each of one partition, without an object per record.

        Needs the extra `arrow`. Deserializers and interceptors are not called.
        """
        core, form = self._running, arrow_form(form)
        while not self._is_closing:
            try:
                batch = await self._handed(core.columns(form))
            except ClientClosed:
                return
            yield batch

    async def poll(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> list[Record[K_co, V_co]]:
        """Wait at most `timeout_ms` for records and return those available, or [].

        A cancelled call consumes no records.
        """
        return await self._handed(self._running.poll(timeout_ms, max_records))

    def pause(self, *partitions: Partition) -> None:
        """Return no records of these partitions until `resume`; fetched records are kept."""
        self._running.pause(as_partitions(partitions))

    def resume(self, *partitions: Partition) -> None:
        """Return records of these partitions again."""
        self._running.resume(as_partitions(partitions))

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return self._running.paused()

    # Where the consumer is

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Continue at an offset.

        An OffsetAndMetadata with a leader epoch is checked against the leader's log.
        """
        check_offset(offset)
        self._running.seek(as_partition(partition), offset)

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Continue at the first record of these, or of all assigned partitions."""
        self._running.reset(as_partitions(partitions), EARLIEST)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Continue after the last record of these, or of all assigned partitions."""
        self._running.reset(as_partitions(partitions), LATEST)

    async def position(self, partition: Partition, *, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record; waits until it is known."""
        return await self._running.position(as_partition(partition), timeout_ms)

    def lag(self, partition: Partition) -> int | None:
        """Return the distance from the position to the end of the partition.

        It is as of the last fetch, and None before the first one. With `read_committed`, the end is
        the last stable offset.
        """
        return self._running.lag(as_partition(partition))

    def high_watermark(self, partition: Partition) -> int | None:
        """Return the high watermark as of the last fetch; None before the first one."""
        return self._running.high_watermark(as_partition(partition))

    # What the brokers know

    async def beginning_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Look up the first offsets of any partitions."""
        return await self._running.lookup.beginnings(partitions, timeout_ms)

    async def end_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Look up the end offsets: the offset after the last readable record."""
        return await self._running.lookup.ends(partitions, timeout_ms)

    async def offsets_for_times(
        self, times_ms: ByPartition[int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first records at or after these times; None if all records are older."""
        return await self._running.lookup.at_times(times_ms, timeout_ms)

    async def partitions_for(
        self, topic: str, *, timeout_ms: float | None = None
    ) -> frozenset[TopicPartition]:
        """Look up the partitions of a topic."""
        return await self._running.partitions_of(topic, timeout_ms)

    # Committing

    async def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, or all records returned so far, and wait for the broker.

        An offset is that of the next record to read, as an int or an OffsetAndMetadata. Raises
        CommitFailed if the member is no longer in its group. If cancelled, the outcome is unknown.
        """
        await self._running.commit(None if offsets is None else as_offsets(offsets), timeout_ms)

    def commit_async(
        self,
        offsets: ByPartition[int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> Awaitable[None]:
        """Commit in the background, in order; await the result, or pass a callback."""
        if callback is not None:
            check_function("callback", callback)
        return self._running.commit_soon(None if offsets is None else as_offsets(offsets), callback)

    async def committed(
        self, partitions: Iterable[Partition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Look up committed offsets; partitions without one are missing from the result."""
        return await self._running.committed(as_partitions(partitions), timeout_ms)

    def group_metadata(self) -> GroupMetadata:
        """Return the member's identity, for transactions that commit its offsets (KIP-447)."""
        return self._running.group().metadata()

    def mark(self) -> Mark:
        """Track the records returned from here on; `transaction(consumer)` calls it.

        Raises InvalidState without a group, or if the consumer commits automatically.
        """
        return self._running.mark()

    def enforce_rebalance(self, reason: str = "asked for by the user") -> None:
        """Force a rebalance of the group."""
        check_text("reason", reason)
        self._running.group().enforce_rebalance(reason)
