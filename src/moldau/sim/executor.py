"""The executor port on virtual time: work happens later, in this thread, after a drawn delay.

Work begins some time after it was asked for and its outcome arrives some time after it was done,
so whatever the loop does meanwhile comes before, between or after, as with a real thread.
"""

from __future__ import annotations

import asyncio
import functools
import pickle
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from moldau.base.executor import Lane
from moldau.sim.loop import settle
from moldau.sim.world import World

P = ParamSpec("P")
T = TypeVar("T")

RUN_MEAN_S = 0.001
"""A sync or a read of a good disk."""

COMPUTE_MEAN_S = 0.02
"""A piece of Python work worth a worker process."""


class SimExecutor:
    """One simulated process's threads and its worker."""

    def __init__(self, world: World) -> None:
        self._loop = world.loop
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._open = True
        self._killed = False
        self.run_mean_s = RUN_MEAN_S
        """Raise it for a slow disk."""

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        return self._later(functools.partial(work, *args, **kwargs), self.run_mean_s)

    def compute(
        self, lane: Lane, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Run work that must pickle, and does here, so that what would not fails as it would."""
        del lane  # pieces overtake each other here, whatever their lane
        parcel = pickle.dumps((work, args, kwargs))
        return self._later(functools.partial(_open_and_run, parcel), COMPUTE_MEAN_S)

    def _later(self, work: Callable[[], T], mean_s: float) -> asyncio.Future[T]:
        if not self._open:
            raise RuntimeError("the executor is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._pending[future] = None
        future.add_done_callback(self._forget)
        self._loop.call_later(self._loop.delay_s(mean_s / 2), self._begin, future, work, mean_s)
        return future

    def _begin(self, future: asyncio.Future[T], work: Callable[[], T], mean_s: float) -> None:
        if self._killed or future.cancelled():
            return
        outcome: asyncio.Future[T] = self._loop.create_future()
        settle(outcome, work)
        # Mark an error as seen. If the process ends before `_tell`, nobody is left to hear of it.
        outcome.exception()
        self._loop.call_later(self._loop.delay_s(mean_s / 2), self._tell, future, outcome)

    def _tell(self, future: asyncio.Future[T], outcome: asyncio.Future[T]) -> None:
        error = outcome.exception()
        if self._killed or future.cancelled():
            return
        if error is None:
            future.set_result(outcome.result())
        else:
            future.set_exception(error)

    def _forget(self, future: asyncio.Future[T]) -> None:
        self._pending.pop(future, None)

    async def close(self) -> None:
        """Wait for what runs; further work is refused."""
        self._open = False
        if self._pending:
            await asyncio.wait(list(self._pending))

    def kill(self) -> None:
        """End with the process: what was asked for and not begun never happens."""
        self._open = False
        self._killed = True


def _open_and_run(parcel: bytes) -> Any:
    work, args, kwargs = pickle.loads(parcel)  # noqa: S301 - bytes this module packed
    return pickle.loads(pickle.dumps(work(*args, **kwargs)))  # noqa: S301 - likewise
