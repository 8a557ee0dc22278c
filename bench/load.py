"""The client side of every kind of work, run in its own process: `python -m bench.load JSON`.

The argument names a load and its parameters; the result is one line of JSON on standard output.
Most are librdkafka's (through confluent-kafka), with the same settings whatever the broker; where a
client library would be the limit, the load speaks the protocol itself.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench import (
    commit_load,
    copy_load,
    delivery_load,
    group_members,
    java_producer,
    keyed_load,
    many_connections,
    steady_writers,
    topic_load,
)
from bench.percentiles import percentiles

Result = dict[str, float]

_QUEUED_MESSAGES = 1_000_000
_QUEUED_KBYTES = 1_048_576
"""Room for a gigabyte in the client, so that it never waits for its own queue."""
_PAYLOADS = 64
"""Distinct random payloads: enough that nothing on the way can profit from repetition."""
_BATCHED = 1200
"""Records handed to the client in one call: one by one, the calls would be the limit."""
_FLUSH_TIMEOUT_S = 600
_STALL_S = 60


def produce(address: str, topic: str, partitions: int, size: int, count: int) -> Result:
    """Write `count` records of `size` random bytes round robin, as fast as they are taken.

    Records are handed over many at a time, and the client reports failures only: calls from and
    to Python for every record would make the client the limit, not the broker. What has arrived
    is told by the offsets.
    """
    failures: list[Any] = []
    before = _written(address, topic, partitions)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": _QUEUED_MESSAGES,
            "queue.buffering.max.kbytes": _QUEUED_KBYTES,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    batch = _messages(size, partitions)
    producer.list_topics(topic, 30)
    began = time.perf_counter()
    for _ in range(count // len(batch)):
        _queue(producer, topic, batch)
    _queue(producer, topic, batch[: count % len(batch)])
    unsent = producer.flush(_FLUSH_TIMEOUT_S)
    seconds = time.perf_counter() - began
    written = _written(address, topic, partitions) - before
    if failures or unsent or written != count:
        raise RuntimeError(f"{written} of {count} written, {unsent} unsent: {failures[:1]}")
    return {"seconds": seconds, "records": count, "bytes": count * size}


def _messages(size: int, partitions: int) -> list[dict[str, Any]]:
    """Make a round over the partitions, several times over, in the form of `produce_batch`."""
    payloads = [random.randbytes(size) for _ in range(_PAYLOADS)]
    rounds = max(1, _BATCHED // partitions)
    return [
        {"value": payloads[number % _PAYLOADS], "partition": number % partitions}
        for number in range(rounds * partitions)
    ]


def _queue(producer: Producer, topic: str, messages: list[dict[str, Any]]) -> None:
    """Hand messages to the client, waiting while its queue is full."""
    while messages:
        if producer.produce_batch(topic, messages) == len(messages):
            break
        messages = [message for message in messages if message.pop("_error", None)]
        producer.poll(0.05)
    producer.poll(0)


def _written(address: str, topic: str, partitions: int) -> int:
    """Count the records that all partitions ever took."""
    wanted = {TopicPartition(topic, each): OffsetSpec.latest() for each in range(partitions)}
    admin = AdminClient({"bootstrap.servers": address})
    return sum(future.result().offset for future in admin.list_offsets(wanted).values())


def fetch(address: str, topic: str, partitions: int, count: int) -> Result:
    """Read `count` records from the beginning of all partitions, by assignment.

    The clock starts with the first record: before that the client finds its brokers, at its ease.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": _QUEUED_MESSAGES,
            "queued.max.messages.kbytes": _QUEUED_KBYTES,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])

    def read(most: int) -> tuple[int, int]:
        messages = consumer.consume(most, _STALL_S)
        if not messages:
            raise RuntimeError(f"{records} of {count} records, then none for {_STALL_S} s")
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
        return len(messages), sum(map(len, messages))

    records = 0
    read(1)
    began = time.perf_counter()
    size = 0
    while records < count - 1:
        more, more_size = read(min(10_000, count - 1 - records))
        records += more
        size += more_size
    seconds = time.perf_counter() - began
    consumer.close()
    return {"seconds": seconds, "records": records, "bytes": size}


def one_at_a_time(
    address: str, topic: str, size: int, warm_up: int, count: int, until: str | None = None
) -> Result:
    """Send a record, wait for its acknowledgement, send the next; times in microseconds.

    With `until`, go on after `count` records as long as that file does not exist.
    """
    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    payload = random.randbytes(size)
    acknowledged: list[Any] = []
    times_us: list[float] = []
    stop = Path(until) if until else None
    number = 0
    while number < warm_up + count or (stop is not None and not stop.exists()):
        acknowledged.clear()
        began = time.perf_counter()
        producer.produce(
            topic, payload, partition=0, on_delivery=lambda error, _: acknowledged.append(error)
        )
        while not acknowledged:
            producer.poll(1)
        took_us = (time.perf_counter() - began) * 1e6
        if acknowledged[0] is not None:
            raise KafkaException(acknowledged[0])
        if number >= warm_up:
            times_us.append(took_us)
        number += 1
    return percentiles(times_us)


def spread(address: str, topic: str, partitions: int, records_per_partition: int) -> Result:
    """Write a few small records to each of many partitions."""
    return produce(address, topic, partitions, 100, partitions * records_per_partition)


LOADS: dict[str, Callable[..., Result]] = {
    "produce": produce,
    "fetch": fetch,
    "one_at_a_time": one_at_a_time,
    "spread": spread,
    "many_connections": many_connections.run,
    "group_members": group_members.run,
    "commits": commit_load.commits,
    "write_offsets": commit_load.write,
    "copy": copy_load.run,
    "produce_keyed": keyed_load.run,
    "deliver": delivery_load.run,
    "produce_java": java_producer.run,
    "write_steadily": steady_writers.run,
    "create_topics": topic_load.run,
}


def main() -> None:
    asked = json.loads(sys.argv[1])
    result = LOADS[asked.pop("load")](**asked)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
