"""Users who view pages and search: made-up events, for demonstrations, measurements and tests.

The same seed gives the same events. Few pages get most of the views and few words most of the
searches, as it is in life. Some events come late, some twice, and some cannot be read at all: what
a pipeline must take.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random
from typing import Final, NamedTuple

SEARCHES_SHARE: Final = 0.2
_WORDS: Final = ("plum", "pear", "apple", "cherry", "quince", "apricot", "peach", "fig")
_BROKEN: Final = (
    b"",
    b"not json",
    b'{"kind": "view"}',
    b'{"event_id": "e", "kind": "buy"}',
    b"\xff",
)


class Habits(NamedTuple):
    """How often things happen that should not, from 0 to 1, and to how many."""

    users: int = 1000
    pages: int = 100
    late: float = 0.01
    late_by_ms: int = 600_000
    """How far behind a late event is at most."""
    twice: float = 0.005
    broken: float = 0.001


class Crowd:
    """Makes events, one after the other."""

    def __init__(self, seed: int, habits: Habits | None = None) -> None:
        self._random = Random(seed)
        self._seed = seed
        self._habits = habits or Habits()
        self._count = 0
        self._last: tuple[bytes, bytes] | None = None

    def event(self, now_ms: int) -> tuple[bytes, bytes]:
        """Return the key and value of the next record, at a time."""
        random, habits = self._random, self._habits
        if self._last is not None and random.random() < habits.twice:
            return self._last
        self._count += 1
        user = f"u-{random.randrange(habits.users)}"
        if random.random() < habits.broken:
            return user.encode(), random.choice(_BROKEN)
        if random.random() < habits.late:
            now_ms -= random.randrange(habits.late_by_ms)
        value = json.dumps(self._fields(user, now_ms)).encode()
        self._last = (user.encode(), value)
        return self._last

    def _fields(self, user: str, time_ms: int) -> dict[str, str]:
        random = self._random
        told = {"event_id": f"{self._seed}-{self._count}", "user": user, "time": iso(time_ms)}
        if random.random() < SEARCHES_SHARE:
            words = min(int(random.paretovariate(1)), len(_WORDS) ** 2) - 1
            query = f"{_WORDS[words % len(_WORDS)]} {_WORDS[words // len(_WORDS)]}"
            return {**told, "kind": "search", "query": query}
        page = min(int(random.paretovariate(1)), self._habits.pages)
        return {**told, "kind": "view", "page": f"/page/{page}"}


def iso(time_ms: int) -> str:
    """Write a time as events hold it."""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
