"""The clock and random ports: the only ways to learn the time or to draw a number."""

from __future__ import annotations

import os
import time
from typing import Protocol

from moldau.base.wall_time import wall_ms


class Clock(Protocol):
    """What time it is. Timers belong to the event loop; this only tells."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as record timestamps count."""
        ...


class Random(Protocol):
    """Where every random decision comes from, so that a seed decides them all."""

    def random(self) -> float:
        """Return a float in [0, 1)."""
        ...

    def randrange(self, stop: int, /) -> int:
        """Return an int in [0, stop)."""
        ...

    def randbytes(self, count: int, /) -> bytes:
        """Return this many random bytes."""
        ...


class SystemClock:
    """The machine's clock."""

    monotonic = staticmethod(time.monotonic)
    wall_ms = staticmethod(wall_ms)


def system_random() -> Random:
    """Return a generator seeded by the operating system."""
    import random  # noqa: PLC0415 - it brings hashes along, and only who draws needs them

    return random.Random(os.urandom(32))
