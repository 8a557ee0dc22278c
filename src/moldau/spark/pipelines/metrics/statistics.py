"""Percentiles: exact ones of values, and those that merged histograms allow.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Bucket(NamedTuple):
    """So many values that do not exceed a bound, and exceed that of the bucket before."""

    bound: float | None
    """None for the last bucket, which has no bound."""
    held: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value at a share (0 to 1) of sorted values, between two of them if it lies there.

    At least one value is needed. It is what numpy and Spark call linear.
    """
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return _between(ordered[below], ordered[above], place - below)


def median(values: Iterable[float]) -> float:
    """Return the middle of values in any order."""
    return percentile(sorted(values), 0.5)


def merged(histograms: Iterable[Iterable[Bucket]]) -> list[Bucket]:
    """Add histograms up, bound by bound; the bucket without a bound comes last."""
    counts: dict[float, float] = {}
    for histogram in histograms:
        for bucket in histogram:
            bound = math.inf if bucket.bound is None else bucket.bound
            counts[bound] = counts.get(bound, 0.0) + bucket.held
    return [Bucket(None if bound == math.inf else bound, counts[bound]) for bound in sorted(counts)]


def histogram_percentile(buckets: Sequence[Bucket], share: float) -> float | None:
    """Return the value at a share of what was counted; None if nothing was.

    `buckets` are merged ones. Values are taken to be spread evenly between the bounds of their
    bucket. The first one begins at zero, as times and sizes do, or at its bound if that is below.
    Of what lies beyond all bounds no more is known than the last of them.
    """
    total = sum(bucket.held for bucket in buckets)
    if not total:
        return None
    rank = share * total
    lower: float | None = None
    for bucket in buckets:
        if bucket.bound is None:
            break
        if bucket.held and rank <= bucket.held:
            start = min(0.0, bucket.bound) if lower is None else lower
            return _between(start, bucket.bound, rank / bucket.held)
        rank -= bucket.held
        lower = bucket.bound
    return lower


def _between(low: float, high: float, share: float) -> float:
    # Not low + (high - low) * share: that overflows, and may leave the two by a hair.
    return min(max(low * (1 - share) + high * share, low), high)
