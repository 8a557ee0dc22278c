"""Percentiles of measured times."""

from __future__ import annotations


def percentiles(values: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile, the greatest value and the count."""
    ordered = sorted(values)
    return {
        "p50": ordered[len(ordered) // 2],
        "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
        "greatest": ordered[-1],
        "count": len(ordered),
    }
