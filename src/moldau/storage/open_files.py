"""A limit on open files, however many segments there are.

A segment opens its `.log` at first use and keeps it in its own attribute, where the hot path finds
it without a look-up. This module lists the segments with an open file. If there are too many, it
takes the file from one that has not used it lately. It uses the clock algorithm: a file that was
used gets a second chance, so an access only sets a flag.

A file is never closed here. A response may still be sending from it, or a thread may be syncing it.
It closes itself when the last reference goes.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from moldau.base.files import File


class Holder(Protocol):
    """An object with an open file in an attribute: a segment."""

    file: File | None
    used: bool
    """The holder sets it on every access; `OpenFiles` resets it."""


class OpenFiles:
    """The holders with an open file, in the order of the clock hand."""

    __slots__ = ("_capacity", "_holders")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._holders: deque[Holder] = deque()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """Add a holder that has just opened its file; others may lose theirs."""
        holder.used = True
        self._holders.append(holder)
        while len(self._holders) > self._capacity:
            self._take_one()

    def _take_one(self) -> None:
        """Take the file of the first holder that has not used it since the last pass."""
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
