"""One timer for the waits of a fetch session, which come one after the other.

A follower or consumer that keeps up is parked and woken for every batch, long before its time is
up. To set and cancel a timer of the event loop for each costs a good part of such a fetch. So the
timer of an earlier wait is left to ring. It then looks whether somebody waits, and until when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class WaitTimer:
    """Calls back when a wait is over. Made on a running loop."""

    __slots__ = ("_callback", "_due_s", "_handle", "_loop", "_rings_s")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback: Callable[[], None] | None = None
        self._due_s = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._rings_s = 0.0
        """When the timer of the event loop rings, if it is set."""

    def start(self, wait_s: float, callback: Callable[[], None]) -> None:
        """Call back after so long, unless stopped before; a wait that was going on is over."""
        self._callback = callback
        self._due_s = self._loop.time() + wait_s
        if self._handle is not None:
            if self._rings_s <= self._due_s:
                return
            self._handle.cancel()
        self._set()

    def stop(self) -> None:
        """End the wait."""
        self._callback = None

    def close(self) -> None:
        """End the wait, with no other to come."""
        self._callback = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _set(self) -> None:
        self._rings_s = self._due_s
        self._handle = self._loop.call_at(self._rings_s, self._ring)

    def _ring(self) -> None:
        self._handle = None
        callback = self._callback
        if callback is None:
            return
        if self._rings_s < self._due_s:
            self._set()
        else:
            self._callback = None
            callback()
