"""Sending made-up events at a steady rate, and knowing how many of them have arrived."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from moldau.client.errors import ClientClosed, ClientError
from moldau.client.producer import Delivery, Producer
from moldau.spark.pipelines.activity.generator import Crowd
from moldau.spark.pipelines.running.signals import Signals

LOOK_COUNT: Final = 10_000
"""So many deliveries wait to be looked at: in bulk that costs next to nothing."""

TICK_S: Final = 0.005
"""Events of such a span are sent together: to sleep before each of them costs more than sending."""


class Sending:
    """Events of a crowd on their way to a topic."""

    def __init__(self, producer: Producer[bytes, bytes], topic: str, crowd: Crowd) -> None:
        self.delivered_count = 0
        self.failure: ClientError | None = None
        """Of the first event that could not be delivered."""
        self._producer = producer
        self._topic = topic
        self._crowd = crowd
        self._underway: list[Delivery] = []
        self._stop = threading.Event()

    def run(self, rate: int, count: int | None) -> None:
        """Send so many events, or until the first signal, and wait until all have arrived.

        At the second signal what is on its way is given up.
        """
        with Signals(self._end), suppress(ClientClosed):
            for now_ms in self._paced(rate, count):
                key, value = self._crowd.event(now_ms)
                self._underway.append(
                    self._producer.send(self._topic, value, key=key, timestamp_ms=now_ms)
                )
                if len(self._underway) >= LOOK_COUNT:
                    self._look()
                if self.failure is not None:
                    break
            self._producer.flush()
        self._look()

    def _end(self, *, urgent: bool) -> None:
        self._stop.set()
        if urgent:
            self._producer.close(timeout=0)

    def _paced(self, rate: int, count: int | None) -> Iterator[int]:
        """Yield the time so often a second, so many times."""
        began, given = time.monotonic(), 0
        while count is None or given < count:
            if self._stop.wait(max(given / rate - (time.monotonic() - began), TICK_S)):
                return
            due = 1 + int((time.monotonic() - began) * rate)
            now_ms = time.time_ns() // 1_000_000
            for _ in range(given, due if count is None else min(due, count)):
                yield now_ms
            given = max(given, due)

    def _look(self) -> None:
        left = []
        for delivery in self._underway:
            if not delivery.done():
                left.append(delivery)
            elif (error := delivery.exception()) is None:
                self.delivered_count += 1
            else:
                self.failure = self.failure or error
        self._underway = left
