"""One request in flight at a time: what comes meanwhile waits, and leaves together in the next one.

Many small questions to one node then share a round trip, and none overtakes another. The caller
owns the queue and sends from it; this module decides when. A request that ends with an unexpected
exception is logged, and the next one leaves after a pause: what waits must not wait for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sized
from typing import Final

PAUSE_S: Final = 0.1
"""After an unexpected exception: the next request may end with the same one at once."""

logger = logging.getLogger(__name__)


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
                try:
                    await self._send()
                except Exception:
                    logger.exception("a bug in %s, which go on", self._name)
                    await asyncio.sleep(PAUSE_S)
        finally:
            self._sending = None
