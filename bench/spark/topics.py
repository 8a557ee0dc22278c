"""Topics to read from and to write to.

What is read was written by librdkafka, which is neither side's own, with keys, and in batches as
large as it makes them where records come as fast as they are taken; or as small as Java's are by
default, where that is the point.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.kafka_harness.topics import create_topic

PARTITIONS = 6
JAVA_BATCH_SIZE = 16_384

_PAYLOADS = 64
"""Distinct random payloads: enough that nothing on the way can profit from repetition."""
_HANDED_OVER = 1_000
"""Records handed to the client in one call, or the calls would take longer than the writing."""
_LINGER_MS = 1_000
"""Long, so that batches are full however slowly records come."""
_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Content:
    """What a topic holds."""

    rows: int
    """A multiple of the partitions: all of them have as many."""
    size: int
    """Of a value, in bytes."""
    spread: int = 0
    """By how much values are smaller or larger than that."""
    batch_size: int = 1_000_000

    @property
    def name(self) -> str:
        """The topic that has it: contests over the same content read the same one."""
        return f"rows-{self.rows}-{self.size}-{self.spread}-{self.batch_size}"


def topic_with(address: str, content: Content) -> str:
    """Return the topic with this content, made and filled the first time."""
    admin = AdminClient({"bootstrap.servers": address})
    if content.name not in admin.list_topics(timeout=_TIMEOUT_S).topics:
        _fill(address, empty(address, content.name), content)
    return content.name


def _fill(address: str, topic: str, content: Content) -> None:
    failures: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": _LINGER_MS,
            "batch.size": content.batch_size,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    messages = _messages(content)
    left = content.rows // PARTITIONS
    while left > 0:
        for partition in range(PARTITIONS):
            _hand_over(producer, topic, partition, messages[:left])
        left -= len(messages)
    if producer.flush(_TIMEOUT_S) or failures:
        raise RuntimeError(f"{topic} could not be filled: {failures[:1]}")
    check_count(address, topic, content.rows)


def _messages(content: Content) -> list[dict[str, Any]]:
    """Make records in the form of `produce_batch`."""
    chance = random.Random(content.size)
    sizes = [
        content.size + chance.randint(-content.spread, content.spread) for _ in range(_PAYLOADS)
    ]
    payloads = [chance.randbytes(size) for size in sizes]
    return [
        {"key": b"%010d" % number, "value": payloads[number % _PAYLOADS]}
        for number in range(_HANDED_OVER)
    ]


def _hand_over(
    producer: Producer, topic: str, partition: int, messages: list[dict[str, Any]]
) -> None:
    """Give records to the client, waiting while its queue is full."""
    while producer.produce_batch(topic, messages, partition=partition) < len(messages):
        messages = [message for message in messages if message.pop("_error", None)]
        producer.poll(0.05)
    producer.poll(0)


def empty(address: str, name: str) -> str:
    """Create a topic that keeps everything, whatever the clock says."""
    return create_topic(address, name, PARTITIONS, {"retention.ms": "-1"})


def deleted(address: str, name: str) -> None:
    """Delete a topic."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_topics([name])[name].result(_TIMEOUT_S)


def check_count(address: str, topic: str, count: int) -> None:
    """See that a topic has as many records as it should, or more: markers of transactions count."""
    wanted = {TopicPartition(topic, each): OffsetSpec.latest() for each in range(PARTITIONS)}
    admin = AdminClient({"bootstrap.servers": address})
    found = sum(future.result().offset for future in admin.list_offsets(wanted).values())
    if not count <= found <= count + PARTITIONS:
        raise RuntimeError(f"{topic} has {found} records, not {count}")
