"""The executor port over a few threads and one worker process.

Threads carry calls that release the interpreter lock. Python work of any length goes to a process
of its own, because a busy thread takes turns with the event loop and makes every request wait.
Both are small on purpose: each caller waits for its own piece, so what queues up is as bounded as
the callers are.

The worker is spawned, not forked: it inherits no socket of the broker, so a broker that ended is
seen to have ended. It begins when it is first needed, runs at lower priority, ignores the
terminal's interrupt (the broker decides when it ends) and does not outlive the broker, not even
one that was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ParamSpec, TypeVar

from moldau.base.executor import WorkerLost

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

THREAD_COUNT = 4
"""Enough that a slow sync, a cold read and a password check do not wait for each other."""

WORKER_NICENESS = 10
"""Cleaning a log may take longer; answering a client may not."""


class PoolExecutor:
    """Where a broker's blocking and heavy work goes. Owned by the event loop's thread."""

    def __init__(self, thread_count: int = THREAD_COUNT) -> None:
        self._threads = ThreadPoolExecutor(thread_count, thread_name_prefix="moldau")
        self._worker: ProcessPoolExecutor | None = None
        self._closed = False

    def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
        call = functools.partial(work, *args, **kwargs)
        return asyncio.get_running_loop().run_in_executor(self._threads, call)

    def compute(
        self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Run Python work in the worker process; cancelling does not interrupt it there."""
        if self._closed:
            raise RuntimeError("the executor is closed")
        call = functools.partial(work, *args, **kwargs)
        worker = self._worker or self._start()
        try:
            outcome = _submit(worker, call)
        except BrokenProcessPool:
            # It was killed while it was idle: nothing is lost, another can take this work.
            self._drop(worker)
            worker = self._start()
            outcome = _submit(worker, call)
        return asyncio.ensure_future(self._awaited(worker, outcome))

    async def _awaited(self, worker: ProcessPoolExecutor, outcome: asyncio.Future[T]) -> T:
        try:
            return await outcome
        except BrokenProcessPool as error:
            self._drop(worker)
            raise WorkerLost("the worker process ended in the middle of its work") from error

    def _start(self) -> ProcessPoolExecutor:
        self._worker = _start_worker()
        return self._worker

    def _drop(self, worker: ProcessPoolExecutor) -> None:
        """Let go of a worker that has ended, and say so once, however much work it had."""
        if self._worker is worker:
            logger.warning("the worker process was killed; another begins when it is needed")
            worker.shutdown(wait=False)
            self._worker = None

    async def close(self) -> None:
        self._closed = True
        worker, self._worker = self._worker, None
        await asyncio.to_thread(self._threads.shutdown)
        if worker is not None:
            await asyncio.to_thread(worker.shutdown)


def _submit(worker: ProcessPoolExecutor, call: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(worker, call)


def _start_worker() -> ProcessPoolExecutor:
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin_worker)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.nice(WORKER_NICENESS)
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the broker's end. The queue between us would not tell: we hold both its ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(0)
