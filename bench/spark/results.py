"""What was measured: the figures of every run, and which of them are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from bench.spark.contests import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    FETCH_1MB,
    FETCH_8MB,
    OFFICIAL,
    OURS,
)
from bench.spark.idle import Idle
from bench.spark.scale import Scale
from bench.spark.variants import NO_PREFETCH, NOT_COALESCED, ROWS_1K, ROWS_10K


class Taken(NamedTuple):
    """What one run of one side took."""

    rows: int
    seconds: float
    cpu_s: float
    """Of the virtual machine and of Python's workers, not of the broker."""
    broker_cpu_s: float

    @property
    def rate(self) -> float:
        """Thousands of rows a second."""
        return self.rows / self.seconds / 1_000

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU a row."""
        return self.cpu_s * 1_000_000 / self.rows


Round = dict[str, Taken]
"""By side."""


class Pair(NamedTuple):
    """Two sides of a contest that are compared."""

    contest: str
    title: str
    baseline: str
    candidate: str
    bar: float | None = None
    """The ratio of rates to reach."""


MAIN_CORES: Final = 2

AGAINST_OFFICIAL: Final = (
    Pair("read_small", "batch read, 100 B, all columns", OFFICIAL, OURS, 1.2),
    Pair("read_large", "batch read, 1 KB, all columns", OFFICIAL, OURS, 1.8),
    Pair("stream_small", "stream read, availableNow, 100 B", OFFICIAL, OURS, 1.2),
    Pair("write_small", "write, 100 B, with keys", OFFICIAL, OURS, 1.2),
    Pair("read_small_batches", "batch read, 100 B, batches of 16 KB", OFFICIAL, OURS),
    Pair("read_uneven", "batch read, 50 to 150 B", OFFICIAL, OURS),
)
ONCE: Final = (
    Pair("write_once", "write in one batch, 100 B, with keys", AT_LEAST_ONCE, EXACTLY_ONCE, 0.4),
)
VARIANTS: Final = (
    Pair("read_variants", "100 B: no fetch ahead", OURS, NO_PREFETCH),
    Pair("read_variants", "100 B: fetches of 1 MiB, not 4", OURS, FETCH_1MB),
    Pair("read_variants", "100 B: fetches of 8 MiB, not 4", OURS, FETCH_8MB),
    Pair("read_large", "1 KB: fetches of 8 MiB, not 4", OURS, FETCH_8MB),
    Pair("read_small_batches", "batches of 16 KB: each decoded by itself", OURS, NOT_COALESCED),
    Pair("read_small_batches", "the same: Arrow batches of 1,000 rows", OURS, ROWS_1K),
    Pair("read_small_batches", "the same: Arrow batches of 10,000 rows", OURS, ROWS_10K),
)
SECOND_CORE: Final = (
    ("read_small", "batch read, 100 B"),
    ("write_small", "write, 100 B, with keys"),
)


@dataclass(slots=True)
class Results:
    """Everything measured so far."""

    broker: str
    scale: Scale
    rounds: dict[tuple[str, int], list[Round]] = field(default_factory=dict)
    """By contest and cores."""
    idle: list[dict[str, Idle]] = field(default_factory=list)
    activity: list[str] = field(default_factory=list)
    """What the bench of the pipeline has printed."""
    minutes: float = 0.0

    def compared(self, pair: Pair) -> list[tuple[Taken, Taken]]:
        """Return what both sides of a pair took, round by round."""
        rounds = self.rounds.get((pair.contest, MAIN_CORES), [])
        return [(each[pair.baseline], each[pair.candidate]) for each in rounds]

    def rates(self, contest: str, cores: int, side: str) -> list[float]:
        """Return the rates of one side, round by round."""
        return [each[side].rate for each in self.rounds.get((contest, cores), [])]
