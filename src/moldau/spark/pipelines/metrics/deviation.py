"""When a window stands out from those before it in the same series.

The middle of the last windows is what is usual, and the middle of their distances from it is how
far a usual one lies from that. Both are medians: one wild window among them changes nothing, and a
lasting change becomes usual after half the history. A flat series has no distance at all, so a
change has also to be large enough to matter to somebody.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from moldau.spark.pipelines.metrics.statistics import median

NORMAL: Final = 1.4826
"""By which the median distance is multiplied to be the standard deviation of normal values."""

LEAST_CHANGES: Final[Mapping[str, float]] = {
    "ratio": 0.05,
    "seconds": 0.01,
    "cores": 0.1,
    "count": 1.0,
    "1/s": 1.0,
    "processes": 1.0,
    "bytes": 1_048_576.0,
    "bytes/s": 65_536.0,
}
"""What a change must exceed by unit, however flat the series was: a twentieth of a processor, ten
milliseconds, a megabyte."""


class Sense(NamedTuple):
    """How easily something stands out."""

    history: int = 30
    """With how many windows before it a window is compared."""
    history_min: int = 10
    """Below so many nothing stands out: what is usual is not known yet."""
    deviations: float = 6.0
    """How many standard deviations are too many. Windows are not normally distributed; at three
    one of a few hundred would stand out, in each series."""
    change: float = 0.2
    """And which part of the usual level."""


class Deviation(NamedTuple):
    """How a window compares with those before it."""

    usual: float
    spread: float
    """The usual distance, as a standard deviation."""
    is_anomaly: bool

    def score(self, level: float) -> float | None:
        """Return how many standard deviations a level lies above.

        None where there are none, or next to none, so that it is no number.
        """
        score = (level - self.usual) / self.spread if self.spread else math.inf
        return score if math.isfinite(score) else None


def deviation(
    level: float, history: Sequence[float], unit: str | None, sense: Sense
) -> Deviation | None:
    """Compare a level with those before it; None while there are too few of them."""
    if len(history) < sense.history_min:
        return None
    usual = median(history)
    spread = NORMAL * median(abs(one - usual) for one in history)
    floor = max(LEAST_CHANGES.get(unit or "", 0.0), sense.change * abs(usual))
    distance = abs(level - usual)
    return Deviation(usual, spread, distance > max(floor, sense.deviations * spread))
