"""The consumer for threads: the asyncio consumer, run by a loop in a background thread."""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
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
from moldau.client.consuming.interruptions import in_signal_handler
from moldau.client.consuming.marks import BlockingMark
from moldau.client.consuming.positions import EARLIEST, LATEST
from moldau.client.consuming.taking import Take
from moldau.client.consuming.user_calls import Attending, CallsInThread, KeptCall
from moldau.client.errors import ClientClosed, ConcurrentUse, InvalidState
from moldau.client.records import K_co, OffsetAndMetadata, Record, TopicPartition, V_co
from moldau.engine.arguments import check_function, check_text, check_timeout
from moldau.engine.offset_lookup import OffsetAndTimestamp
from moldau.engine.partitions import (
    ByPartition,
    Partition,
    as_offsets,
    as_partition,
    as_partitions,
    check_offset,
)
from moldau.engine.portal import Portal

if TYPE_CHECKING:
    from moldau.engine.arrow_batches import ArrowForm, RecordBatch

T = TypeVar("T")


class Consumer(ConsumerFace[K_co, V_co]):
    """Consumes records in a thread. One thread uses it at a time; any thread may close it.

    A background thread fetches, and passes on whole lists of records, so a record costs no thread
    switch. A rebalance listener runs in the thread that uses the consumer, during one of its calls,
    or in the thread that closes it.
    """

    _portal: Portal | None = None
    _holder: threading.Thread | None = None
    """Who was handed records last; nobody while more are asked for."""
    _in_loop = False
    """Whether a loop over the consumer has not been left: it works on what it was handed."""
    _walk: Walk | None = None
    """What `next` takes from; whatever else is asked of the consumer takes back the rest of it."""

    # Beginning and ending

    def start(self) -> None:
        """Connect to the cluster; raises NoBrokerReachable if no broker answers.

        `with` calls it.
        """
        self._check_not_closed()
        if self._portal is not None:
            raise InvalidState("the consumer is already started")
        self._user = threading.RLock()
        self._calls = CallsInThread()
        self._portal = portal = Portal("consumer")
        try:
            self._core = portal.call(self._open())
        except BaseException:
            self._portal = None
            portal.close()
            raise

    async def _open(self) -> ConsumerCore:
        core = self._make_core(self._calls)
        await self._begin(core)
        return core

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Commit (if commits are automatic), leave the group and close; may be called twice.

        Any thread or signal handler may call it; a loop over the consumer ends. It does not commit
        the records that a loop or another thread is still processing. It commits nothing while an
        exception or a signal is being handled.
        """
        check_timeout("timeout", timeout)
        self._end(timeout, done=_not_interrupted() and not self._in_loop)

    def _end(self, timeout: float, *, done: bool) -> None:
        core, portal, was_closing = self._core, self._portal, self._is_closing
        self._is_closing = True
        if core is None or portal is None or was_closing or not portal.is_own_process:
            return
        done = done and self._holder is threading.current_thread()
        try:
            self._served(portal, core.close(timeout * 1000, done=done))
        finally:
            self._is_closed = True
            portal.close()
            self._close_parts()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What was being worked on when an exception came is not done with.
        self._end(CLOSE_TIMEOUT_S, done=kind is None)

    # Between the threads

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the loop and wait; Ctrl-C ends the wait and the work."""
        try:
            portal = self._take_use()
        except BaseException:
            work.close()
            raise
        try:
            return self._served(portal, work)
        finally:
            self._user.release()

    def _take_use(self) -> Portal:
        """Become the one who uses the consumer, until `_user` is released; ConcurrentUse."""
        portal = self._portal
        # Whoever is in a call when the consumer is closed is about to come out of it.
        patience_s = CLOSE_TIMEOUT_S if self._is_closing else 0
        if portal is None or not self._user.acquire(timeout=patience_s):
            raise ConcurrentUse("two threads use this consumer at the same time")
        return portal

    def _handed(self, take: Take[T], wait: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Take records that are there, or wait for some; this thread holds them from then on.

        Asking for those that are there costs a third of waiting: with lists of 500 records that is
        a tenth of what a record costs.
        """
        self._holder = None
        core, portal = self._running, self._take_use()
        try:
            records = portal.ask(partial(self._taken_at_once, core, take))
            if records is None:
                records = self._served(portal, wait())
        finally:
            self._user.release()
        self._holder = threading.current_thread()
        return records

    def _taken_at_once(self, core: ConsumerCore, take: Take[T]) -> T | None:
        """Take records on the loop; None where a callback has to run first."""
        return None if self._calls.are_kept else core.hand_out(take)

    def _do(self, function: Callable[..., T], *arguments: Any) -> T:
        """Have a function called on the loop."""

        async def work() -> T:
            return function(*arguments)

        return self._wait(work())

    def _served(self, portal: Portal, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work on the loop; run the user's callbacks here meanwhile."""
        if self._core is None or self._core.coordination is None:
            return portal.call(work)
        attending: Attending[T] = Attending(self._calls, work)
        try:
            kept = portal.call(attending.begin())
            while kept is not None:
                _run_kept(portal, attending, kept)
                kept = portal.call(attending.next())
        except BaseException:
            try:
                portal.post(attending.give_up)
            except ClientClosed:
                attending.forget()
            raise
        return attending.result()

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
        self._do(self._running.subscribe, self._subscription)

    def unsubscribe(self) -> None:
        """Stop consuming: leave the group, or drop the manual assignment."""
        self._subscription = Subscription()
        self._wait(self._running.unsubscribe(done=_not_interrupted()))

    def subscription(self) -> Subscription:
        """Return the current subscription."""
        return self._subscription

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Consume exactly these partitions, without group management.

        Partitions that were assigned before keep their positions. Offsets of removed partitions are
        committed first if commits are automatic.
        """
        done = _not_interrupted()
        self._do(partial(self._running.assign, as_partitions(partitions), done=done))

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return self._running.positions.partitions

    # Consuming

    def __iter__(self) -> Iterator[Record[K_co, V_co]]:
        """Return records one by one until the consumer is closed.

        You can leave the loop and start it again at any time: each record is returned once.
        """
        # A generator of records would run some Python for each of them.
        return chain.from_iterable(self._walks())

    def _walks(self) -> Iterator[Iterator[Record[K_co, V_co]]]:
        core = self._running
        while not self._is_closing:
            try:
                walk = self._handed(core.taking.walk, core.walk)
            except ClientClosed:
                return
            with self._looping():
                yield walk.rest

    def __next__(self) -> Record[K_co, V_co]:
        """Return the next record; a loop over the consumer costs less per record.

        As with `poll`, automatic commits include the record after you have asked for the next one.
        """
        core = self._running if not self._is_closing else None
        while core is not None:
            record = next(self._walk.rest, None) if self._walk is not None else None
            if record is not None:
                return record
            try:
                self._walk = self._handed(core.taking.walk, core.walk)
            except ClientClosed:
                break
        raise StopIteration

    def batches(self) -> Iterator[list[Record[K_co, V_co]]]:
        """Return lists of records, each of one partition and up to `max_poll_records` long."""
        core = self._running
        while not self._is_closing:
            try:
                records = self._handed(core.taking.batch, core.batch)
            except ClientClosed:
                return
            with self._looping():
                yield records

    def arrow_batches(self, form: ArrowForm | None = None) -> Iterator[RecordBatch]:
        """Return `pyarrow.RecordBatch`es, each of one partition, without an object per record.

        Needs the extra `arrow`. Deserializers and interceptors are not called.
        """
        core, form = self._running, arrow_form(form)
        take, wait = core.taking.columns(form), partial(core.columns, form)
        while not self._is_closing:
            try:
                batch = self._handed(take, wait)
            except ClientClosed:
                return
            with self._looping():
                yield batch

    @contextmanager
    def _looping(self) -> Iterator[None]:
        """Take note that a loop works on what it was handed, until it asks for more or is left."""
        self._in_loop = True
        try:
            yield
        finally:
            self._in_loop = False

    def poll(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> list[Record[K_co, V_co]]:
        """Wait at most `timeout_ms` for records and return those available, or []."""
        check_timeout("timeout_ms", timeout_ms)
        core = self._running
        take = core.taking.up_to(max_records)
        return self._handed(take, partial(core.poll, timeout_ms, max_records))

    def pause(self, *partitions: Partition) -> None:
        """Return no records of these partitions until `resume`; fetched records are kept."""
        self._do(self._running.pause, as_partitions(partitions))

    def resume(self, *partitions: Partition) -> None:
        """Return records of these partitions again."""
        self._do(self._running.resume, as_partitions(partitions))

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return self._do(self._running.paused)

    # Where the consumer is

    def seek(self, partition: Partition, offset: int | OffsetAndMetadata) -> None:
        """Continue at an offset.

        An OffsetAndMetadata with a leader epoch is checked against the leader's log.
        """
        check_offset(offset)
        self._do(self._running.seek, as_partition(partition), offset)

    def seek_to_beginning(self, *partitions: Partition) -> None:
        """Continue at the first record of these, or of all assigned partitions."""
        self._do(self._running.reset, as_partitions(partitions), EARLIEST)

    def seek_to_end(self, *partitions: Partition) -> None:
        """Continue after the last record of these, or of all assigned partitions."""
        self._do(self._running.reset, as_partitions(partitions), LATEST)

    def position(self, partition: Partition, *, timeout_ms: float | None = None) -> int:
        """Return the offset of the next record; waits until it is known."""
        return self._wait(self._running.position(as_partition(partition), timeout_ms))

    def lag(self, partition: Partition) -> int | None:
        """Return the distance from the position to the end of the partition.

        It is as of the last fetch, and None before the first one. With `read_committed`, the end is
        the last stable offset.
        """
        return self._do(self._running.lag, as_partition(partition))

    def high_watermark(self, partition: Partition) -> int | None:
        """Return the high watermark as of the last fetch; None before the first one."""
        return self._do(self._running.high_watermark, as_partition(partition))

    # What the brokers know

    def beginning_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Look up the first offsets of any partitions."""
        return self._wait(self._running.lookup.beginnings(partitions, timeout_ms))

    def end_offsets(
        self, partitions: Iterable[Partition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Look up the end offsets: the offset after the last readable record."""
        return self._wait(self._running.lookup.ends(partitions, timeout_ms))

    def offsets_for_times(
        self, times_ms: ByPartition[int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Look up the first records at or after these times; None if all records are older."""
        return self._wait(self._running.lookup.at_times(times_ms, timeout_ms))

    def partitions_for(
        self, topic: str, *, timeout_ms: float | None = None
    ) -> frozenset[TopicPartition]:
        """Look up the partitions of a topic."""
        return self._wait(self._running.partitions_of(topic, timeout_ms))

    # Committing

    def commit(
        self,
        offsets: ByPartition[int | OffsetAndMetadata] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets, or all records returned so far, and wait for the broker.

        An offset is that of the next record to read, as an int or an OffsetAndMetadata. Raises
        CommitFailed if the member is no longer in its group.
        """
        self._wait(
            self._running.commit(None if offsets is None else as_offsets(offsets), timeout_ms)
        )

    def commit_async(
        self,
        offsets: ByPartition[int | OffsetAndMetadata] | None = None,
        callback: CommitCallback | None = None,
    ) -> None:
        """Commit in the background, in order; the callback runs during a later call."""
        if callback is not None:
            check_function("callback", callback)
        self._do(
            self._running.commit_soon, None if offsets is None else as_offsets(offsets), callback
        )

    def committed(
        self, partitions: Iterable[Partition], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Look up committed offsets; partitions without one are missing from the result."""
        return self._wait(self._running.committed(as_partitions(partitions), timeout_ms))

    def group_metadata(self) -> GroupMetadata:
        """Return the member's identity, for transactions that commit its offsets (KIP-447)."""
        return self._do(self._running.group().metadata)

    def mark(self) -> BlockingMark:
        """Track the records returned from here on; `transaction(consumer)` calls it.

        Raises InvalidState without a group, or if the consumer commits automatically.
        """
        mark = self._do(self._running.mark)
        assert self._portal is not None
        return BlockingMark(mark, self._portal, self._wait)

    def enforce_rebalance(self, reason: str = "asked for by the user") -> None:
        """Force a rebalance of the group."""
        check_text("reason", reason)
        self._do(self._running.group().enforce_rebalance, reason)


def _not_interrupted() -> bool:
    """Tell whether nothing was interrupted by what now runs: no exception, no signal."""
    return sys.exception() is None and not in_signal_handler()


def _run_kept(portal: Portal, attending: Attending[Any], kept: KeptCall) -> None:
    """Run a callback in this thread; who waits for it on the loop learns how it ended.

    An error is raised where the callback was wanted. An interrupt (Ctrl-C, `sys.exit`) is raised
    here and nowhere else: the loop would end with it.
    """
    error: Exception | None = None
    try:
        outcome = kept.work()
        if inspect.isawaitable(outcome):
            portal.call(_awaited(outcome))
    except Exception as raised:  # noqa: BLE001 - it is raised where the callback was wanted
        error = raised
    finally:
        with suppress(ClientClosed):  # by the callback
            portal.post(attending.ran, kept, error)


async def _awaited(outcome: Awaitable[object]) -> None:
    await outcome
