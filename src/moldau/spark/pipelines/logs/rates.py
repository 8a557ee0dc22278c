"""How many lines of a service were errors, window by window. Pure.

Counts add up, so those of open windows are kept from batch to batch, and nothing has to be read
again when a window is closed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

SERVICES_MAX: Final = 1000
"""Services of one window that are told apart: whoever names services by what he likes must not fill
the state. The ones with most lines stay; the others are counted together."""
OTHERS: Final = "(others)"
UNNAMED: Final = "(unnamed)"


class Count(NamedTuple):
    """Lines, and those of them that are errors."""

    rows: int = 0
    errors: int = 0

    @property
    def rate(self) -> float:
        """The share of errors."""
        return self.errors / self.rows if self.rows else 0.0

    def plus(self, other: Count) -> Count:
        """Add up."""
        return Count(self.rows + other.rows, self.errors + other.errors)


class Part(NamedTuple):
    """What a batch held of one service in one window."""

    window_ms: int
    service: str | None
    counted: Count


Windows = dict[int, dict[str, Count]]
"""Counts by the beginning of their window and by service."""


def added(windows: Windows, parts: Iterable[Part]) -> Windows:
    """Return the counts with those of a batch."""
    found = {start: dict(services) for start, services in windows.items()}
    for part in parts:
        services = found.setdefault(part.window_ms, {})
        name = part.service or UNNAMED
        services[name] = services.get(name, Count()).plus(part.counted)
    return {start: bounded(services) for start, services in sorted(found.items())}


def bounded(services: Mapping[str, Count]) -> dict[str, Count]:
    """Return the counts of so many services, the others together."""
    if len(services) <= SERVICES_MAX:
        return dict(sorted(services.items()))
    named = {name: count for name, count in services.items() if name != OTHERS}
    order = sorted(named, key=lambda name: (-named[name].rows, name))
    rest = services.get(OTHERS, Count())
    for name in order[SERVICES_MAX - 1 :]:
        rest = rest.plus(named[name])
    kept = {name: named[name] for name in order[: SERVICES_MAX - 1]}
    return dict(sorted({**kept, OTHERS: rest}.items()))


def parted(windows: Windows, until_ms: int) -> tuple[Windows, Windows]:
    """Part the windows that begin before a time from the others."""
    before = {start: services for start, services in windows.items() if start < until_ms}
    after = {start: services for start, services in windows.items() if start >= until_ms}
    return before, after


def to_note(windows: Windows) -> str:
    """Write counts down."""
    return json.dumps(windows, separators=(",", ":"))


def from_note(text: str | None) -> Windows:
    """Read counts; none where none were written."""
    told = json.loads(text) if text else {}
    return {
        int(start): {name: Count(*count) for name, count in services.items()}
        for start, services in told.items()
    }
