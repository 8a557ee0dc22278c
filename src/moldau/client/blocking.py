"""The blocking face's way into asyncio: an event loop in a thread of its own.

The engine runs there whatever the user's thread does, so nothing depends on how often it calls.
Waiting for a call ends at once on Ctrl-C, and what was waited for is cancelled.

    portal = Portal("producer")
    metadata = portal.call(engine.flush(), timeout=10)
    portal.close()
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from moldau.client.errors import ClientClosed, InvalidState

T = TypeVar("T")

EXIT_PATIENCE_S = 5.0
"""How long the end of the process waits for cancelled work to clean up; then the daemon thread is
left behind."""


class Portal:
    """A running event loop in a daemon thread; closed by `close`, by the collector, or at exit."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=_run, args=(self.loop,), name=f"moldau-{name}", daemon=True
        )
        self._thread.start()
        self._end = weakref.finalize(self, _stop, self.loop, self._thread, self._pid)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine on the loop and wait for its result; TimeoutError after these seconds.

        Ctrl-C or the time-out ends the wait at once and cancels the coroutine.
        """
        try:
            self._check_usable()
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except BaseException as error:
            work.close()
            if isinstance(error, RuntimeError):
                raise _closed() from error
            raise
        try:
            return future.result(timeout)
        except CancelledError:
            raise _closed() from None
        except BaseException:
            future.cancel()
            raise

    def post(self, callback: Callable[..., object], *arguments: object) -> None:
        """Have a function called on the loop soon, without waiting."""
        self._check_usable()
        self.loop.call_soon_threadsafe(callback, *arguments)

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise InvalidState(
                "the client was made before this process was forked off",
                advice="Make clients after the fork, in each process its own.",
            )
        if not self._end.alive:
            raise _closed()
        if threading.current_thread() is self._thread:
            raise InvalidState(
                "a blocking call was made from a callback of the client itself",
                advice="Hand the work to a thread of your own, or use the asyncio client.",
            )

    @property
    def is_open(self) -> bool:
        """Whether calls can be made from this process."""
        return self._end.alive and os.getpid() == self._pid

    def close(self) -> None:
        """Cancel what still runs, wait for it, and end the thread. Closing twice is fine."""
        self._end()


def _closed() -> ClientClosed:
    return ClientClosed("the client has been closed")


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(asyncio.sleep(0))  # what was posted with the stop begins, and ends
        while left := asyncio.all_tasks(loop):
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pid: int) -> None:
    if os.getpid() != pid:
        return  # the thread stayed in the other process
    with contextlib.suppress(RuntimeError):  # it has ended by itself
        loop.call_soon_threadsafe(loop.stop)
    if threading.current_thread() is not thread:
        thread.join(EXIT_PATIENCE_S)
