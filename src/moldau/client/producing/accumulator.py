"""Where records are gathered into batches until it is time to send them (B4).

Per topic and partition: `send` adds to the open batch; a batch is closed when the next record does
not fit (`batch.size`), when it has been open for `linger.ms`, when somebody flushes, or when the
buffer is used up. A closed batch makes its partition `ready`. `buffer.memory` bounds what is held:
an open batch counts with the size it may grow to, a closed one with what it holds.

With compression `batch.size` is meant for what goes out, so the open batch may grow to what has
lately shrunk to that. A topic whose broker refused a batch as too large gets smaller ones.

Records without a key or a partition stay with one partition until it got a batch's worth, however
many batches that took, and then move to one of two random ones, the one with less before it: even
where brokers are equally fast, and away from a slow one where they are not (KIP-480, KIP-794).

Pure: time and chance are given. One thread at a time; the blocking face holds a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from moldau.base.clock import Random
from moldau.base.tuples import NamedTuple
from moldau.client.errors import RecordTooLarge
from moldau.client.producing.batch_results import BatchResult, Guard
from moldau.client.producing.batches import ProducerBatch
from moldau.client.producing.queues import NO_LEADER, PartitionQueue
from moldau.records.batch import HEADER_SIZE
from moldau.records.builder import RecordHeader, record_size_bound
from moldau.records.compression import Codec

_RATIO_WEIGHT: Final = 0.1
"""How much one batch counts in a topic's compression ratio."""
_RATIO_CAUTION: Final = 1.05
"""Batches are planned a little smaller than the ratio allows: one too large costs a round trip."""
_GROWTH_MAX: Final = 8
"""An open batch is at most this many times `batch.size`, however well it may compress."""

_ENOUGH: Final = 0.9
"""The part of a batch that counts as a batch's worth: the record that does not fit leaves room."""


_SWEEP_COUNT: Final = 1024
"""How many batches are remembered before it is worth looking for those that are settled."""


class Bounds(NamedTuple):
    """The settings that shape batches."""

    batch_size: int
    linger_s: float
    buffer_memory: int
    max_request_size: int
    delivery_timeout_s: float
    in_flight_max: int = 5
    codec: Codec = Codec.NONE
    level: int | None = None
    idempotent: bool = False
    transactional: bool = False
    availability_timeout_s: float = 0.0
    adaptive: bool = True


