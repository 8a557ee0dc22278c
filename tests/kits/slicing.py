"""Work in slices, as tests of handlers see it: done to the end at once, or looked at in between."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any


def finished(answer: Any) -> Any:
    """Return what a handler answers, having done all of its slices."""
    if not isinstance(answer, Generator):
        return answer
    try:
        while True:
            next(answer)
    except StopIteration as end:
        return end.value


def count_pauses(work: Generator[None, None, Any]) -> int:
    """Return how often work may be paused."""
    return sum(1 for _ in work)
