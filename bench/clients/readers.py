"""Reading a partition from its beginning with every client; one per process.

    python -m bench.clients.readers moldau-async 127.0.0.1:9092 topic 500000

prints what it took, behind the first records: connecting and the first fetch are not counted.

Whoever is handed records looks at key, value and offset of each in the same way, without a call of
its own: that would cost as much as some of the clients. Nobody commits.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from itertools import islice


class Watch:
    """Wall and CPU time of this process since the first record."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def per_record(self, count: int) -> dict[str, float]:
        """Return the rate and what a record cost."""
        wall_s, cpu_s = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"records_per_s": count / wall_s, "cpu_us": cpu_s / count * 1e6}


def moldau_async(address: str, topic: str, count: int) -> dict[str, float]:
    from moldau.client import AsyncConsumer  # noqa: PLC0415 - each process has one client

    async def read() -> dict[str, float]:
        async with AsyncConsumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
            seen = size = 0
            watch = Watch()
            async for record in consumer:
                _key, _offset, size = record.key, record.offset, size + len(record.value)
                seen += 1
                if seen == 1:
                    watch = Watch()
                if seen == count:
                    break
            return watch.per_record(count)

    return asyncio.run(read())


def moldau_blocking(address: str, topic: str, count: int) -> dict[str, float]:
    from moldau.client import Consumer  # noqa: PLC0415 - each process has one client

    with Consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        records = iter(consumer)
        size = len(next(records).value)
        watch = Watch()
        for record in islice(records, count - 1):
            _key, _offset, size = record.key, record.offset, size + len(record.value)
        return watch.per_record(count)


def moldau_batches(address: str, topic: str, count: int) -> dict[str, float]:
    from moldau.client import Consumer  # noqa: PLC0415 - each process has one client

    with Consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        batches = consumer.batches()
        seen = size = 0
        first = len(next(batches))
        watch = Watch()
        for records in batches:
            seen += len(records)
            for record in records:
                _key, _offset, size = record.key, record.offset, size + len(record.value)
            if seen >= count - first:
                break
        return watch.per_record(seen)


def aiokafka(address: str, topic: str, count: int) -> dict[str, float]:
    from aiokafka import AIOKafkaConsumer  # noqa: PLC0415 - each process has one client

    async def read() -> dict[str, float]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=address, auto_offset_reset="earliest", group_id=None
        )
        await consumer.start()
        try:
            seen = size = 0
            watch = Watch()
            async for record in consumer:
                _key, _offset, size = record.key, record.offset, size + len(record.value)
                seen += 1
                if seen == 1:
                    watch = Watch()
                if seen == count:
                    break
            return watch.per_record(count)
        finally:
            await consumer.stop()

    return asyncio.run(read())


def kafka_python(address: str, topic: str, count: int) -> dict[str, float]:
    from kafka import KafkaConsumer  # noqa: PLC0415 - each process has one client

    consumer = KafkaConsumer(
        topic, bootstrap_servers=address, auto_offset_reset="earliest", group_id=None
    )
    try:
        size = len(next(consumer).value)
        watch = Watch()
        for record in islice(consumer, count - 1):
            _key, _offset, size = record.key, record.offset, size + len(record.value)
        return watch.per_record(count)
    finally:
        consumer.close()


def moldau_columns(address: str, topic: str, count: int) -> dict[str, float]:
    from moldau.client import Consumer  # noqa: PLC0415 - each process has one client

    with Consumer(address, topics=[topic], auto_offset_reset="earliest") as consumer:
        batches = consumer.arrow_batches()
        first, seen = next(batches).num_rows, 0
        watch = Watch()
        while seen < count - first:
            seen += next(batches).num_rows
        return watch.per_record(seen)


def confluent_kafka(address: str, topic: str, count: int) -> dict[str, float]:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 - as above

    settings = {
        "bootstrap.servers": address,
        "group.id": "unused",
        "enable.auto.commit": False,
        # With its default it stops fetching for a second whenever 100,000 records wait.
        "queued.min.messages": 1_000_000,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        seen = size = 0
        first = len(consumer.consume(10_000, 10))
        watch = Watch()
        while seen < count - first:
            messages = consumer.consume(10_000, 10)
            seen += len(messages)
            for message in messages:
                _key, _offset, size = message.key(), message.offset(), size + len(message.value())
        return watch.per_record(seen)
    finally:
        consumer.close()


READERS: dict[str, Callable[[str, str, int], dict[str, float]]] = {
    "moldau-async": moldau_async,
    "aiokafka": aiokafka,
    "moldau-blocking": moldau_blocking,
    "kafka-python": kafka_python,
    "moldau-columns": moldau_columns,
    "moldau-batches": moldau_batches,
    "confluent-kafka": confluent_kafka,
}


if __name__ == "__main__":
    name, address, topic, count = sys.argv[1:]
    print(json.dumps(READERS[name](address, topic, int(count))))
