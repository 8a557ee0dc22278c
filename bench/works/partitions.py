"""Many partitions: making them, writing to each, holding them, and coming back with them.

The broker comes back once after a stop and once after a kill, with gigabytes in a few partitions
more. It may answer its first request long before it serves its logs, so both moments are taken.
"""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka_harness.broker import BrokerProcess

from bench.stage import (
    DATA_PARTITIONS,
    Stage,
    data_topic,
    fill,
    load,
    time_start,
    wait_until_served,
)
from bench.usage import peak_memory_mb

_RECORD_SIZE = 10_000


def run(stage: Stage) -> dict[str, float]:
    scale = stage.scale
    topics = {"many": scale.partitions, "history": DATA_PARTITIONS}
    with stage.broker() as broker:
        created = _create(broker, "many", scale.partitions)
        written = load(
            "spread",
            address=broker.address,
            topic="many",
            partitions=scale.partitions,
            records_per_partition=scale.records_per_partition,
        )
        memory = peak_memory_mb(broker.pid)
        data_topic(broker, "history")
        fill(broker, "history", _RECORD_SIZE, scale.history_bytes, scale.history_bytes)
        broker.stop()
        clean = _restart(broker, topics)
        # One more record everywhere, so that the kill finds every log with something unflushed.
        load("spread", address=broker.address, topic="many", partitions=scale.partitions,
             records_per_partition=1)  # fmt: skip
        broker.kill()
        killed = _restart(broker, topics)
    return {
        "create": created,
        "write": written["seconds"],
        "memory": memory,
        "clean_answer": clean[0],
        "clean_served": clean[1],
        "killed_answer": killed[0],
        "killed_served": killed[1],
    }


def _create(broker: BrokerProcess, topic: str, partitions: int) -> float:
    """Create a topic and return the seconds until its last partition is served."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.list_topics(timeout=30)  # the client's own start is not the broker's time
    new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
    began = time.perf_counter()
    admin.create_topics([new])[topic].result(60)
    wait_until_served(broker, {topic: partitions})
    return time.perf_counter() - began


def _restart(broker: BrokerProcess, topics: dict[str, int]) -> tuple[float, float]:
    began = time.perf_counter()
    answered = time_start(broker)
    wait_until_served(broker, topics)
    return answered, time.perf_counter() - began
