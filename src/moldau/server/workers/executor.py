"""The executor port over a few threads, and a worker process for each lane.

Threads carry calls that release the interpreter lock. Python work of any length goes to a process
of its own (`worker`), because a busy thread takes turns with the event loop and makes every request
wait. Both are small on purpose: each caller waits for its own piece, so what queues up is as
bounded as the callers are.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from moldau.base.executor import Lane

if TYPE_CHECKING:
    from moldau.server.workers.worker import Worker

P = ParamSpec("P")
T = TypeVar("T")

THREAD_COUNT = 4
"""Enough that a slow sync, a cold read and a password check do not wait for each other."""


class PoolExecutor:
    """Where a broker's blocking and heavy work goes. Owned by the event loop's thread."""

    def __init__(self, thread_count: int = THREAD_COUNT) -> None:
        self._threads = ThreadPoolExecutor(thread_count, thread_name_prefix="moldau")
        self._workers: dict[Lane, Worker] = {}
        self._closed = False

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        call = functools.partial(work, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def compute(
        self, lane: Lane, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        if self._closed:
            raise RuntimeError("the executor is closed")
        worker = self._workers.get(lane) or self._begin(lane)
        return worker.compute(functools.partial(work, *args, **kwargs))

    def _begin(self, lane: Lane) -> Worker:
        # Imported here: most brokers never compute, and half a megabyte comes with it.
        from moldau.server.workers.worker import Worker  # noqa: PLC0415

        worker = self._workers[lane] = Worker(lane)
        return worker

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        for worker in self._workers.values():
            await worker.close()
