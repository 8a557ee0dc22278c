"""Exponential backoff: how long to wait before a retry. Each wait is twice as long as the last."""

from __future__ import annotations

from typing import Final

_DOUBLINGS_MAX: Final = 32
"""A bound, because a float overflows after about a thousand doublings."""


def backoff_s(failure_count: int, first_s: float, max_s: float) -> float:
    """Return the wait after this number of failures: `first_s` after the first one."""
    doublings = min(failure_count - 1, _DOUBLINGS_MAX)
    return min(first_s * 2.0**doublings, max_s)
