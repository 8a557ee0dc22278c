"""The one process beside the broker that does its Python work of any length.

It is spawned, not forked: it inherits no socket of the broker, so a broker that ended is seen to
have ended. It begins when it is first needed, runs at lower priority, ignores the terminal's
interrupt (the broker decides when it ends) and does not outlive the broker, not even one that was
killed. One that is killed itself is replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from moldau.base.executor import WorkerLost

logger = logging.getLogger(__name__)

T = TypeVar("T")

WORKER_NICENESS = 10
"""Cleaning a log may take longer; answering a client may not."""


class Worker:
    """A process to compute in, and the next one should it end. Owned by the event loop's thread."""

    def __init__(self) -> None:
        self._pool = _start_pool()

    def compute(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a call in the process; WorkerLost if that ends in the middle of it."""
        try:
            outcome = _submit(self._pool, call)
        except BrokenProcessPool:
            # It was killed while it was idle: nothing is lost, another can take this work.
            self._replace(self._pool)
            outcome = _submit(self._pool, call)
        return asyncio.ensure_future(self._awaited(self._pool, outcome))

    async def _awaited(self, pool: ProcessPoolExecutor, outcome: asyncio.Future[T]) -> T:
        try:
            return await outcome
        except BrokenProcessPool as error:
            self._replace(pool)
            raise WorkerLost("the worker process ended in the middle of its work") from error

    def _replace(self, pool: ProcessPoolExecutor) -> None:
        """Let go of a process that has ended, and say so once, however much work it had."""
        if self._pool is pool:
            logger.warning("the worker process was killed; another begins when it is needed")
            pool.shutdown(wait=False)
            self._pool = _start_pool()

    def close(self) -> None:
        """Wait for what runs and end the process; blocks, and may run on any thread."""
        self._pool.shutdown()


def _submit(pool: ProcessPoolExecutor, call: Callable[[], T]) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(pool, call)


def _start_pool() -> ProcessPoolExecutor:
    """Make a pool of one; its process begins with the first call."""
    spawn = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=spawn, initializer=_begin)


def _begin() -> None:
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