class TopicQueues:
    """The partitions of one topic, and where its records without a key go now."""

    __slots__ = (
        "_ratio",
        "available",
        "limit",
        "limit_max",
        "name",
        "partition_count",
        "queues",
        "sticky",
        "sticky_size",
        "topic_id",
        "used_at",
    )

    def __init__(self, name: str, batch_size: int) -> None:
        self.name = name
        self.topic_id = b""
        self.used_at = 0.0
        """When a batch was last opened, or the topic was."""
        self.partition_count = 0
        self.queues: list[PartitionQueue] = []
        """By partition; never shrinks, also if the topic was made anew with fewer partitions."""
        self.available: list[PartitionQueue] = []
        """Those with a leader; all if none has one."""
        self.sticky: PartitionQueue | None = None
        self.sticky_size = 0
        """Bytes in batches closed for the sticky partition since it is that."""
        self.limit = batch_size
        """Bytes an open batch may hold, not compressed."""
        self.limit_max = batch_size * _GROWTH_MAX
        self._ratio = 1.0

    def observe_ratio(self, size: int, sealed_size: int, batch_size: int) -> None:
        """Learn from a sealed batch how far this topic's records shrink."""
        self._ratio += (sealed_size / size - self._ratio) * _RATIO_WEIGHT
        planned = int(batch_size / (self._ratio * _RATIO_CAUTION))
        self.limit = min(max(planned, min(batch_size, self.limit_max)), self.limit_max)

    def shrink(self, refused_size: int) -> None:
        """Learn that a batch of this size, not compressed, was too large for the broker."""
        self.limit_max = max(HEADER_SIZE + 1, min(self.limit_max, refused_size // 2))
        self.limit = min(self.limit, self.limit_max)


class RecordPlace(NamedTuple):
    """Where a record was put."""

    batch: ProducerBatch
    record_index: int


class Accumulator:
    """All batches of one producer that are not settled."""

    def __init__(self, bounds: Bounds, random: Random, guard: Guard) -> None:
        self._bounds = bounds
        self._random = random
        self._guard = guard
        self._record_size_max = min(bounds.max_request_size, bounds.buffer_memory) - HEADER_SIZE
        self.topics: dict[str, TopicQueues] = {}
        self.used = 0
        """Bytes of `buffer.memory` that are taken."""
        self._overdrawn = False
        self.ready: dict[PartitionQueue, None] = {}
        """Partitions with closed batches, for the sender to take away from here."""
        self._lingering: deque[tuple[PartitionQueue, ProducerBatch]] = deque()
        self._aging: deque[tuple[PartitionQueue, ProducerBatch]] = deque()
        self._sweep_at = _SWEEP_COUNT

    # Topics

    def update_topic(self, name: str, topic_id: bytes, leaders: Sequence[int]) -> TopicQueues:
        """Take over what metadata says of a topic; `leaders` by partition, -1 where there is none.

        The caller looks after queues with closed batches whose leader is another one now.
        """
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = TopicQueues(name, self._bounds.batch_size)
        topic.topic_id = topic_id
        topic.partition_count = len(leaders)
        for partition in range(len(topic.queues), len(leaders)):
            topic.queues.append(self._queue(name, partition))
        for queue, leader in zip(topic.queues, leaders, strict=False):
            queue.leader = leader
        for queue in topic.queues[len(leaders) :]:
            queue.leader = NO_LEADER
        known = topic.queues[: len(leaders)]
        topic.available = [queue for queue in known if queue.leader != NO_LEADER] or known
        if topic.sticky is None or topic.sticky.leader == NO_LEADER:
            topic.sticky = self._another(topic, 0.0)
            topic.sticky_size = 0
        return topic

    def _queue(self, name: str, partition: int) -> PartitionQueue:
        bounds = self._bounds
        return PartitionQueue(
            name, partition, self._guard, bounds.in_flight_max, idempotent=bounds.idempotent
        )

    def queues(self) -> Iterator[PartitionQueue]:
        """Yield every partition of every topic."""
        for topic in self.topics.values():
            yield from topic.queues

    # Adding records

    def has_room(self, size: int) -> bool:
        """Tell whether there is room for this many bytes.

        There always is while no more than half is taken, as whoever waits for room relies on: a
        record of more than half the buffer may take it past `buffer.memory` by as much.
        """
        most = self._bounds.buffer_memory
        return self._overdrawn or self.used + size <= most or self.used <= most // 2

    @contextmanager
    def overdrawn(self) -> Iterator[None]:
        """Open batches for records that had their room already, whatever is left."""
        self._overdrawn = True
        try:
            yield
        finally:
            self._overdrawn = False

    def checked_size(
        self, key: bytes | None, value: bytes | None, headers: Sequence[RecordHeader]
    ) -> int:
        """Return the most bytes a record may take; RecordTooLarge if it can never be sent."""
        size = record_size_bound(key, value, headers)
        if size <= self._record_size_max:
            return size
        for name, most in (
            ("max_request_size", self._bounds.max_request_size),
            ("buffer_memory", self._bounds.buffer_memory),
        ):
            if size + HEADER_SIZE > most:
                raise RecordTooLarge(f"a record of {size} bytes does not fit {name}={most}")
        return size

    def add(
        self,
        topic: TopicQueues,
        queue: PartitionQueue | None,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[RecordHeader],
        size: int,
        now: float,
        full: ProducerBatch | None = None,
    ) -> RecordPlace | None:
        """Put a record where there is no open batch with room for it; None if memory is used up.

        Without a queue it goes to the sticky one. `size` is `checked_size` of the record, `full`
        the open batch that is known to have no room for it.
        """
        target = queue
        while True:
            if queue is None:
                assert topic.sticky is not None
                target = topic.sticky
            assert target is not None
            batch = target.open
            if batch is not None:
                index = batch.count
                if batch is not full and batch.append(
                    timestamp_ms, key, value, headers, None, topic.limit
                ):
                    return RecordPlace(batch, index)
                self._close(topic, target, now)
                continue
            reserved = max(topic.limit, size + HEADER_SIZE)
            if not self.has_room(reserved):
                return None
            batch = self._begun(target, reserved, now)
            # A record that cannot be written raises here, before an empty batch is anybody's.
            batch.append(timestamp_ms, key, value, headers)
            self._open(target, batch)
            topic.used_at = now
            return RecordPlace(batch, 0)

    def _begun(self, queue: PartitionQueue, reserved: int, now: float) -> ProducerBatch:
        bounds = self._bounds
        return ProducerBatch(
            BatchResult(queue.topic, queue.partition, self._guard),
            bounds.codec,
            bounds.level,
            transactional=bounds.transactional,
            opened_at=now,
            deadline=now + bounds.delivery_timeout_s,
            reserved=reserved,
        )

    def add_batch(
        self, topic: TopicQueues, queue: PartitionQueue, batch: ProducerBatch, now: float
    ) -> None:
        """Take a batch that was filled elsewhere, behind what its partition has; it is ready.

        The caller has asked for room, as for a record.
        """
        if queue.open is not None:
            self._close(topic, queue, now)
        self._hold(queue, batch)
        self._close(topic, queue, now)
        topic.used_at = now

    def _open(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self._hold(queue, batch)
        self._lingering.append((queue, batch))

    def _hold(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self.used += batch.reserved
        queue.open = batch
        if len(self._aging) >= self._sweep_at:
            self._sweep()
        self._aging.append((queue, batch))

    def _sweep(self) -> None:
        """Forget settled batches that one that is not keeps from being forgotten in their turn."""
        self._aging = deque(self.unsettled())
        self._sweep_at = max(_SWEEP_COUNT, 2 * len(self._aging))

    def _close(self, topic: TopicQueues, queue: PartitionQueue, now: float) -> None:
        batch = queue.open
        assert batch is not None
        queue.close_open()
        self.ready[queue] = None
        self.used += batch.size - batch.reserved
        batch.reserved = batch.size
        if queue is topic.sticky:
            topic.sticky_size += batch.size
            if topic.sticky_size >= topic.limit * _ENOUGH:
                topic.sticky = self._another(topic, now)
                topic.sticky_size = 0

    def _another(self, topic: TopicQueues, now: float) -> PartitionQueue:
        """Draw the partition that records without a key go to next."""
        queues = topic.available
        if len(queues) == 1:
            return queues[0]
        draw = self._random.randrange
        one = queues[draw(len(queues))]
        if not self._bounds.adaptive:
            return one
        other = queues[draw(len(queues))]
        return min(one, other, key=lambda queue: (self._is_stuck(queue, now), queue.load))

    def _is_stuck(self, queue: PartitionQueue, now: float) -> bool:
        """Tell whether batches have been waiting for `partitioner.availability.timeout.ms`."""
        timeout_s = self._bounds.availability_timeout_s
        if not timeout_s or not queue.waiting:
            return False
        return now - queue.waiting[0].opened_at > timeout_s + self._bounds.linger_s

    # Time

    def linger_end(self) -> float | None:
        """Return when the oldest open batch has lingered long enough; None if none is open."""
        lingering = self._lingering
        while lingering and lingering[0][0].open is not lingering[0][1]:
            lingering.popleft()
        return lingering[0][1].opened_at + self._bounds.linger_s if lingering else None

    def close_lingering(self, now: float) -> None:
        """Close the batches that have been open for `linger.ms`."""
        while (end := self.linger_end()) is not None and end <= now:
            queue, _ = self._lingering.popleft()
            self._close(self.topics[queue.topic], queue, now)

    def close_all(self, now: float) -> None:
        """Close every open batch: somebody flushes, or the buffer is used up."""
        for queue, batch in self._lingering:
            if queue.open is batch:
                self._close(self.topics[queue.topic], queue, now)
        self._lingering.clear()

    def expiry(self) -> float | None:
        """Return when the oldest batch is to be given up; None if there is none."""
        aging = self._aging
        while aging and aging[0][1].batch_result.done:
            aging.popleft()
        return aging[0][1].deadline if aging else None

    def expired(self, now: float) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Return the batches that are past their deadline, for the caller to give up."""
        late = []
        while (deadline := self.expiry()) is not None and deadline <= now:
            late.append(self._aging.popleft())
        return late

    def unsettled(self) -> list[tuple[PartitionQueue, ProducerBatch]]:
        """Return every batch that is not settled, oldest first."""
        return [(queue, batch) for queue, batch in self._aging if not batch.batch_result.done]

    # Ends

    def release(self, batch: ProducerBatch) -> None:
        """Give back the room of a batch that is settled, and what it took.

        The batch itself may have to wait here behind an older one that is not.
        """
        self.used -= batch.reserved
        batch.reserved = 0
        batch.drop()

    def split(self, queue: PartitionQueue, batch: ProducerBatch) -> list[ProducerBatch]:
        """Put the halves of a batch in its place, and return them: it was too large."""
        self.topics[queue.topic].shrink(batch.size)
        halves = queue.split(batch)
        self._aging.extendleft((queue, half) for half in reversed(halves))
        self.used += sum(half.reserved for half in halves)
        self.release(batch)
        return halves
