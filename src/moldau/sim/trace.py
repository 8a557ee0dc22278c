"""What happened in a run, as a running hash and a short memory.

Two runs of one seed must end with the same digest; the first difference between them is a bug of
the simulation or a source of chance that bypassed the ports. The last events are kept in words,
for the report of a failed run.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

REMEMBERED_COUNT = 200
"""Enough to see what led to a failure, few enough to be read."""

STORY_LENGTH = 150
"""Of what happens seldom, which may lie long before the last events."""

FREQUENT = frozenset({"deliver", "sync", "sync folder", "connect", "crash point", "clog", "unclog"})

Fact = str | int | float


class Trace:
    """The events of one run, in order."""

    def __init__(self, now: Callable[[], float] = lambda: 0.0) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._last: deque[str] = deque(maxlen=REMEMBERED_COUNT)
        self._story: deque[str] = deque(maxlen=STORY_LENGTH)
        self.count = 0

    def note(self, event: str, *facts: Fact) -> None:
        """Remember an event: a delivery, a sync, a crash."""
        line = f"{self._now():.6f} {event} {' '.join(map(str, facts))}"
        self._last.append(line)
        if event not in FREQUENT:
            self._story.append(line)
        self.mix(line)

    def mix(self, line: str) -> None:
        """Let something too frequent to be remembered change the digest."""
        self._hash.update(f"{line}\n".encode())
        self.count += 1

    def digest(self) -> str:
        """The whole run so far in 32 characters."""
        return self._hash.hexdigest()

    def last(self) -> list[str]:
        """The latest events, oldest first."""
        return list(self._last)

    def story(self) -> list[str]:
        """The latest events of the kinds that happen seldom, oldest first."""
        return list(self._story)
