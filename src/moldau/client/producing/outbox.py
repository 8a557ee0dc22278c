"""The way of a record from `send` into a batch: choosing the partition, adding, waking the sender.

This is what a producer pays per record, so the usual way is one function, and everything that is
rare (no open batch, a full one, an unknown topic, a closed producer) is behind it. Nothing here
waits: an unknown topic is `None`, a full buffer is `BufferFull`, and each face does about them what
suits it. The blocking face calls with its lock held, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar, cast

from moldau.base.clock import Clock
from moldau.client.errors import (
    BufferFull,
    ClientError,
    InvalidArgument,
    SerializationFailed,
    UnknownTopicOrPartition,
)
from moldau.client.producing.accumulator import Accumulator, TopicQueues
from moldau.client.producing.batch_results import BatchResult, fresh
from moldau.client.producing.batches import ProducerBatch
from moldau.client.producing.deliveries import AsyncDelivery, Delivery
from moldau.client.producing.queues import PartitionQueue
from moldau.client.records import Header
from moldau.engine.arguments import check_int, check_topic
from moldau.engine.metadata import TopicImage
from moldau.engine.murmur2 import partition_for_key

D = TypeVar("D")

TIMESTAMP_MAX_MS: Final = (1 << 63) - 1
"""What 64 bits hold; negative ones Kafka's producer refuses too."""


class Outbox(Generic[D]):
    """Where records are put. `D` is the kind of delivery that `for_threads` chooses."""

    def __init__(
        self,
        accumulator: Accumulator,
        clock: Clock,
        *,
        for_threads: bool,
        hashes_keys: bool,
    ) -> None:
        self._accumulator = accumulator
        self._clock = clock
        self._wall_ms = clock.wall_ms
        self._for_threads = for_threads
        self._hashes_keys = hashes_keys
        self._known: dict[str, TopicQueues] = {}
        self._topics: dict[str, TopicQueues] = {}
        """The known ones; none while sending is refused: then every record takes the slow path."""
        self._refusal: ClientError | None = None
        self._is_over = False
        self.before_batch: Callable[[], None] = _nothing
        """Called before a batch is opened, which is often enough for what is always the same."""
        self.on_news: Callable[[], None] = _nothing
        """Called when a batch was opened or closed: the sender may have something to do."""

    def put_locked(
        self,
        lock: threading.Lock,
        topic: Any,
        key: Any,
        value: Any,
        partition: Any,
        timestamp_ms: Any,
        headers: Any,
    ) -> D | None:
        """Put a record from a thread: in compiled code the lock costs half of a `with`."""
        lock.acquire()
        try:
            return self.put(topic, key, value, partition, timestamp_ms, headers)
        finally:
            lock.release()

    def put(
        self,
        topic: Any,
        key: Any,
        value: Any,
        partition: Any,
        timestamp_ms: Any,
        headers: Any,
    ) -> D | None:
        """Put a record into a batch; None if its topic, or partition, is not known.

        Little is checked before it fails: the types are what users gave. A wrong timestamp would
        only be noticed when the batch is sealed, when it takes all others of the batch with it; and
        what is no bytes, but can be joined to some, may have another length than its len() tells.
        """
        try:
            is_usual = (
                type(value) is bytes
                and (key is None or type(key) is bytes)
                and (partition is None or type(partition) is int)
            )
            if not is_usual and not _is_writable(key, value, partition):
                raise TypeError("of a type that is not written as it is")
            queues = self._topics.get(topic)
            if queues is None:
                self._check_open()
                return None
            timestamp_ms = (
                self._wall_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
            )
            chosen: PartitionQueue | None = None
            if partition is not None:
                if not 0 <= partition < queues.partition_count:
                    return None
                chosen = queues.queues[partition]
            elif key is not None and self._hashes_keys:
                chosen = queues.queues[partition_for_key(key, queues.partition_count)]
            queue = queues.sticky if chosen is None else chosen
            assert queue is not None
            batch = queue.open
            if batch is not None:
                index = batch.count
                if batch.append(timestamp_ms, key, value, headers, None, queues.limit):
                    return self.delivery(batch.batch_result, index, timestamp_ms)
            return self._put_new(queues, chosen, timestamp_ms, key, value, headers, batch)
        except (TypeError, AttributeError, ValueError) as error:
            check_target(topic, partition)
            check_bytes(key, value, headers)
            if _are_plain(key, value, headers):
                raise SerializationFailed(f"the record cannot be written: {error}") from error
        # A bytearray has no hash and compiled code takes nothing but bytes; few records have any.
        key, value, headers = plain_fields(key, value, headers)
        return self.put(topic, key, value, partition, timestamp_ms, headers)

    def _put_new(
        self,
        queues: TopicQueues,
        queue: PartitionQueue | None,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        full: ProducerBatch | None,
    ) -> D:
        """Put a record where a batch must be opened, and perhaps another closed, for it."""
        self.before_batch()
        accumulator = self._accumulator
        size = accumulator.checked_size(key, value, headers)
        now = self._clock.monotonic()
        try:
            place = accumulator.add(
                queues, queue, timestamp_ms, key, value, headers, size, now, full
            )
        finally:
            self.on_news()  # also a record that is refused may have closed a batch before it
        if place is None:
            raise BufferFull(f"the buffer is full: {accumulator.used} bytes wait to be sent")
        return self.delivery(place.batch.batch_result, place.record_index, timestamp_ms)

    def delivery(self, batch_result: BatchResult, index: int, timestamp_ms: int) -> D:
        """Make the delivery of a record."""
        if self._for_threads:
            return cast("D", Delivery(batch_result, index, timestamp_ms))
        return cast("D", AsyncDelivery(batch_result, index, timestamp_ms))

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise fresh(self._refusal)

    def open_topic(self, image: TopicImage) -> TopicQueues:
        """Take records for a topic from now on."""
        leaders = [one.leader for one in image.partitions.values()]
        topic = self._accumulator.update_topic(image.name, image.topic_id, leaders)
        topic.used_at = self._clock.monotonic()
        self._known[image.name] = topic
        return topic

    def close_topic(self, name: str) -> None:
        """Let records of a topic take the slow path, so that they stay behind those that wait."""
        self._known.pop(name, None)

    def close_idle(self, since: float) -> list[str]:
        """Close topics that nothing was sent to since this time, and return their names.

        Their queues stay: the numbers of an idempotent producer go on where they were.
        """
        gone = [
            topic.name
            for topic in self._known.values()
            if topic.used_at <= since and all(queue.idle for queue in topic.queues)
        ]
        for name in gone:
            self.close_topic(name)
        return gone

    def used_first(self) -> float | None:
        """Return when the topic was used that was used least lately; None if none is known."""
        return min((topic.used_at for topic in self._known.values()), default=None)

    def knows(self, name: str) -> bool:
        """Tell whether records of a topic can be put."""
        return name in self._known

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic has, as was learned last: for partitioners."""
        return self._learned(topic).partition_count

    def available_partitions(self, topic: str) -> Sequence[int]:
        """Return the partitions of a topic that have a leader, all if none has."""
        return [queue.partition for queue in self._learned(topic).available]

    def _learned(self, topic: str) -> TopicQueues:
        """Find a topic that is known, or was: it may be closed while a partitioner is asked."""
        queues = self._accumulator.topics.get(topic)
        if queues is None:
            raise InvalidArgument(
                f"there is no metadata for topic {topic!r:.100}",
                advice="A partitioner can only ask about topics that records were sent to.",
            )
        return queues

    def refuse(self, error: ClientError) -> None:
        """Take nothing: every `send` raises this."""
        if not self._is_over:
            self._refusal = error
            self._topics = {}

    def refuse_for_good(self, error: ClientError) -> None:
        """Take nothing any more, whatever a transaction does."""
        self._is_over = False
        self.refuse(error)
        self._is_over = True

    def accept(self) -> None:
        """Take records; a producer that was closed, or has failed, stays so."""
        if not self._is_over:
            self._refusal = None
            self._topics = self._known


def no_such_partition(topic: str, partition: int | None, count: int) -> UnknownTopicOrPartition:
    """Make what a record is told whose partition does not exist."""
    return UnknownTopicOrPartition(
        f"{topic} has no partition {partition}: there are {count}",
        advice="Choose one that is there (the first is 0), or add partitions to the topic.",
    )


def check_target(topic: object, partition: object) -> None:
    """Say if a record is sent to what is no topic, or no partition."""
    check_topic(topic)
    if partition is not None:
        check_int("partition", partition)


def checked_timestamp(given: object) -> int:
    """Take a timestamp that a batch can hold, and refuse any other."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= TIMESTAMP_MAX_MS:
        return given
    raise SerializationFailed(
        f"timestamp_ms={given!r:.100} is not a timestamp",
        advice="It is an int: milliseconds since 1970, as int(time.time() * 1000) gives.",
    )


