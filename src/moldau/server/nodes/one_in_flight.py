"""One request in flight at a time: what comes meanwhile waits, and leaves together in the next one.

Many small questions to one node then share a round trip, and none overtakes another. The caller
owns the queue and sends from it; this module decides when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sized


class OneInFlight:
    """Sends what waits, request by request. Owned by the event loop's thread."""

    __slots__ = ("_name", "_send", "_sending", "_waiting")

    def __init__(self, name: str, waiting: Sized, send: Callable[[], Awaitable[None]]) -> None:
        """`send` takes some of what waits and returns once that is answered, or waits again."""
        self._name = name
        self._waiting = waiting
        self._send = send
        self._sending: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Send what waits, on a later turn of the loop; call it after something was added."""
        if self._sending is None:
            loop = asyncio.get_running_loop()
            self._sending = loop.create_task(self._send_all(), name=self._name)

    async def ended(self) -> None:
        """Wait until nothing waits and nothing is in flight."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def cancel(self) -> None:
        """Drop the request that is in flight."""
        if self._sending is not None:
            self._sending.cancel()
            await self.ended()

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                await self._send()
        finally:
            self._sending = None
