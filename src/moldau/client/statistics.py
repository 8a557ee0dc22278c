"""Client metrics under Kafka's metric names.

`metrics()` of a client returns them. A `stats_callback` receives them every
`statistics_interval_ms`, as with librdkafka; it runs on the event loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from moldau.base.errors import ConfigError

logger = logging.getLogger(__name__)

Metrics = Mapping[str, float]
"""A number per metric name; totals count from the start of the client."""
StatsCallback = Callable[[Metrics], object]


def check_callback(given: object) -> None:
    """Refuse an object that cannot be called; each call would only fail in the log."""
    if given is not None and not callable(given):
        raise ConfigError(f"stats_callback={given!r:.100} is not a function")


class StatisticsSettings(Protocol):
    """The settings of a client that concern metrics."""

    @property
    def stats_callback(self) -> StatsCallback | None: ...
    @property
    def statistics_interval_ms(self) -> float: ...


class Statistics:
    """Calls a user's function with the metrics of a client at each interval."""

    def __init__(self, settings: StatisticsSettings, metrics: Callable[[], Metrics]) -> None:
        self._callback = settings.stats_callback
        self._interval_s = settings.statistics_interval_ms / 1000
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start on the event loop that owns the client."""
        if self._callback is not None and self._interval_s > 0:
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self._report)

    def _report(self) -> None:
        assert self._callback is not None
        self.start()
        try:
            self._callback(self._metrics())
        except Exception:
            logger.exception("the stats_callback failed")

    def close(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()
