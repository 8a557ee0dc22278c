"""Where callbacks of the user run: on the loop, or in the thread that uses the blocking face.

A rebalance listener or a commit callback may itself call the consumer. On the loop of the blocking
face that would wait for itself, so there a callback is kept until the user's thread is in a call,
and runs in that thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

Work = Callable[[], Awaitable[object] | object]


class UserCalls(Protocol):
    """Runs callbacks."""

    async def run(self, work: Work) -> None:
        """Run a callback to its end; what it raises is raised here."""
        ...


class CallsOnLoop:
    """For the asynchronous face: callbacks run on the loop, coroutines are awaited."""

    async def run(self, work: Work) -> None:
        """Run a callback now. Cancelled, a coroutine of the user's is cancelled."""
        outcome = work()
        if inspect.isawaitable(outcome):
            await outcome


class KeptCall(NamedTuple):
    """A callback that waits for the user's thread, and who waits for the callback."""

    work: Work
    done: asyncio.Future[None]


class CallsInThread:
    """For the blocking face: callbacks are kept until the user's thread asks for them."""

    def __init__(self) -> None:
        self._kept: deque[KeptCall] = deque()
        self._wanted: asyncio.Future[None] | None = None

    async def run(self, work: Work) -> None:
        """Keep a callback and wait until it ran. Cancelled before, it does not run."""
        call = KeptCall(work, asyncio.get_running_loop().create_future())
        self._kept.append(call)
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)
        try:
            await call.done
        finally:
            if call in self._kept:
                self._kept.remove(call)

    async def next_or(self, other: asyncio.Future[Any]) -> KeptCall | None:
        """Wait for a callback to run, or until something else is done (None).

        Cancelled, the callback stays kept and the other goes on.
        """
        while not self._kept:
            if other.done():
                return None
            self._wanted = asyncio.get_running_loop().create_future()
            try:
                await asyncio.wait((other, self._wanted), return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._wanted.cancel()
                self._wanted = None
        return self._kept.popleft()

    @staticmethod
    def ran(call: KeptCall, error: BaseException | None) -> None:
        """Tell who waits how a callback ended."""
        if call.done.done():
            return
        if error is None:
            call.done.set_result(None)
        else:
            call.done.set_exception(error)
