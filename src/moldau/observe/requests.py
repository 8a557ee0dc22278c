"""Counts and times of requests, kept so cheaply that every request can be counted.

Plain attributes, changed on the event loop only; `observe.prometheus` turns them into text when
somebody asks.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from moldau.observe.loop_lag import NOTED_S, LoopLag

TIME_BUCKETS_S: Final[tuple[float, ...]] = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.0, 10.0,
)  # fmt: skip
"""From what one request costs at best to what a client gives up on."""


_SHORTEST_S: Final = TIME_BUCKETS_S[0]
"""Most requests that are answered on the spot take less."""


class RequestStats:
    """One API's requests."""

    __slots__ = ("_long", "buckets", "bytes_in", "errors", "requests", "seconds")

    def __init__(self, long: list[float] | None = None) -> None:
        self._long = [] if long is None else long
        """Takes the times of those that held the event loop for long."""
        self.requests = 0
        self.bytes_in = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(TIME_BUCKETS_S) + 1)
        self.errors: dict[int, int] = {}

    def count(self, size: int) -> None:
        """Note a request that has been understood."""
        self.requests += 1
        self.bytes_in += size

    def answered(self, size: int, seconds: float) -> None:
        """Note a request that was understood and answered on the spot: `count` and `time`."""
        self.requests += 1
        self.bytes_in += size
        self.seconds += seconds
        if seconds <= _SHORTEST_S:
            self.buckets[0] += 1
            return
        self.buckets[bisect_left(TIME_BUCKETS_S, seconds)] += 1
        if seconds > NOTED_S:
            self._long.append(seconds)

    def time(self, seconds: float) -> None:
        """Note how long an answer took, waiting included."""
        self.seconds += seconds
        self.buckets[bisect_left(TIME_BUCKETS_S, seconds)] += 1

    def error(self, code: int) -> None:
        """Note an error code that was answered."""
        self.errors[code] = self.errors.get(code, 0) + 1


class RequestMetrics:
    """The requests of one broker by API name."""

    def __init__(self) -> None:
        self.by_api: dict[str, RequestStats] = {}
        self.lag = LoopLag()

    def of(self, api_name: str) -> RequestStats:
        """Return the one object that counts this API."""
        return self.by_api.setdefault(api_name, RequestStats(self.lag.unnamed))
