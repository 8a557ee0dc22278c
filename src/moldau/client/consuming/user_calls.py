"""Where callbacks of the user run: on the loop, or in the thread that uses the blocking face.

A rebalance listener or a commit callback may itself call the consumer. On the loop of the blocking
face that would wait for itself, so there a callback is kept until the user's thread is in a call,
and runs in that thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from moldau.base.tuples import NamedTuple

T = TypeVar("T")

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
    """For the blocking face: callbacks are kept until a call of the user's attends to them."""

    def __init__(self) -> None:
        self._kept: deque[KeptCall] = deque()
        self._attending: list[Attending[Any]] = []
        """The calls under way, the latest last: a callback or a signal handler may call the
        consumer from within a call, and then only the innermost gets on."""

    @property
    def are_kept(self) -> bool:
        """Whether a callback waits for the user's thread."""
        return bool(self._kept)

    async def run(self, work: Work) -> None:
        """Keep a callback and wait until it ran. Cancelled before, it does not run."""
        call = KeptCall(work, asyncio.get_running_loop().create_future())
        self._kept.append(call)
        self._wake()
        try:
            await call.done
        finally:
            if call in self._kept:
                self._kept.remove(call)

    def enter(self, call: Attending[Any]) -> None:
        """Have a call attend to callbacks, before those under way."""
        self._attending.append(call)

    def leave(self, call: Attending[Any]) -> None:
        """Leave callbacks to the calls that were under way before."""
        if call in self._attending:
            self._attending.remove(call)
        self._wake()

    def take(self, call: Attending[Any]) -> KeptCall | None:
        """Take a callback to run, if there is one and nobody further inside attends to it."""
        is_innermost = bool(self._attending) and self._attending[-1] is call
        return self._kept.popleft() if is_innermost and self._kept else None

    def give_back(self, kept: KeptCall) -> None:
        """Keep a callback that was taken and not run for the next who asks."""
        if not kept.done.done():
            self._kept.appendleft(kept)

    def _wake(self) -> None:
        if self._kept and self._attending:
            self._attending[-1].wake()


class Attending(Generic[T]):
    """One call of the user's: waits for work on the loop, and runs callbacks meanwhile.

    Made by the user's thread; everything else happens on the loop. It is over when `begin` or
    `next` returns None, or with `give_up`.
    """

    def __init__(self, calls: CallsInThread, work: Coroutine[Any, Any, T]) -> None:
        self._calls = calls
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._taken: KeptCall | None = None
        self._woken: asyncio.Future[None] | None = None

    async def begin(self) -> KeptCall | None:
        """Begin the work; go on as `next`."""
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._calls.enter(self)
        return await self.next()

    async def next(self) -> KeptCall | None:
        """Wait for a callback to run, or until the work is done (None).

        Cancelled, callbacks stay kept and the work goes on until `give_up`.
        """
        task = self._task
        assert task is not None
        while (kept := self._calls.take(self)) is None:
            if task.done():
                self._calls.leave(self)
                return None
            self._woken = asyncio.get_running_loop().create_future()
            await asyncio.wait((task, self._woken), return_when=asyncio.FIRST_COMPLETED)
        self._taken = kept
        return kept

    def wake(self) -> None:
        """Have `next` look for a callback."""
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def ran(self, kept: KeptCall, error: Exception | None) -> None:
        """Tell who waits how a callback ended."""
        self._taken = None
        if kept.done.done():
            return
        if error is None:
            kept.done.set_result(None)
        else:
            kept.done.set_exception(error)

    def give_up(self) -> None:
        """End the work: the user's thread was interrupted and waits for it no more."""
        if self._taken is not None:
            self._calls.give_back(self._taken)
        if self._task is not None:
            self._task.cancel()
        self.forget()
        self._calls.leave(self)

    def forget(self) -> None:
        """Close work that was never begun: Python complains of those that are merely dropped."""
        if self._task is None:
            self._work.close()

    def result(self) -> T:
        """Return what the work, which is done, came to."""
        assert self._task is not None
        return self._task.result()
