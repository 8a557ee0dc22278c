"""The order of commits: each takes its place when it is asked for, and is sent when it comes up.

So a commit that is tried again never overwrites a later one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from moldau.base.clock import Clock
from moldau.client.errors import RequestTimedOut


class CommitTurn:
    """The place of one commit in the order."""

    __slots__ = ("_before", "_clock", "over")

    def __init__(self, before: CommitTurn | None, clock: Clock) -> None:
        self._before = before
        self._clock = clock
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def reached(self, deadline: float) -> AsyncIterator[None]:
        """Wait until all before are over; RequestTimedOut if that takes too long.

        Whoever gives up waiting leaves the order of the others as it is.
        """
        before, self._before = self._before, None
        try:
            if before is not None and not await before.ended(deadline):
                raise RequestTimedOut("earlier commits are still in flight")
            yield
        finally:
            if before is None or before.over.done():
                self.over.set_result(None)
            else:
                before.over.add_done_callback(lambda _: self.over.set_result(None))

    async def ended(self, deadline: float) -> bool:
        """Wait for the end of this one; tell whether it came in time."""
        if not self.over.done():
            await asyncio.wait({self.over}, timeout=max(0.0, deadline - self._clock.monotonic()))
        return self.over.done()


class CommitOrder:
    """All commits of one consumer, one behind the other."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.last: CommitTurn | None = None
        """The place taken last."""

    def take(self) -> CommitTurn:
        """Take a place at the end."""
        before = self.last if self.last is not None and not self.last.over.done() else None
        self.last = CommitTurn(before, self._clock)
        return self.last

    async def passed(self, deadline: float) -> bool:
        """Wait for the end of all that have a place now; tell whether it came in time."""
        return self.last is None or await self.last.ended(deadline)
