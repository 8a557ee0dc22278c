"""Percentiles of many durations in little memory, as HdrHistogram has them.

Values are counted in buckets that are a fixed part of their size wide, so that the error is below
one in 128 whether a value is a microsecond or an hour. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

PRECISION_BITS: Final = 8
"""Values below 2**8 are exact; of larger ones the first eight bits count."""


class Histogram:
    """Counts whole numbers from zero on."""

    def __init__(self) -> None:
        self.count = 0
        self.maximum = 0
        self._buckets: Counter[int] = Counter()

    def add(self, value: int) -> None:
        """Count one value."""
        self.count += 1
        self.maximum = max(self.maximum, value)
        shift = max(0, value.bit_length() - PRECISION_BITS)
        self._buckets[(shift << PRECISION_BITS) | (value >> shift)] += 1

    def percentile(self, percent: float) -> int:
        """Return the value that so many percent of all do not exceed; 0 of nothing."""
        wanted = max(1.0, self.count * percent / 100)
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                shift, value = divmod(bucket, 1 << PRECISION_BITS)
                return min(((value + 1) << shift) - 1, self.maximum)
        return self.maximum
