"""Since when a query has had nothing to read. Pure: from what Spark tells of it, and a clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_WAITING: Final = "Waiting"
"""How Spark's message begins when a query has looked, and found nothing."""


class Idleness:
    """Watches one query."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s` is how long it must have had nothing to read."""
        self._limit_s = limit_s
        self._batch: int | None = None
        self._since_s = 0.0

    def observe(self, batch: int, status: Mapping[str, Any], now_s: float) -> bool:
        """Tell whether it is idle; `batch` is its last one, `status` what Spark says of it.

        A query that waits for brokers has not found that there is nothing to read.
        """
        if batch != self._batch or status.get("isDataAvailable"):
            self._batch, self._since_s = batch, now_s
        has_looked = not status.get("isTriggerActive")
        has_looked = has_looked or str(status.get("message", "")).startswith(_WAITING)
        return has_looked and now_s - self._since_s >= self._limit_s
