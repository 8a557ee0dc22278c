"""Filling a partition with records of few keys, for a cleaner to make a tenth of it.

Keys come by chance, so that what survives is scattered over the whole log as in life; written in
turn, all of it would stand at the end. The chance is the same in every run.
"""

from __future__ import annotations

import random
import time
from typing import Any

from confluent_kafka import Producer

_PAYLOADS = 64
_FLUSH_TIMEOUT_S = 600


def run(address: str, topic: str, size: int, count: int, keys: int) -> dict[str, float]:
    """Write `count` records of `size` random bytes, each with one of so many keys."""
    failures: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 5,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: failures.append(error),
        }
    )
    chance = random.Random(keys)
    payloads = [chance.randbytes(size) for _ in range(_PAYLOADS)]
    began = time.perf_counter()
    for number in range(count):
        key = b"key %d" % chance.randrange(keys)
        while True:
            try:
                producer.produce(topic, payloads[number % _PAYLOADS], key, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    if producer.flush(_FLUSH_TIMEOUT_S) or failures:
        raise RuntimeError(f"not all records were written: {failures[:1]}")
    return {"seconds": time.perf_counter() - began}
