"""Writing records one by one, with a result for each, with every client; one per process.

    python -m bench.clients.writers moldau-async 127.0.0.1:9092 topic 200000 100

prints what it took until every result was known; connecting is not counted. All have acks=all, the
batch size and linger time of Kafka's own producer, and look at every result.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from bench.clients.readers import Watch

BATCH_SIZE = 16_384
LARGE_BATCH_SIZE = 1_000_000
"""librdkafka's own default."""
LINGER_MS = 5
GATHERED = 20_000
"""Records whose results `asyncio.gather` collects at once."""
POLLED = 1000
"""Records for each `poll` of confluent-kafka: a `poll` for each record would slow it down."""


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


def moldau_gather(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    from moldau.client import AsyncProducer  # noqa: PLC0415 - each process has one client

    async def write() -> dict[str, float]:
        value = b"x" * size
        async with AsyncProducer(address) as producer:
            await producer.send(topic, value)
            watch = Watch()
            for _ in range(count // GATHERED):
                deliveries = []
                for _ in range(GATHERED):
                    deliveries.append(producer.send(topic, value))
                    await producer.drain()
                await asyncio.gather(*deliveries)
            return watch.per_record(count)

    return asyncio.run(write())


def moldau_blocking(
    address: str, topic: str, count: int, size: int, batch_size: int = BATCH_SIZE
) -> dict[str, float]:
    from moldau.client import Producer  # noqa: PLC0415 - each process has one client

    value = b"x" * size
    with Producer(address, batch_size=batch_size) as producer:
        producer.send(topic, value).result()
        watch = Watch()
        deliveries = [producer.send(topic, value) for _ in range(count)]
        producer.flush()
        for delivery in deliveries:
            delivery.result()
        return watch.per_record(count)


def aiokafka(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    async def write(producer: Any) -> None:
        value = b"x" * size
        deliveries = [await producer.send(topic, value) for _ in range(count)]
        await producer.flush()
        for delivery in deliveries:
            await delivery

    return asyncio.run(_aiokafka_figures(address, topic, count, write))


def aiokafka_gather(address: str, topic: str, count: int, size: int) -> dict[str, float]:
    async def write(producer: Any) -> None:
        value = b"x" * size
        for _ in range(count // GATHERED):
            deliveries = [await producer.send(topic, value) for _ in range(GATHERED)]
            await asyncio.gather(*deliveries)

    return asyncio.run(_aiokafka_figures(address, topic, count, write))


async def _aiokafka_figures(
    address: str, topic: str, count: int, write: Callable[[Any], Awaitable[None]]
) -> dict[str, float]:
    from aiokafka import AIOKafkaProducer  # noqa: PLC0415 - each process has one client

    producer = AIOKafkaProducer(
        bootstrap_servers=address,
        acks="all",
        enable_idempotence=True,
        max_batch_size=BATCH_SIZE,
        linger_ms=LINGER_MS,
    )
    await producer.start()
    try:
        await producer.send_and_wait(topic, b"connected")
        watch = Watch()
        await write(producer)
        return watch.per_record(count)
    finally:
        await producer.stop()


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


def confluent_kafka(
    address: str, topic: str, count: int, size: int, batch_size: int = BATCH_SIZE
) -> dict[str, float]:
    from confluent_kafka import Producer  # noqa: PLC0415 - each process has one client

    value = b"x" * size
    failed = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "enable.idempotence": True,
            "batch.size": batch_size,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 10 * count,
        }
    )
    producer.produce(topic, value, on_delivery=delivered)
    producer.flush()
    watch = Watch()
    for number in range(count):
        producer.produce(topic, value, on_delivery=delivered)
        if number % POLLED == 0:
            producer.poll(0)
    producer.flush()
    figures = watch.per_record(count)
    assert not failed
    return figures


WRITERS: dict[str, Callable[[str, str, int, int], dict[str, float]]] = {
    "moldau-async": moldau_async,
    "moldau-gather": moldau_gather,
    "aiokafka": aiokafka,
    "aiokafka-gather": aiokafka_gather,
    "moldau-blocking": moldau_blocking,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
    "moldau-large": partial(moldau_blocking, batch_size=LARGE_BATCH_SIZE),
    "confluent-large": partial(confluent_kafka, batch_size=LARGE_BATCH_SIZE),
}


if __name__ == "__main__":
    name, address, topic, count, size = sys.argv[1:]
    print(json.dumps(WRITERS[name](address, topic, int(count), int(size))))
