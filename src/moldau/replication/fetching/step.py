"""A fetcher gives others their turn on the event loop, however much its leader sends."""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.replication.fetching.ports import FollowerContext

STEP_S: Final = 0.003
"""How long a fetcher works before others get their turn."""

PIECES_PER_STEP: Final = 32
"""The same where the clock stands still, as in the simulation."""


class Step:
    """What was done since others had their turn."""

    __slots__ = ("_began_s", "_clock", "_count")

    def __init__(self, context: FollowerContext) -> None:
        self._clock = context.ports.clock
        self._began_s = self._clock.monotonic()
        self._count = 0

    async def pause(self) -> None:
        """Let others have their turn if this step is long enough; call it after each piece."""
        self._count += 1
        if self._count >= PIECES_PER_STEP or self._clock.monotonic() - self._began_s >= STEP_S:
            await asyncio.sleep(0)
            self._began_s = self._clock.monotonic()
            self._count = 0
