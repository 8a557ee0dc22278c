"""From a producer to a consumer, one record at a time, both with librdkafka in this process."""

from __future__ import annotations

import random
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.percentiles import percentiles

_STALL_S = 60


def run(address: str, topic: str, size: int, warm_up: int, count: int) -> dict[str, float]:
    """Send a record, wait until it is consumed, send the next; times in microseconds.

    The consumer's fetch waits at the broker when a record is sent, as it does in a quiet topic.
    """
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    payload = random.randbytes(size)
    times_us = []
    for _ in range(warm_up + count):
        began = time.perf_counter()
        producer.produce(topic, payload, partition=0)
        message = consumer.poll(_STALL_S)
        took_us = (time.perf_counter() - began) * 1e6
        if message is None:
            raise RuntimeError(f"a record was not consumed within {_STALL_S} s")
        if message.error() is not None:
            raise KafkaException(message.error())
        producer.poll(0)
        times_us.append(took_us)
    consumer.close()
    return percentiles(times_us[warm_up:])
