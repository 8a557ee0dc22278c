"""Records of the asyncio face whose topic is not known yet, in their order.

`send` never waits there, so a record whose topic must first be asked for is parked, and so is every
later one of the same topic: order holds. A topic is asked for once; when it is known all that wait
are put into batches, and if it is not to be had within `max.block.ms` they fail. A record that
fails here is one of its transaction like any other, so that learns of it. What is parked counts in
`buffer.memory`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from moldau.base.clock import Clock
from moldau.client.engine.cluster import Cluster
from moldau.client.engine.metadata import TopicImage
from moldau.client.errors import BufferFull, ClientError, SerializationFailed
from moldau.client.producing.accumulator import Accumulator
from moldau.client.producing.core import no_such_partition
from moldau.client.producing.deliveries import AsyncDelivery
from moldau.client.producing.fates import Fate, Guard, Moved
from moldau.client.producing.outbox import Outbox, check_bytes, check_timestamp
from moldau.client.records import Header


class _Parked(NamedTuple):
    """One record that waits."""

    fate: Fate
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp_ms: int
    headers: Sequence[Header]
    size: int
    choose: Callable[[], int] | None
    """Asks the user's partitioner, which needs the topic to be known."""


class Parking:
    """Everything that waits for a topic. Owned by the event loop's thread."""

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        outbox: Outbox[AsyncDelivery],
        clock: Clock,
        guard: Guard,
        max_block_ms: int,
        on_failed: Callable[[ClientError], None],
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._outbox = outbox
        self._clock = clock
        self._guard = guard
        self._max_block_s = max_block_ms / 1000
        self._on_failed = on_failed
        self._waiting: dict[str, deque[_Parked]] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    def park(
        self,
        topic: str,
        key: Any,
        value: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: Any,
        choose: Callable[[], int] | None,
    ) -> AsyncDelivery:
        """Keep a record until its topic is known."""
        check_bytes(key, value, headers)
        size = self._accumulator.checked_size(key, value, headers)
        if not self._accumulator.has_room(size):
            raise BufferFull(f"the buffer is full while the topic {topic} is being looked up")
        self._accumulator.used += size
        if timestamp_ms is None:
            timestamp_ms = self._clock.wall_ms()
        else:
            check_timestamp(timestamp_ms)
        fate = Fate(topic, -1 if partition is None else partition, self._guard)
        self._outbox.close_topic(topic)
        parked = _Parked(fate, key, value, partition, timestamp_ms, headers, size, choose)
        self._waiting.setdefault(topic, deque()).append(parked)
        if topic not in self._asking:
            self._asking[topic] = asyncio.get_running_loop().create_task(self._ask(topic))
        return AsyncDelivery(fate, 0, timestamp_ms)

    async def _ask(self, topic: str) -> None:
        """Wait for a topic and put what waits for it; cancelled when the producer closes."""
        try:
            image = await self._image(topic)
        except ClientError as error:
            if self._waiting[topic]:
                self._on_failed(error)
            self._fail(topic, error)
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
        """Put what waits into batches, and take the short way from now on."""
        waiting = self._waiting[topic]
        self._outbox.open_topic(image)
        while waiting:
            parked = waiting.popleft()
            self._accumulator.used -= parked.size
            try:
                delivery = self._put(topic, parked)
            except ClientError as error:
                self._on_failed(error)
                self._settle(parked, error)
            else:
                parked.fate.move(Moved(1, *delivery.place()))

    def _put(self, topic: str, parked: _Parked) -> AsyncDelivery:
        _, key, value, partition, timestamp_ms, headers, _, choose = parked
        if choose is not None:
            partition = _chosen(choose)
        with self._accumulator.overdrawn():
            delivery = self._outbox.put(topic, key, value, partition, timestamp_ms, headers)
        if delivery is None:
            raise no_such_partition(topic, partition, self._outbox.partition_count(topic))
        return delivery

    def _fail(self, topic: str, error: ClientError) -> None:
        waiting = self._waiting[topic]
        while waiting:
            parked = waiting.popleft()
            self._accumulator.used -= parked.size
            self._settle(parked, error)

    @staticmethod
    def _settle(parked: _Parked, error: ClientError) -> None:
        for watcher in parked.fate.settle(error):
            watcher()

    async def settled(self) -> None:
        """Wait until nothing is parked that is now. Cancelled, it waits on without you."""
        if self._asking:
            await asyncio.wait(list(self._asking.values()))

    def fail_all(self, error: ClientError) -> None:
        """Give up everything that waits; their topics are still asked for."""
        for topic in self._waiting:
            self._fail(topic, error)

    async def close(self, error: ClientError) -> None:
        """Give up everything that waits, and stop asking."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        self.fail_all(error)
        if tasks:
            await asyncio.wait(tasks)


def _chosen(choose: Callable[[], int]) -> int:
    """Ask a user's partitioner; nobody is left here to raise to but the record's own delivery."""
    try:
        return choose()
    except ClientError:
        raise
    except Exception as error:
        raise SerializationFailed(
            f"the partitioner failed: {error!r}", advice="Its traceback is in __cause__."
        ) from error
