"""What is measured, which way is better, and the bar each ratio has to clear.

A ratio is the candidate's figure divided by the baseline's, as measured in the same round: above
one is better where more is better, below one where less is. The bar is the ratio to reach; the
design's aim is to be ahead of Kafka on its own ground, so a bar is never on the wrong side of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Better(Enum):
    """Which way a figure should move."""

    MORE = ">="
    LESS = "<="


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the table."""

    work: str
    name: str
    title: str
    unit: str
    better: Better
    bar: float = 1.0

    def met(self, ratio: float) -> bool:
        """Tell whether a ratio clears the bar."""
        return ratio >= self.bar if self.better is Better.MORE else ratio <= self.bar


def _throughput() -> list[Measure]:
    rows = []
    for size, unit in (("1 KB", "MB/s"), ("10 KB", "MB/s"), ("100 B", "k records/s")):
        key = size.replace(" ", "").lower()
        for verb in ("produce", "fetch"):
            about = f"{verb} {size}, 6 partitions"
            rows += [
                Measure("throughput", f"{verb}_{key}", about, unit, Better.MORE),
                Measure("throughput", f"{verb}_{key}_cpu", f"{about}: broker CPU", "s/GB",
                        Better.LESS),
            ]  # fmt: skip
    return rows


MEASURES: tuple[Measure, ...] = (
    *_throughput(),
    Measure("latency", "p50", "one record at a time, acks=all, p50", "us", Better.LESS),
    Measure("latency", "p99", "one record at a time, acks=all, p99", "us", Better.LESS),
    Measure("cold_read", "p50", "produce p50 beside a cold reader", "us", Better.LESS),
    Measure("cold_read", "p99", "produce p99 beside a cold reader", "us", Better.LESS),
    Measure("cold_read", "read", "the cold reader itself", "MB/s", Better.MORE),
    Measure("memory", "idle", "peak memory, idle", "MB", Better.LESS),
    Measure("memory", "loaded", "peak memory after load", "MB", Better.LESS),
    Measure("start_up", "empty", "start to first answer, empty folder", "s", Better.LESS),
    Measure("connections", "cpu", "many connections, 1 request/s each: broker CPU", "ms/request",
            Better.LESS),
    Measure("connections", "p99", "many connections: request p99", "ms", Better.LESS),
    Measure("connections", "memory", "many connections: peak memory", "MB", Better.LESS),
    Measure("partitions", "create", "many partitions: create to last one served", "s", Better.LESS),
    Measure("partitions", "write", "many partitions: a few records to each", "s", Better.LESS),
    Measure("partitions", "memory", "many partitions: peak memory", "MB", Better.LESS),
    Measure("partitions", "clean_answer", "clean restart to first answer", "s", Better.LESS),
    Measure("partitions", "clean_served", "clean restart to all partitions served", "s",
            Better.LESS),
    Measure("partitions", "killed_answer", "restart after kill -9 to first answer", "s",
            Better.LESS),
    Measure("partitions", "killed_served", "restart after kill -9 to all partitions served", "s",
            Better.LESS),
)  # fmt: skip
