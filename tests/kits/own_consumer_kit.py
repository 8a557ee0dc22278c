"""What tests of the consumer against a real broker share: topics with records in them."""

from __future__ import annotations

from contextlib import aclosing

from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.client.consumer import AsyncConsumer

WAIT_MS = 60_000


def topic_with(broker, *counts):
    """Create a topic whose partitions hold this many records, named by partition and offset."""
    topic = create_topic(broker.address, fresh_topic("own-consumer"), len(counts))
    for partition, count in enumerate(counts):
        if count:
            send(broker.address, topic, numbered(partition, count), partition)
    return topic


def numbered(partition, count, start=0):
    return [b"%d-%d" % (partition, offset) for offset in range(start, start + count)]


def reading(broker, **settings):
    return AsyncConsumer(broker.address, **{"auto_offset_reset": "earliest", **settings})


async def some(consumer, count):
    """Iterate over this many records, and leave the loop."""
    async with aclosing(aiter(consumer)) as walk:
        return [await anext(walk) for _ in range(count)]


def values(records):
    return [record.value for record in records]
