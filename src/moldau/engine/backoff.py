"""How long to wait before trying again: exponential, with jitter, bounded (KIP-144, KIP-580)."""

from __future__ import annotations

from moldau.base.clock import Random
from moldau.base.tuples import NamedTuple

JITTER = 0.2
"""A wait is this much shorter or longer, so that clients which failed together return apart."""

DOUBLINGS_MAX = 32
"""Far beyond where any bound is reached; a float must not overflow after a week of failures."""


class Backoff(NamedTuple):
    """The waits after failures, in milliseconds: the first, and the longest."""

    first_ms: float
    longest_ms: float

    def wait_s(self, failure_count: int, random: Random) -> float:
        """Seconds to wait after this many failures in a row; nothing before the first."""
        if failure_count <= 0:
            return 0.0
        grown = self.first_ms * 2.0 ** min(failure_count - 1, DOUBLINGS_MAX)
        spread = 1.0 - JITTER + 2.0 * JITTER * random.random()
        return min(grown, self.longest_ms) * spread / 1000.0
