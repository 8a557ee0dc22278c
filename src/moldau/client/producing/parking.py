"""Records whose topic is not known yet, in their order, where nobody may wait for it.

`send` of the asyncio face never waits, and neither may a callback in the blocking one, so a record
whose topic must first be asked for is parked, and so is every later one of the same topic: order
holds. A topic is asked for once; when it is known all that wait are put into batches, and if it is
not to be had within `max.block.ms` they fail. A record that fails here is one of its transaction
like any other, so that learns of it. What is parked counts in `buffer.memory`.

Threads of the blocking face, which can wait, have their topics opened here too (`open`): not before
what is parked for them has its place.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from moldau.base.clock import Clock
from moldau.base.tuples import NamedTuple
from moldau.client.errors import (
    BufferFull,
    ClientError,
    RequestTimedOut,
)
from moldau.client.producing.accumulator import Accumulator
from moldau.client.producing.batch_results import BatchResult, Guard, Moved, Watcher
from moldau.client.producing.deliveries import Sent, place_of
from moldau.client.producing.outbox import (
    Outbox,
    check_bytes,
    check_target,
    checked_timestamp,
    no_such_partition,
    plain_fields,
)
from moldau.client.records import Header
from moldau.engine.background import Crashed, failure_of, in_background
from moldau.engine.cluster import Cluster
from moldau.engine.metadata import TopicImage

D = TypeVar("D", bound=Sent)


class _Parked(NamedTuple):
    """One record that waits."""

    batch_result: BatchResult
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp_ms: int
    headers: Sequence[Header]
    size: int
    choose: Callable[[], int] | None
    """Asks the user's partitioner, which needs the topic to be known."""


class Parking(Generic[D]):
    """Everything that waits for a topic. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        outbox: Outbox[D],
        clock: Clock,
        guard: Guard,
        max_block_ms: int,
        on_failed: Callable[[ClientError], None],
        crashed: Crashed,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._outbox = outbox
        self._clock = clock
        self._guard = guard
        self._max_block_s = max_block_ms / 1000
        self._on_failed = on_failed
        self._crashed = crashed
        self._waiting: dict[str, deque[_Parked]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    @property
    def count(self) -> int:
        """How many records wait."""
        return sum(map(len, self._waiting.values()))

    def park(
        self,
        topic: str,
        key: Any,
        value: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any,
        choose: Callable[[], int] | None,
    ) -> D:
        """Keep a record until its topic is known."""
        check_target(topic, partition)
        check_bytes(key, value, headers)
        key, value, headers = plain_fields(key, value, headers)
        timestamp_ms = (
            self._clock.wall_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        )
        batch_result = BatchResult(topic, -1 if partition is None else partition, self._guard)
        with self._guard:
            size = self._accumulator.checked_size(key, value, headers)
            if not self._accumulator.has_room(size):
                raise BufferFull(f"the buffer is full while the topic {topic} is being looked up")
            self._accumulator.used += size
            self._outbox.close_topic(topic)
        parked = _Parked(batch_result, key, value, partition, timestamp_ms, headers, size, choose)
        self._waiting.setdefault(topic, deque()).append(parked)
        if topic not in self._asking:
            name = f"the search for topic {topic}"
            self._asking[topic] = in_background(self._ask(topic), name, self._crashed)
        return self._outbox.delivery(batch_result, 0, timestamp_ms)

    async def _ask(self, topic: str) -> None:
        """Wait for a topic and put what waits for it; cancelled when the producer closes."""
        try:
            image = await self._image(topic)
        except ClientError as error:
            if self._waiting[topic]:
                self._on_failed(error)
            self._fail(topic, error)
        except Exception as error:
            self._fail(topic, failure_of(f"the search for topic {topic}", error))
            raise
        else:
            self._place(topic, image)
        finally:
            del self._asking[topic]
            del self._waiting[topic]

    async def _image(self, topic: str) -> TopicImage:
        image = await self._cluster.topic(topic, self._clock.monotonic() + self._max_block_s)
        if any((one.partition or 0) >= image.partition_count for one in self._waiting[topic]):
            # Partitions may have been added since: one fresh look decides.
            image = (await self._cluster.refresh([topic])).topics.get(topic, image)
        return image

    def _place(self, topic: str, image: TopicImage) -> None:
        """Put what waits into batches, and take the fast path from now on.

        Who waits for one that fails is told after that: whatever it sends then comes behind.
        """
        waiting = self._waiting[topic]
        told: list[Watcher] = []
        with self._guard:
            self._outbox.open_topic(image)
        while waiting:
            parked = waiting.popleft()
            try:
                self._put(topic, parked)
            except ClientError as error:
                self._on_failed(error)
                told += self._settled(parked, error)
        _tell(told)

    def _put(self, topic: str, parked: _Parked) -> None:
        batch_result, key, value, partition, timestamp_ms, headers, size, choose = parked
        with self._guard:
            self._accumulator.used -= size
        if choose is not None:
            partition = choose()
        with self._guard:
            with self._accumulator.overdrawn():
                delivery = self._outbox.put(topic, key, value, partition, timestamp_ms, headers)
            if delivery is None:
                raise no_such_partition(topic, partition, self._outbox.partition_count(topic))
            batch_result.move(Moved(1, *place_of(delivery)))

    def _fail(self, topic: str, error: ClientError) -> None:
        waiting = self._waiting[topic]
        told: list[Watcher] = []
        while waiting:
            parked = waiting.popleft()
            with self._guard:
                self._accumulator.used -= parked.size
            told += self._settled(parked, error)
        _tell(told)

    def _settled(self, parked: _Parked, error: ClientError) -> list[Watcher]:
        with self._guard:
            return parked.batch_result.settle(error)

    # For those who can wait

    async def open(self, topic: str, deadline: float) -> None:
        """Wait until records of a topic can be put, behind those that are parked.

        Fails as `Cluster.topic` does. Cancelled, the asking goes on by itself.
        """
        while not self._outbox.knows(topic):
            asking = self._asking.get(topic)
            if asking is not None:
                left_s = max(0.0, deadline - self._clock.monotonic())
                await asyncio.wait([asking], timeout=left_s)
                if not asking.done():
                    raise RequestTimedOut(f"no metadata for topic {topic!r} in time")
            self._open(await self._cluster.topic(topic, deadline))

    async def refresh(self, topic: str) -> None:
        """Look at a topic afresh: partitions may have been added."""
        image = (await self._cluster.refresh([topic])).topics.get(topic)
        if image is not None:
            self._open(image)

    def _open(self, image: TopicImage) -> None:
        if image.name not in self._asking:
            with self._guard:
                self._outbox.open_topic(image)

    # Ends

    async def settled(self) -> None:
        """Wait until nothing is parked that is now. Cancelled, it waits on without you."""
        if self._asking:
            await asyncio.wait(list(self._asking.values()))

    def fail_all(self, error: ClientError) -> None:
        """Give up everything that waits; their topics are still asked for."""
        for topic in list(self._waiting):
            self._fail(topic, error)

    def become_copy(self, error: ClientError) -> None:
        """Give up everything that waits, in a process that was forked off; the guard is held."""
        for waiting in self._waiting.values():
            for parked in waiting:
                parked.batch_result.settle(error)

    async def close(self, error: ClientError) -> None:
        """Give up everything that waits, and stop asking."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        self.fail_all(error)
        if tasks:
            await asyncio.wait(tasks)


def _tell(watchers: list[Watcher]) -> None:
    for watcher in watchers:
        watcher()
