"""Work on a large node or topic, done in steps. Pure.

A topic may have 60,000 partitions, and its node a megabyte. Whatever looks at all of that is a
generator that yields now and then: whoever runs it lets others have their turn there.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Work that pauses where it yields, and returns a result."""

AMOUNT_PER_STEP: Final = 500
"""Partitions and replicas of one step: about a millisecond, whatever is done with them."""


def amount_of(data: bytes | None) -> int:
    """Return what decoding a node costs, counted like partitions and replicas."""
    return amount_of_text(len(data or b""))


def amount_of_text(length: int) -> int:
    """Return what decoding so many characters costs."""
    return 2 + length // 32


class Pace:
    """Tells when work on many elements has to pause."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def is_due(self, amount: int = 1) -> bool:
        """Count elements that were worked on; tell whether a step is full."""
        self._done += amount
        if self._done < AMOUNT_PER_STEP:
            return False
        self._done = 0
        return True


def differ(one: tuple[object, ...], other: tuple[object, ...]) -> Steps[bool]:
    """Tell whether two long tuples differ."""
    if len(one) != len(other):
        return True
    for first in range(0, len(one), AMOUNT_PER_STEP):
        if first:
            yield
        end = first + AMOUNT_PER_STEP
        if one[first:end] != other[first:end]:
            return True
    return False
