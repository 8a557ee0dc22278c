"""A follower that was away catches up while others write.

It is stopped in order, misses its share of a topic, and is started again. The seconds are those
from the start of its process until it is in sync everywhere. The speed leaves its start out: it is
taken from the first byte that its logs grow by.
"""

from __future__ import annotations

import time
from pathlib import Path

from confluent_kafka.admin import AdminClient
from tests.kafka_harness.topics import end_offset
from tests.kafka_harness.waiting import eventually

from bench.background_writer import BackgroundWriter
from bench.scale import MB
from bench.stage import BenchError, Stage, data_topic, fill, warm_up

FOLLOWER = 3
_RECORD_SIZE = 1_000
_TIMEOUT_S = 300
_PAUSE_S = 0.02


def run(stage: Stage) -> dict[str, float]:
    with stage.cluster() as cluster:
        warm_up(cluster, stage.scale, ["1kb"])
        topic, live = data_topic(cluster, "missed"), data_topic(cluster, "live", 1)
        follower = cluster.nodes[FOLLOWER]
        follower.stop()
        missed = stage.scale.missed_bytes
        fill(cluster, topic, _RECORD_SIZE, missed, missed)
        with BackgroundWriter(stage.directory, cluster.address, live) as writer:
            eventually(lambda: end_offset(cluster.address, live) > 100, "the writer writes")
            began = time.perf_counter()
            follower.launch()
            first = _wait_until_grown(follower.data, topic)
            end = _wait_until_in_sync(cluster.address, topic)
        times = writer.result()
    return {"seconds": end - began, "speed": missed / (end - first) / MB, "p99": times["p99"]}


def _wait_until_grown(data: Path, topic: str) -> float:
    """Return the moment in which the logs of a topic are larger than at first."""
    before = _stored_bytes(data, topic)
    deadline = time.monotonic() + _TIMEOUT_S
    while _stored_bytes(data, topic) == before:
        if time.monotonic() > deadline:
            raise BenchError(f"the follower has fetched nothing in {_TIMEOUT_S} s")
        time.sleep(_PAUSE_S)
    return time.perf_counter()


def _stored_bytes(data: Path, topic: str) -> int:
    return sum(file.stat().st_size for file in data.glob(f"{topic}-*/*.log"))


def _wait_until_in_sync(address: str, topic: str) -> float:
    """Return the moment in which the follower is in every ISR of a topic."""
    admin = AdminClient({"bootstrap.servers": address})
    deadline = time.monotonic() + _TIMEOUT_S
    while not all(FOLLOWER in isr for isr in _isrs(admin, topic)):
        if time.monotonic() > deadline:
            raise BenchError(f"the follower is not in sync after {_TIMEOUT_S} s")
        time.sleep(_PAUSE_S)
    return time.perf_counter()


def _isrs(admin: AdminClient, topic: str) -> list[list[int]]:
    partitions = admin.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
    return [partition.isrs for partition in partitions.values()]
