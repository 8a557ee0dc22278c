"""Waits of loops in the background: any change ends them."""

from __future__ import annotations

import asyncio

from moldau.base.clock import Clock


class Waking:
    """Waits that any change ends early; who wakes has changed something worth another look."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """End every wait under way."""
        for waiting in self._waiting:
            _end(waiting)

    async def wait(self, until: float | None) -> None:
        """Wait until woken, or until a time of the monotonic clock. Cancelled, it just ends."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        self._waiting.add(waiting)
        timer = None
        if until is not None:
            seconds = max(0.0, until - self._clock.monotonic())
            timer = loop.call_later(seconds, _end, waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)
            if timer is not None:
                timer.cancel()


def _end(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
