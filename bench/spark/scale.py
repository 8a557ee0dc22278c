"""How many rows: enough for figures one can stand by, or just enough to try the harness."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """The amounts of every kind of work, and how often it is done."""

    warm_ups: int
    """Rounds before those that are timed: a query gets quicker up to about the fifth."""
    rounds: int
    small_rows: int
    """Of 100 bytes, read by one query."""
    large_rows: int
    """Of 1 KB, read by one query."""
    written_rows: int
    once_rows: int
    """In one transaction."""
    idle_seconds: float
    """For which a stream without news is watched."""
    activity_rows: int
    activity_seconds: int


FULL = Scale(
    warm_ups=5,
    rounds=5,
    small_rows=6_000_000,
    large_rows=900_000,
    written_rows=2_000_000,
    once_rows=1_000_000,
    idle_seconds=6.0,
    activity_rows=1_000_000,
    activity_seconds=180,
)

QUICK = Scale(
    warm_ups=1,
    rounds=1,
    small_rows=120_000,
    large_rows=60_000,
    written_rows=60_000,
    once_rows=60_000,
    idle_seconds=3.0,
    activity_rows=50_000,
    activity_seconds=5,
)
