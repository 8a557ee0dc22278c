"""What is measured, which way is better, and the bar each ratio has to clear.

A ratio is the candidate's figure divided by the baseline's, as measured in the same round: above
one is better where more is better, below one where less is. The bar is the ratio to reach.
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
    bar: float | None = 1.0
    """None for a figure that is printed without a bar."""

    def met(self, ratio: float) -> bool:
        """Tell whether a ratio clears the bar."""
        if self.bar is None:
            return True
        return ratio >= self.bar if self.better is Better.MORE else ratio <= self.bar


_THROUGHPUT_BARS = {
    # work, record size: (throughput at least, broker CPU at most)
    ("produce", "1 KB"): (1.5, 0.5),
    ("produce", "10 KB"): (1.6, 1.0),
    ("produce", "100 B"): (1.2, 0.35),
    # The client is the limit when it reads from the page cache.
    ("fetch", "1 KB"): (0.95, 0.6),
    ("fetch", "10 KB"): (0.95, 0.6),
    ("fetch", "100 B"): (0.95, 0.6),
}


def _throughput() -> list[Measure]:
    rows = []
    for (verb, size), (speed, cpu) in _THROUGHPUT_BARS.items():
        unit = "k records/s" if size == "100 B" else "MB/s"
        key = f"{verb}_{size.replace(' ', '').lower()}"
        about = f"{verb} {size}, 6 partitions"
        rows += [
            Measure("throughput", key, about, unit, Better.MORE, speed),
            Measure("throughput", f"{key}_cpu", f"{about}: broker CPU", "s/GB", Better.LESS, cpu),
        ]
    return rows


def _warm_fetch() -> list[Measure]:
    rows = []
    for size in ("1 KB", "100 B", "10 KB"):
        key = size.replace(" ", "").lower()
        about = f"fetch {size} once it is warm, 6 partitions"
        rows += [
            Measure("fetch", f"{key}_rate", about, "MB/s", Better.MORE, 1.1),
            Measure("fetch", f"{key}_cpu", f"{about}: broker CPU", "s/GB", Better.LESS, 0.6),
        ]
    return rows


def more(work: str, name: str, title: str, unit: str, bar: float = 1.0) -> Measure:
    return Measure(work, name, title, unit, Better.MORE, bar)


def less(work: str, name: str, title: str, unit: str, bar: float = 1.0) -> Measure:
    return Measure(work, name, title, unit, Better.LESS, bar)


MEASURES: tuple[Measure, ...] = (
    *_throughput(),
    *_warm_fetch(),
    less("latency", "p50", "one record at a time, acks=all, p50", "us", 0.9),
    less("latency", "p99", "one record at a time, acks=all, p99", "us", 0.7),
    less("cold_read", "p50", "produce p50 beside a cold reader", "us"),
    less("cold_read", "p99", "produce p99 beside a cold reader", "us"),
    more("cold_read", "read", "the cold reader itself", "MB/s"),
    less("memory", "idle", "peak memory, idle", "MB", 0.15),
    less("memory", "loaded", "peak memory after load", "MB", 0.1),
    less("start_up", "empty", "start to first answer, empty folder", "s", 0.2),
    less("connections", "cpu", "many connections, one request/s: broker CPU", "ms/request", 0.5),
    less("connections", "p99", "many connections: request p99", "ms"),
    less("connections", "memory", "many connections: peak memory", "MB", 0.2),
    less("partitions", "create", "many partitions: create to last one served", "s"),
    less("partitions", "write", "many partitions: a few records to each", "s", 0.7),
    less("partitions", "memory", "many partitions: peak memory", "MB", 0.2),
    less("partitions", "clean_answer", "clean restart to first answer", "s", 0.3),
    less("partitions", "clean_served", "clean restart to all partitions served", "s", 0.3),
    less("partitions", "killed_answer", "restart after kill -9 to first answer", "s", 0.3),
    less("partitions", "killed_served", "restart after kill -9 to all served", "s", 0.3),
    less("groups", "join", "a large group: last JoinGroup to last SyncGroup", "ms", 0.7),
    more("commits", "rate", "offset commits, 50 groups, one at a time", "commits/s", 1.5),
    more("transactions", "rate", "consume-transform-produce by 100", "records/s", 1.2),
    less("offsets_load", "restart", "restart to the last of many offsets told", "s", 0.7),
    more("compaction", "speed", "compaction, 1 KB values, 10 % unique keys", "MB/s"),
    less("compaction", "p99", "produce p99 beside compaction", "us"),
)
