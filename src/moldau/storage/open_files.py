"""A bound on open descriptors, however many segments there are.

A segment opens its `.log` when it is first read or written and keeps the handle in its own
attribute, where the hot path finds it without asking anybody. This module only remembers who has
one, and when there are too many takes it from a segment that has not used it for a while (the
clock algorithm: a used one gets a second chance, so that nothing is reordered on every access).

A handle taken away may still be on its way to a socket inside a `FileRegion`, or in the hands of
a thread that syncs it. It is therefore never closed here: the last one to hold it lets go, and
the file closes itself.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from moldau.base.files import File


class Holder(Protocol):
    """Whoever keeps an open file in an attribute."""

    file: File | None
    used: bool
    """Set by the holder on every access, reset here."""


class OpenFiles:
    """Who has a file open, in the order of opening."""

    __slots__ = ("_capacity", "_holders")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._holders: deque[Holder] = deque()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """Count a file that its holder has just opened; another may lose its own for it."""
        holder.used = True
        self._holders.append(holder)
        while len(self._holders) > self._capacity:
            self._take_one()

    def _take_one(self) -> None:
        """Take the file of the first holder that did not use it since the hand last passed."""
        holders = self._holders
        while True:
            holder = holders.popleft()
            if holder.file is None:
                return
            if not holder.used:
                holder.file = None
                return
            holder.used = False
            holders.append(holder)
