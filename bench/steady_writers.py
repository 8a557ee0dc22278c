"""Clients that write a record every few milliseconds, and tell how long one had to wait at most.

One at a time, with acks=all: each waits for its acknowledgement before the next is sent. So the
longest wait is the longest time in which nothing could be written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import Producer as LibrdkafkaProducer
from tests.kafka_harness.distribution import CURRENT
from tests.kafka_harness.java import java_command

from moldau import Producer

CLIENTS = ("librdkafka", "java", "own")
REQUEST_TIMEOUT_MS = 30_000
"""The default of Java, librdkafka and our client."""
_WARM_UP = 200
_PAUSE_S = 0.005
_PAYLOAD = bytes(100)
_JAVA = Path(__file__).with_name("SteadyWriter.java")


def run(
    client: str, address: str, topic: str, request_timeout_ms: int, ready: str, stop: str
) -> dict[str, float]:
    """Write until the file `stop` exists; make the file `ready` when the waits begin to count."""
    if client == "java":
        arguments = (address, topic, request_timeout_ms, ready, stop, _WARM_UP,
                     round(_PAUSE_S * 1000), len(_PAYLOAD))  # fmt: skip
        # It takes the place of this process, and prints the result itself.
        command = java_command(CURRENT, _JAVA, *arguments)
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    write = _librdkafka if client == "librdkafka" else _own
    return {"gap": _longest(write(address, topic, request_timeout_ms), Path(ready), Path(stop))}


def _longest(write: Callable[[], None], ready: Path, stop: Path) -> float:
    longest_s, number = 0.0, 0
    while number < _WARM_UP or not stop.exists():
        began = time.perf_counter()
        write()
        took_s = time.perf_counter() - began
        if number == _WARM_UP:
            ready.touch()
        if number >= _WARM_UP:
            longest_s = max(longest_s, took_s)
        number += 1
        time.sleep(_PAUSE_S)
    return longest_s


def _librdkafka(address: str, topic: str, request_timeout_ms: int) -> Callable[[], None]:
    producer = LibrdkafkaProducer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": 0,
            "request.timeout.ms": request_timeout_ms,
            # Above the request's, which librdkafka asks for.
            "socket.timeout.ms": request_timeout_ms + 1_000,
        }
    )
    results: list[Any] = []

    def write() -> None:
        results.clear()
        producer.produce(
            topic, _PAYLOAD, partition=0, on_delivery=lambda error, _: results.append(error)
        )
        while not results:
            producer.poll(1)
        if results[0] is not None:
            raise KafkaException(results[0])

    return write


def _own(address: str, topic: str, request_timeout_ms: int) -> Callable[[], None]:
    producer = Producer(
        bootstrap_servers=address, acks="all", linger_ms=0, request_timeout_ms=request_timeout_ms
    )

    def write() -> None:
        producer.send(topic, _PAYLOAD, partition=0).result()

    return write
