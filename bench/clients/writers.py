"""Writing records one by one, with a result for each, with every client; one per process.

    python -m bench.clients.writers moldau-async 127.0.0.1:9092 topic 200000 100

prints what it took until every result was known; connecting is not counted. All have acks=all, the
batch size and linger time of Kafka's own producer, and look at every result.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

from bench.clients.readers import Watch

BATCH_SIZE = 16_384
LINGER_MS = 5


def moldau_async(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    from moldau.client import AsyncProducer  # noqa: PLC0415 - each process has one client

    async def write() -> dict[str, float]:
        value = b"x" * size
        async with AsyncProducer(address) as producer:
            await producer.send(topic, value)
            watch = Watch()
            deliveries = []
            for _ in range(count):
                deliveries.append(producer.send(topic, value))
                await producer.drain()
            await producer.flush()
            for delivery in deliveries:
                await delivery
            return watch.per_record(count)

    return asyncio.run(write())


def moldau_blocking(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    from moldau.client import Producer  # noqa: PLC0415 - each process has one client

    value = b"x" * size
    with Producer(address) as producer:
        producer.send(topic, value).result()
        watch = Watch()
        deliveries = [producer.send(topic, value) for _ in range(count)]
        producer.flush()
        for delivery in deliveries:
            delivery.result()
        return watch.per_record(count)


def aiokafka(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - each process has one client

    async def write() -> dict[str, float]:
        value = b"x" * size
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            acks="all",
            enable_idempotence=True,
            max_batch_size=BATCH_SIZE,
            linger_ms=LINGER_MS,
        )
        await producer.start()
        try:
            await producer.send_and_wait(topic, value)
            watch = Watch()
            deliveries = [await producer.send(topic, value) for _ in range(count)]
            await producer.flush()
            for delivery in deliveries:
                await delivery
            return watch.per_record(count)
        finally:
            await producer.stop()

    return asyncio.run(write())


def kafka_python(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    from kafka import KafkaProducer  # noqa: PLC0415 - each process has one client

    value = b"x" * size
    producer = KafkaProducer(
        bootstrap_servers=address, acks="all", batch_size=BATCH_SIZE, linger_ms=LINGER_MS
    )
    producer.send(topic, value).get(30)
    watch = Watch()
    deliveries = [producer.send(topic, value) for _ in range(count)]
    producer.flush()
    for delivery in deliveries:
        delivery.get(30)
    figures = watch.per_record(count)
    producer.close()
    return figures


WRITERS: dict[str, Callable[[str, str, int, int], dict[str, float]]] = {
    "moldau-async": moldau_async,
    "aiokafka": aiokafka,
    "moldau-blocking": moldau_blocking,
    "kafka-python": kafka_python,
}


if __name__ == "__main__":
    name, address, topic, count, size = sys.argv[1:]
    print(json.dumps(WRITERS[name](address, topic, int(count), int(size))))
