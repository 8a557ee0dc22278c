"""How long to wait before something that failed is tried again: twice as long each time."""

from __future__ import annotations

from typing import Final

_DOUBLINGS_MAX: Final = 32
"""Further ones change nothing, and numbers that grow for ever overflow."""


def backoff_s(failure_count: int, first_s: float, max_s: float) -> float:
    """Return the wait after so many failures, of which the first waits `first_s`."""
    doublings = min(failure_count - 1, _DOUBLINGS_MAX)
    return min(first_s * 2.0**doublings, max_s)
