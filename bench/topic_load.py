"""Topics that are created one after the other, each once the one before has been answered for."""

from __future__ import annotations

import time

from confluent_kafka.admin import AdminClient, NewTopic

from bench.percentiles import percentiles

_TIMEOUT_S = 60


def run(address: str, count: int, partitions: int, replicas: int) -> dict[str, float]:
    """Create `count` topics, untimed, and as many again; times to the answer in milliseconds."""
    admin = AdminClient({"bootstrap.servers": address})
    times_ms = [
        _create(admin, NewTopic(f"created-{number}", partitions, replicas))
        for number in range(2 * count)
    ]
    return percentiles(times_ms[count:])


def _create(admin: AdminClient, new: NewTopic) -> float:
    began = time.perf_counter()
    admin.create_topics([new])[new.topic].result(_TIMEOUT_S)
    return (time.perf_counter() - began) * 1e3
