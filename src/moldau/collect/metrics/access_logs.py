"""Requests found in an access log: how many, how they ended, how long they took.

The log is nginx's or Apache's in the combined format with the time of the request behind it, or
anything that a pattern with the groups `status` and `time` finds both in. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from moldau.base.errors import UserError
from moldau.base.histogram import Histogram
from moldau.collect.metrics.buckets import TimeBuckets
from moldau.collect.metrics.samples import Sample

COMBINED: Final = (
    r'(?<!\\)"(?:[^"\\]|\\.)*+" (?P<status>\d{3}) (?:\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*+"){0,2}(?: (?P<time>\d+(?:\.\d+)?))?(?:\s|$)'
)
"""`"GET / HTTP/1.1" 200 612 "-" "curl/8.0" 0.004`: what stands before it is of no interest, nor is
what follows. Without a time requests are counted all the same. No request begins at an escaped
quote, which a client may send as many of as it likes, and what was quoted is not tried shorter."""

UNITS_US: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""What a time in the log is given in: nginx's $request_time and Apache's %T in seconds, Apache's
%{ms}T in milliseconds, its %D in microseconds."""

PERCENTS: Final = (50, 95, 99)


def access_pattern(text: str) -> re.Pattern[bytes]:
    """Read a pattern for lines of an access log; UserError if it is none."""
    try:
        pattern = re.compile(text.encode(errors="surrogateescape"))
    except re.error as error:
        raise UserError(f"{text!r} is not a pattern: {error}") from error
    if missing := {"status", "time"} - pattern.groupindex.keys():
        raise UserError(f"{text!r} has no group (?P<{min(missing)}>...)")
    return pattern


class AccessSamples:
    """What has been found in the log of one service since the last samples."""

    def __init__(self, service: str, pattern: re.Pattern[bytes], unit_us: int) -> None:
        self.service = service
        self._pattern = pattern
        self._unit_us = unit_us
        self._statuses: Counter[str] = Counter()
        self._has_times = self._has_strange = False
        """Whether there have been any so far."""
        self._reset()

    def _reset(self) -> None:
        # Zeros are told too of what was found once: a count is about its interval alone, and those
        # in which nothing was found have to be in the rate of a longer time.
        self._statuses = Counter(dict.fromkeys(self._statuses, 0))
        self._times = Histogram()
        self._buckets = TimeBuckets()
        self._strange_count = 0

    def add(self, line: bytes) -> None:
        """Count the request of a line."""
        found = self._pattern.search(line)
        if found is None or found["status"] is None:
            self._strange_count += 1
            return
        self._statuses[f"{found['status'][:1].decode(errors='replace')}xx"] += 1
        if found["time"]:
            self._add_time(found["time"])

    def _add_time(self, text: bytes) -> None:
        try:
            time_us = max(0, round(float(text) * self._unit_us))
        except (ValueError, OverflowError):  # a user's pattern may find anything
            self._strange_count += 1
            return
        self._times.add(time_us)
        self._buckets.add(time_us)

    def take(self, interval_s: float) -> list[Sample]:
        """Return samples of what was counted, and begin again."""
        samples = list(self._samples(interval_s))
        self._reset()
        return samples

    def _samples(self, interval_s: float) -> Iterator[Sample]:
        service, statuses = self.service, self._statuses
        total = statuses.total()
        yield Sample(service, "http.requests", total, "count")
        yield Sample(service, "http.rate", total / interval_s, "1/s")
        yield Sample(service, "http.errors", statuses["5xx"], "count")
        for status, count in sorted(statuses.items()):
            yield Sample(service, "http.responses", count, "count", status)
        self._has_times |= self._buckets.count > 0
        if self._has_times:
            yield from self._of_times()
        self._has_strange |= self._strange_count > 0
        if self._has_strange:
            yield Sample(service, "http.unreadable", self._strange_count, "count")

    def _of_times(self) -> Iterator[Sample]:
        """Yield figures of this interval, and the buckets that give those of longer times."""
        service, buckets = self.service, self._buckets
        if buckets.count:
            mean_us = buckets.total_us / buckets.count
            yield Sample(service, "http.time.mean", mean_us / 1e6, "seconds")
            for percent in PERCENTS:
                value = self._times.percentile(percent) / 1e6
                yield Sample(service, f"http.time.p{percent}", value, "seconds")
            yield Sample(service, "http.time.max", self._times.maximum / 1e6, "seconds")
        yield Sample(service, "http.time", buckets.distribution(), "seconds")
