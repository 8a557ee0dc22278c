"""Consume, transform, produce, exactly once: one copier with librdkafka, in small transactions.

The offsets that were read are committed with what was written (KIP-447), so every transaction goes
through both coordinators and ends with markers in the data and in the offsets.
"""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

_STALL_S = 60

_RETRY_BACKOFF_MS = 1
"""Kafka answers EndTxn before its markers are written, and tells a next transaction that comes too
early to come again. With librdkafka's 100 ms it would be this pause that is measured."""


def run(
    address: str, source: str, target: str, partitions: int, size: int, warm_up: int, count: int
) -> dict[str, float]:
    """Copy `warm_up` transactions of `size` records, then `count` of them by the clock."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench-copier",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    assigned = [TopicPartition(source, each, OFFSET_BEGINNING) for each in range(partitions)]
    consumer.assign(assigned)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": "bench-copier",
            "linger.ms": 5,
            "retry.backoff.ms": _RETRY_BACKOFF_MS,
        }
    )
    producer.init_transactions(_STALL_S)
    for _ in range(warm_up):
        _copy(consumer, producer, target, assigned, size)
    began = time.perf_counter()
    for _ in range(count):
        _copy(consumer, producer, target, assigned, size)
    seconds = time.perf_counter() - began
    consumer.close()
    return {"seconds": seconds, "records": count * size}


def _copy(
    consumer: Consumer, producer: Producer, target: str, assigned: list[TopicPartition], size: int
) -> None:
    """Take so many records, write them in upper case, and commit all that at once."""
    producer.begin_transaction()
    taken = 0
    while taken < size:
        messages = consumer.consume(size - taken, _STALL_S)
        if not messages:
            raise RuntimeError(f"no records for {_STALL_S} s")
        for message in messages:
            if message.error() is not None:
                raise KafkaException(message.error())
            value, partition = message.value(), message.partition()
            assert value is not None
            assert partition is not None
            producer.produce(target, value.upper(), partition=partition)
        taken += len(messages)
    positions = [each for each in consumer.position(assigned) if each.offset >= 0]
    metadata = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction(positions, metadata, _STALL_S)
    producer.commit_transaction(_STALL_S)
