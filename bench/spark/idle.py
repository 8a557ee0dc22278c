"""What a trigger costs that finds nothing: the CPU of Spark's processes, and of the broker.

A stream follows a topic to which nobody writes, with a trigger twice a second, which is more than
either connector needs for one. From what is used while it does so is taken what the same session
uses in the same time without a stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.spark import topics
from bench.spark.contests import OFFICIAL, OURS, Arena

_INTERVAL_MS = 500
_SETTLING_S = 3.0
"""The first triggers make connections and load code."""


class Idle(NamedTuple):
    """What one idle trigger costs, in milliseconds of CPU."""

    spark_ms: float
    broker_ms: float

    def beyond(self, other: Idle) -> Idle:
        """Return what this is more than another."""
        return Idle(self.spark_ms - other.spark_ms, self.broker_ms - other.broker_ms)


def idle_triggers(
    arena: Arena, used: Callable[[], tuple[float, float]]
) -> Iterator[dict[str, Idle]]:
    """Measure both connectors, round by round; `used` tells the CPU of Spark and of the broker."""
    topic = topics.empty(arena.address, "idle")
    for number in range(1 + arena.scale.rounds):
        nothing = _watched(arena, used)
        formats = (OFFICIAL, OURS) if number % 2 else (OURS, OFFICIAL)
        found = {}
        for format_ in formats:
            with _stream(arena, format_, topic, number):
                busy = _watched(arena, used)
            found[format_] = busy.beyond(nothing)
        if number:  # the first round warms up
            yield found


def _watched(arena: Arena, used: Callable[[], tuple[float, float]]) -> Idle:
    time.sleep(_SETTLING_S)
    before = used()
    time.sleep(arena.scale.idle_seconds)
    after = used()
    count = arena.scale.idle_seconds * 1000 / _INTERVAL_MS
    return Idle(*((late - early) * 1000 / count for early, late in zip(before, after, strict=True)))


@contextmanager
def _stream(arena: Arena, format_: str, topic: str, number: int) -> Iterator[None]:
    reader = arena.session.readStream.format(format_)
    reader = reader.option("kafka.bootstrap.servers", arena.address).option("subscribe", topic)
    checkpoint = arena.directory / "checkpoints" / f"idle-{format_}-{number}"
    writer = reader.load().writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime=f"{_INTERVAL_MS} milliseconds").start()
    try:
        while not query.recentProgress:
            time.sleep(0.1)
        yield
    finally:
        query.stop()
