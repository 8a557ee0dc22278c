"""When the errors of a service are too many, and when that is over. Pure.

A window is bad if its share of errors is above a limit, or above a multiple of what is usual for
the service, and if there are enough errors to speak of. The first bad window of a service raises an
alert; the ones after it do not. It is over with the first window that is clearly better: its share
must have fallen to half of what was too much. So a rate that wavers around the limit is one alert.

What is usual is a mean in which a window counts less the older it is; bad windows do not enter it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from moldau.spark.pipelines.logs.rates import SERVICES_MAX, Count, Windows

RAISED: Final = "raised"
OVER: Final = "over"

_WEIGHT: Final = 0.1
"""How much the last window counts in what is usual: an hour of minutes is nearly forgotten."""
_WINDOWS_MIN: Final = 10
"""Windows before anything is usual."""
_CALM: Final = 0.5
"""The part of the limit to which a rate must fall."""


class Limits(NamedTuple):
    """What is too much."""

    rate: float
    factor: float
    """How many times the usual rate."""
    errors_min: int
    """Errors of a window below which nothing is said."""


class Watch(NamedTuple):
    """What is known of a service."""

    usual: float = 0.0
    windows: int = 0
    """How many of them what is usual comes from."""
    limit: float | None = None
    """The rate that was too much while an alert stands; None if none does."""
    seen_ms: int = 0
    """The last window with lines of it."""


class Alert(NamedTuple):
    """Something that somebody should know."""

    window_ms: int
    service: str
    kind: str
    counted: Count
    usual: float
    limit: float


Watches = dict[str, Watch]


def with_silence(windows: Windows, watches: Watches, window_ms: int, until_ms: int) -> Windows:
    """Return closed windows, and after each, if there is none, the one in which nobody wrote.

    Alerts are over with it. Further ones of a long silence would change nothing.
    """
    starts = {*windows, *(one.seen_ms for one in watches.values() if one.limit is not None)}
    silent: Windows = {one + window_ms: {} for one in starts if one + window_ms < until_ms}
    return {**silent, **windows}


def watched(watches: Watches, windows: Windows, limits: Limits) -> tuple[Watches, list[Alert]]:
    """Return what is known after closed windows, and the alerts they give, in the order of time."""
    found = dict(watches)
    alerts: list[Alert] = []
    for start, services in sorted(windows.items()):
        for name, count in _looked_at(found, services):
            before = found.get(name, Watch())
            after, kind, limit = _step(before, start, count, limits)
            found[name] = after
            if kind is not None:
                alerts.append(Alert(start, name, kind, count, before.usual, limit))
    return _bounded(found), alerts


def _looked_at(watches: Watches, services: Mapping[str, Count]) -> Iterator[tuple[str, Count]]:
    """Yield the services of a window; of one that has an alert and is silent, no errors."""
    silent = {name: Count() for name, watch in watches.items() if watch.limit is not None}
    yield from sorted({**silent, **services}.items())


def _step(
    before: Watch, start_ms: int, count: Count, limits: Limits
) -> tuple[Watch, str | None, float]:
    """Return what is known after one window, what it gives rise to, and the limit that decided."""
    seen_ms = start_ms if count.rows else before.seen_ms
    if before.limit is not None:
        if count.rate > before.limit * _CALM:
            return before._replace(seen_ms=seen_ms), None, before.limit
        return before._replace(limit=None, seen_ms=seen_ms), OVER, before.limit
    limit = _limit(before, limits)
    if count.errors >= limits.errors_min and count.rate > limit:
        return before._replace(limit=limit, seen_ms=seen_ms), RAISED, limit
    weight = max(_WEIGHT, 1 / (before.windows + 1))
    usual = before.usual + weight * (count.rate - before.usual)
    return Watch(usual, before.windows + 1, None, seen_ms), None, limit


def _limit(watch: Watch, limits: Limits) -> float:
    """Return the rate that is too much for a service."""
    if watch.windows < _WINDOWS_MIN:
        return limits.rate
    return min(limits.rate, max(watch.usual * limits.factor, limits.rate / limits.factor))


def _bounded(watches: Watches) -> Watches:
    """Forget the services that have been silent the longest, if there are too many."""
    order = sorted(watches, key=lambda name: (-watches[name].seen_ms, name))
    return {name: watches[name] for name in sorted(order[:SERVICES_MAX])}


def to_note(watches: Watches) -> str:
    """Write down what is known."""
    return json.dumps(watches, separators=(",", ":"))


def from_note(text: str | None) -> Watches:
    """Read what is known; nothing where nothing was written."""
    return {name: Watch(*told) for name, told in (json.loads(text) if text else {}).items()}
