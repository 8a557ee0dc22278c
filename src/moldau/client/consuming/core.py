"""The consumer itself, without a face: positions, fetching, handing out, and the group beside it.

One event loop owns it; one user asks it. Records are handed out whole (`poll`, `batch`) or as a
walk that the user's own loop goes through (`walk`); `holding` knows which of them the user still
works on. What runs in the background (fetcher, resolver, group) only ever changes what the next
call finds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from moldau.client.consumer_settings import ConsumerSettings, ResetPolicy
from moldau.client.consuming.background import Waking
from moldau.client.consuming.coordination import (
    CommitCallback,
    Coordination,
    Offsets,
    Subscription,
)
from moldau.client.consuming.decoding import DecodingRules
from moldau.client.consuming.fetch_answers import FetchAnswers
from moldau.client.consuming.fetcher import Fetcher
from moldau.client.consuming.holding import FetchBuffer, Holding, Walk
from moldau.client.consuming.marks import Mark
from moldau.client.consuming.positions import NO_OFFSET, PartitionState, Positions, committable
from moldau.client.consuming.resolver import Resolver
from moldau.client.consuming.taking import Intercept, Records, Take, Taking
from moldau.client.consuming.user_calls import UserCalls, Work
from moldau.client.errors import (
    ClientClosed,
    ClientFailed,
    ConcurrentUse,
    InvalidState,
    RequestTimedOut,
)
from moldau.client.records import OffsetAndMetadata, TopicPartition
from moldau.client.statistics import Statistics
from moldau.engine.arguments import check_topic
from moldau.engine.cluster import Cluster
from moldau.engine.metadata import NO_EPOCH, MetadataImage
from moldau.engine.offset_lookup import OffsetLookup
from moldau.engine.settings import IsolationLevel

if TYPE_CHECKING:
    from moldau.engine.arrow_batches import ArrowForm, RecordBatch

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ConsumerCore:
    """A consumer; what `coordination.Host` offers its group."""

    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        rules: DecodingRules,
        calls: UserCalls,
        coordinate: Callable[[ConsumerCore], Coordination] | None = None,
        intercept: Intercept | None = None,
    ) -> None:
        clock = cluster.ports.clock
        self.cluster = cluster
        self._settings = settings
        self._calls = calls
        self._now = clock.monotonic
        self._positions = Positions()
        self._holding = Holding()
        self._buffer = FetchBuffer()
        self._waking = Waking(clock)
        self.lookup = OffsetLookup(
            cluster, settings.isolation_level, settings.default_api_timeout_ms
        )
        self._turn_count = 0
        """Turns taken or waited for; while there are any, no record is handed out."""
        self._turn_taken = False
        self._asking = False
        self._is_closing = False
        self._is_closed = False
        self._is_subscribed = False
        self._failures: list[Exception] = []
        self._crash: ClientFailed | None = None
        self._statistics = Statistics(settings, self.metrics)
        cluster.on_crash(self.crashed)
        self.coordination = coordinate(self) if coordinate is not None else None
        self._resolver = Resolver(
            cluster,
            self._positions,
            self._holding,
            settings,
            self.coordination.committed if self.coordination is not None else None,
            changed=self._changed,
            crashed=self.crashed,
        )
        answers = FetchAnswers(
            cluster,
            self._positions,
            self._buffer,
            rules,
            settings.auto_offset_reset,
            truncated=self._resolver.truncated,
            changed=self._changed,
        )
        self._fetcher = Fetcher(cluster, self._positions, settings, answers, self.crashed)
        self.taking = Taking(
            self._buffer,
            self._holding,
            settings.max_poll_records,
            intercept,
            has_room=self._fetcher.refill,
        )

    # Beginning and ending

    async def start(self) -> None:
        """Reach the cluster; NoBrokerReachable. Cancelled or failed, `close` cleans up."""
        self.cluster.on_change(self._image_changed)
        await self.cluster.start()
        self._statistics.start()
        if self.coordination is not None:
            await self.coordination.start()

    async def close(self, timeout_ms: float, *, done: bool = True) -> None:
        """Leave the group and end everything, within the time; later calls raise ClientClosed.

        `done` says whether the user is done with the records it holds, so that automatic commits
        may cover them. Cancelled, the rest still ends, but the group may not have been told.
        """
        if self._is_closing:
            return
        self._is_closing = True
        self._statistics.close()
        deadline = self._deadline(timeout_ms)
        if done:
            self._settle()
        self._changed()
        async with AsyncExitStack() as ends:
            ends.push_async_callback(self.cluster.close)
            ends.push_async_callback(self._fetcher.close)
            ends.push_async_callback(self._resolver.close)
            try:
                if self.coordination is not None:
                    await self.coordination.close(deadline)
            finally:
                self._is_closed = True

    def _check_open(self) -> None:
        """Refuse what comes after the end; a listener told of the end may still commit."""
        if self._is_closed:
            raise ClientClosed("the consumer has been closed")
        self._check_whole()

    def _check_handing_out(self) -> None:
        if self._is_closing:
            raise ClientClosed("the consumer has been closed")
        self._check_whole()

    def _check_whole(self) -> None:
        if self._crash is not None:
            raise self._crash.with_traceback(None)

    # The assignment

    @property
    def positions(self) -> Positions:
        """The assigned partitions."""
        return self._positions

    def assign(self, partitions: Iterable[TopicPartition], *, done: bool = True) -> None:
        """Consume exactly these, without the group's doing; what stays keeps its place.

        `done` says whether the user is done with the records it holds of those that go.
        """
        self._check_open()
        if self._is_subscribed:
            raise InvalidState(
                "this consumer is subscribed: its group assigns partitions",
                advice="unsubscribe() first, or use another consumer.",
            )
        wanted = list(partitions)
        self._part_with(self._positions.partitions.difference(wanted), done=done)
        self._positions.assign(wanted)
        topics = {state.partition.topic for state in self._positions}
        self.cluster.watch_topics(topics)
        if not topics <= self.cluster.image.topics.keys():
            self.cluster.request_refresh()
        self.assignment_changed()

    def subscribe(self, subscription: Subscription) -> None:
        """Have the group assign partitions of these topics."""
        self._check_open()
        coordination = self.group()
        if self._positions and not self._is_subscribed:
            raise InvalidState(
                "this consumer has a manual assignment",
                advice="unsubscribe() first, or use another consumer.",
            )
        self._is_subscribed = True
        coordination.subscribe(subscription)

    def _part_with(self, partitions: AbstractSet[TopicPartition], *, done: bool) -> None:
        """Have automatic commits cover what the user gives up: no rebalance does it."""
        if self.coordination is None or not partitions:
            return
        reached = self.consumed() if done else self.processed()
        self.coordination.given_up({each: reached[each] for each in partitions & reached.keys()})

    async def unsubscribe(self, *, done: bool = True) -> None:
        """Consume nothing; a member leaves its group. `done` is as in `close`."""
        self._check_open()
        if self._is_subscribed:
            if done:
                self._settle()
            self._is_subscribed = False
            await self.group().unsubscribe()
        else:
            self._part_with(self._positions.partitions, done=done)
            self.cluster.watch_topics(())
        self._positions.assign(())
        self.assignment_changed()

    def assignment_changed(self) -> None:
        """Note that `positions` were assigned anew: look up, fetch, forget accordingly."""
        for state in self._holding.states():
            if self._positions.get(state.partition) is not state:
                self._holding.release(state)
        self._buffer.clear_stale()
        self._changed()

    # What happens in the background

    def _image_changed(self, image: MetadataImage) -> None:
        for state in self._positions:
            led = image.leader(*state.partition)
            if led is not None:
                state.retry_at, state.missing_since = 0.0, None
                state.leader_changed(led.leader_epoch)
        self._changed()

    def _changed(self) -> None:
        """Have everybody look again: positions, leaders or pauses are not what they were."""
        self._resolver.wake()
        self._fetcher.wake()
        self._waking.wake()

    def fail(self, error: Exception) -> None:
        """Raise an error at the user's next call for records, before any record. Once."""
        self._failures.append(error)
        self._waking.wake()

    def crashed(self, error: ClientFailed) -> None:
        """Raise an error at every call from now on: a part of the consumer has ended."""
        self._crash = self._crash or error
        self._waking.wake()

    def _raise_failures(self) -> None:
        if self._failures:
            raise self._failures.pop(0)
        for state in self._positions:
            if state.error is not None:
                raise self._told(state)

    def _told(self, state: PartitionState) -> Exception:
        """Return the error of a partition, which is tried again from now on."""
        error, state.error = state.error, None
        assert error is not None
        self._changed()
        return error

    # Turns

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until the user holds no records; hand none out until the turn is over.

        Cancelled, the turn is given up.
        """
        self._turn_count += 1
        taken = False
        try:
            while self._turn_taken or not self._holding.empty:
                await self._waking.wait(None)
            self._turn_taken = taken = True
            yield
        finally:
            self._turn_count -= 1
            if taken:
                self._turn_taken = False
            self._waking.wake()

    async def call_user(self, work: Work) -> None:
        """Run a user's callback where the user's code runs; what it raises is raised here."""
        await self._calls.run(work)

    # Handing out

    def hand_out(self, take: Take[T]) -> T | None:
        """Hand out what is there already; None if nothing is, or while somebody waits for some.

        Whoever was interrupted still waits until the loop has cancelled it.
        """
        if self._asking:
            return None
        with self._asked():
            return self._take_first(take)

    async def walk(self) -> Walk:
        """Wait for records; hand some of one partition out one by one.

        Cancelled, nothing is handed out.
        """
        return await self._take_next(self.taking.walk)

    async def batch(self) -> Records:
        """Wait for records; hand out some of one partition. Cancelled, nothing is handed out."""
        return await self._take_next(self.taking.batch)

    async def columns(self, form: ArrowForm) -> RecordBatch:
        """Wait for records; hand out some of one partition as a record batch of Arrow's.

        Cancelled, nothing is handed out.
        """
        return await self._take_next(self.taking.columns(form))

    async def poll(self, timeout_ms: float, max_records: int | None = None) -> Records:
        """Wait for records up to this long; hand out those there are, up to a number.

        Cancelled, nothing is handed out.
        """
        take = self.taking.up_to(max_records)
        return await self._wait_to_take(take, self.cluster.deadline(timeout_ms)) or []

    async def _take_next(self, take: Take[T]) -> T:
        taken = await self._wait_to_take(take, None)
        assert taken is not None
        return taken

    async def _wait_to_take(self, take: Take[T], deadline: float | None) -> T | None:
        """Wait until something can be taken; None at the deadline.

        Lets the loop run in any case: a user who never waits must not starve what feeds it.
        """
        with self._asked():
            await asyncio.sleep(0)
            while (taken := self._take_first(take)) is None:
                if deadline is not None and self._now() >= deadline:
                    return None
                await self._waking.wait(deadline)
            return taken

    def _take_first(self, take: Take[T]) -> T | None:
        """Take something from the first answer that has something to hand out."""
        self._check_handing_out()
        self._raise_failures()
        while not self._turn_count and (fetched := self._buffer.first()) is not None:
            if (taken := take(fetched)) is not None:
                return taken
        return None

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Take note that the user asks: what it held is done with."""
        self._check_handing_out()
        if self._asking:
            raise ConcurrentUse("two tasks read from this consumer at the same time")
        if not self._is_subscribed and not self._positions:
            raise InvalidState(
                "this consumer has no subscription and no assignment",
                advice="Give it topics=[...], or call subscribe() or assign() first.",
            )
        self._asking = True
        try:
            self._settle()
            if self.coordination is not None:
                self.coordination.asked()
            yield
        finally:
            self._asking = False
            if self.coordination is not None:
                self.coordination.answered()

    def _settle(self) -> None:
        left = self._holding.settle()
        if left is not None and not left[0].stale:
            self.taking.put_back(*left)
        if self._turn_count:
            self._waking.wake()

    # Where the consumer is

    def processed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What automatic commits may commit: offsets behind records the user is done with."""
        return {
            state.partition: committable(*self._holding.processed(state))
            for state in self._positions
            if state.has_offset
        }

    def consumed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What `commit()` without offsets commits: behind every record handed out."""
        return {
            state.partition: committable(*self._holding.consumed(state))
            for state in self._positions
            if state.has_offset
        }

    async def position(self, partition: TopicPartition, timeout_ms: float | None) -> int:
        """Wait until it is known where the next record comes from; RequestTimedOut."""
        deadline = self._deadline(timeout_ms)
        while True:
            self._check_open()
            state = self._positions.state(partition)
            if state.error is not None:
                raise self._told(state)
            if state.has_offset:
                return self._holding.consumed(state)[0]
            if self._now() >= deadline:
                raise RequestTimedOut(f"the position of {partition} was not found in time")
            await self._waking.wait(deadline)

    def metrics(self) -> dict[str, float]:
        """Return metrics under Kafka's names."""
        lags = [self.lag(state.partition) for state in self._positions]
        return {
            **self.cluster.metrics(),
            "records-consumed-total": self.taking.count,
            "records-lag-max": max((lag for lag in lags if lag is not None), default=0),
            "assigned-partitions": len(self._positions.partitions),
        }

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Return the end of what may be read, as of the last fetch; None before one."""
        known = self._positions.state(partition).high_watermark
        return None if known == NO_OFFSET else known

    def lag(self, partition: TopicPartition) -> int | None:
        """How many offsets lie before the end of the partition; None while nothing is known."""
        state = self._positions.state(partition)
        committed_only = self._settings.isolation_level is IsolationLevel.READ_COMMITTED
        end = state.last_stable_offset if committed_only else state.high_watermark
        known = end != NO_OFFSET and state.has_offset
        return max(0, end - self._holding.consumed(state)[0]) if known else None

    def seek(self, partition: TopicPartition, to: int | OffsetAndMetadata) -> None:
        """Go on at an offset, or at what was committed (then checked against the leader's log)."""
        self._check_open()
        offset, epoch = (to, None) if isinstance(to, int) else (to.offset, to.leader_epoch)
        state = self._positions.state(partition)
        self._leave(state)
        state.seek(offset, NO_EPOCH if epoch is None else epoch)
        self._changed()

    def reset(self, partitions: Iterable[TopicPartition], policy: ResetPolicy) -> None:
        """Go on where a policy says; all assigned partitions if none are named."""
        self._check_open()
        for state in self._named(partitions):
            self._leave(state)
            state.reset(policy)
        self._changed()

    def _leave(self, state: PartitionState) -> None:
        self._holding.note(state)
        self._holding.release(state)
        if self._turn_count:
            self._waking.wake()

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing more of these until `resume`; what was fetched is kept."""
        self._check_open()
        for state in self._positions.states(partitions):
            state.paused = True
            left = self._holding.cut(state)
            if left is not None and not left[0].stale:
                left[0].put_back(left[1])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand these out again."""
        self._check_open()
        for state in self._positions.states(partitions):
            state.paused = False
        self._changed()

    def paused(self) -> frozenset[TopicPartition]:
        """What is paused."""
        return frozenset(state.partition for state in self._positions if state.paused)

    def _named(self, partitions: Iterable[TopicPartition]) -> list[PartitionState]:
        return self._positions.states(partitions) or list(self._positions)

    async def partitions_of(
        self, topic: str, timeout_ms: float | None
    ) -> frozenset[TopicPartition]:
        """Look up the partitions of a topic."""
        self._check_open()
        check_topic(topic)
        image = await self.cluster.topic(topic, self._deadline(timeout_ms))
        return frozenset(TopicPartition(topic, number) for number in image.partitions)

    def _deadline(self, timeout_ms: float | None) -> float:
        default = self._settings.default_api_timeout_ms
        return self.cluster.deadline(default if timeout_ms is None else timeout_ms)

    # What the group does

    @property
    def is_subscribed(self) -> bool:
        """Whether the group assigns the partitions."""
        return self._is_subscribed

    def mark(self) -> Mark:
        """Keep account of what is handed out from here on, for a transaction to commit.

        InvalidState without a group, with automatic commits, or while another mark is open.
        """
        self.group()
        if self._settings.enable_auto_commit:
            raise InvalidState(
                "this consumer commits automatically: its offsets cannot be part of a transaction",
                advice="Create it with enable_auto_commit=False.",
            )
        return Mark(self, self._holding)

    def group(self) -> Coordination:
        """Return the group; InvalidState if there is none."""
        self._check_open()
        if self.coordination is None:
            raise InvalidState(
                "this consumer has no group", advice="Give it a group_id, or assign() partitions."
            )
        return self.coordination

    async def commit(self, offsets: Offsets | None, timeout_ms: float | None) -> None:
        """Commit these, or everything handed out."""
        committed = self.consumed() if offsets is None else offsets
        await self.group().commit(committed, self._deadline(timeout_ms))

    def commit_soon(
        self, offsets: Offsets | None, callback: CommitCallback | None
    ) -> Awaitable[None]:
        """Commit these, or everything handed out, in the background."""
        committed = self.consumed() if offsets is None else offsets
        return self.group().commit_soon(committed, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Ask the group for committed offsets; partitions without one are absent."""
        deadline = self._deadline(timeout_ms)
        return await self.group().committed(frozenset(partitions), deadline)