def check_bytes(key: object, value: object, headers: Any) -> None:
    """Say what of a record is of a type that cannot be written."""
    for name, given in (("key", key), ("value", value)):
        if not _is_bytes(given):
            raise SerializationFailed(
                f"the {name} is of type {type(given).__name__}, not bytes",
                advice=f"Set {name}_serializer, for instance to str.encode.",
            )
    if not isinstance(headers, (list, tuple)):
        raise _no_header(headers)
    for pair in headers:
        if not _is_header(pair):
            raise _no_header(pair)


def _no_header(given: object) -> SerializationFailed:
    return SerializationFailed(
        f"{given!r:.100} is not a header",
        advice="Headers are pairs of a str, in UTF-8, and bytes or None.",
    )


def _is_header(pair: object) -> bool:
    if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    try:
        pair[0].encode()
    except UnicodeEncodeError:
        return False
    return _is_bytes(pair[1])


def _is_bytes(given: object) -> bool:
    return given is None or isinstance(given, (bytes, bytearray, memoryview))


def plain_fields(
    key: Any, value: Any, headers: Any
) -> tuple[bytes | None, bytes | None, list[Header]]:
    """Make bytes and pairs of what counts as them, in a record that was checked."""
    pairs = [(name, _as_bytes(content)) for name, content in headers]
    return _as_bytes(key), _as_bytes(value), pairs


def _as_bytes(given: bytes | bytearray | memoryview | None) -> bytes | None:
    return None if given is None else bytes(given)


def _are_plain(key: object, value: object, headers: Any) -> bool:
    """Tell whether a record that was checked has bytes and tuples only."""
    contents = [key, value, *[content for _, content in headers]]
    return all(type(pair) is tuple for pair in headers) and all(map(_is_plain, contents))


def _is_writable(key: object, value: object, partition: object) -> bool:
    """Tell whether a record of unusual types is written as it is: by subclasses, or by None."""
    is_number = isinstance(partition, int) and not isinstance(partition, bool)
    return _is_plain(key) and _is_plain(value) and (partition is None or is_number)


def _is_plain(given: object) -> bool:
    return given is None or isinstance(given, bytes)


def _nothing() -> None:
    """Serve where nobody listens."""
