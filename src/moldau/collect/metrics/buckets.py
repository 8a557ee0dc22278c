"""How request times are spread, in buckets that add up over intervals, hosts and services.

Percentiles of percentiles are none of anything. Counts between bounds that are the same everywhere
can be added, and the percentiles of the sum are those of all requests. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import Final

from moldau.collect.metrics.samples import Distribution

_STEPS: Final = (
    100, 112, 125, 140, 160, 180, 200, 224, 250, 280,
    315, 355, 400, 450, 500, 560, 630, 710, 800, 900,
)  # fmt: skip
"""The preferred numbers of ISO 3, twenty to a factor of ten: an even series of round numbers."""

BOUNDS_US: Final = (*(step * 10**zeros for zeros in range(1, 7) for step in _STEPS), 10**9)
"""From a millisecond, the least that nginx tells, to a thousand seconds, which nobody waits for.

A bound is at most a seventh above the one before, so a percentile is wrong by no more than that,
wherever in its bucket it lies; below the first bound by no more than a millisecond. They are never
to be changed: what was counted between others does not add up with these.
"""


class TimeBuckets:
    """Counts of request times between the bounds, and their sum."""

    def __init__(self) -> None:
        self.count = 0
        self.total_us = 0
        self._counts: Counter[int] = Counter()

    def add(self, time_us: int) -> None:
        """Count one request."""
        self.count += 1
        self.total_us += time_us
        self._counts[bisect_left(BOUNDS_US, time_us)] += 1

    def distribution(self) -> Distribution:
        """Return the buckets that hold something, and those right below them.

        A bucket is as wide as the distance to the one before it: without an empty one there its
        requests would be spread down to the next that is filled. Without any request it is the
        first bucket alone.
        """
        below = (place - 1 for place in self._counts if place)
        places = sorted({*self._counts, *below}) or [0]
        buckets = [(_bound_s(place), self._counts[place]) for place in places]
        return Distribution(buckets, self.total_us / 1_000_000)


def _bound_s(place: int) -> float | None:
    return BOUNDS_US[place] / 1_000_000 if place < len(BOUNDS_US) else None
