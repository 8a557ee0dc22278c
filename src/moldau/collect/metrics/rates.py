"""Rates from counters that only grow: what happened per second since they were last looked at.

A counter that is new has no rate yet, and one that went back (a device was taken out and put in
again, a process id was used again) begins anew. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Rates(Generic[K]):
    """The last values of any number of counters."""

    def __init__(self) -> None:
        self._values: dict[K, float] = {}
        self._time_s: float | None = None

    def observe(self, time_s: float, counters: Mapping[K, float]) -> dict[K, float]:
        """Take new values of all counters there are; return those rates that are known."""
        before_s, self._time_s = self._time_s, time_s
        values, self._values = self._values, dict(counters)
        if before_s is None or time_s <= before_s:
            return {}
        return {
            name: (value - values[name]) / (time_s - before_s)
            for name, value in counters.items()
            if name in values and value >= values[name]
        }
