"""The blocking face's way into asyncio: an event loop in a thread of its own.

The engine runs there whatever the user's thread does, so nothing depends on how often it calls.
Waiting for a call ends at once on Ctrl-C, and what was waited for is cancelled.

    portal = Portal("producer")
    metadata = portal.call(engine.flush(), timeout=10)
    portal.close()
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, Final, Generic, TypeVar

from moldau.engine.arguments import waiting_s
from moldau.engine.errors import ClientClosed, InvalidState

logger = logging.getLogger(__name__)

T = TypeVar("T")

Farewell = Callable[[], Coroutine[Any, Any, None]]

FAREWELL_S = 4.0
"""How long a client that nobody closed may take for its farewell: less than the end waits."""

EXIT_PATIENCE_S = 5.0
"""How long the end of the process waits for cancelled work to clean up; then the daemon thread is
left behind."""


ASK_SLICE_S = 1.0
"""How often whoever asks the loop looks whether it still runs."""


class _LoopThread(threading.Thread):
    """The thread of a portal's loop: nobody may wait for a client in it."""


class _Question(Generic[T]):
    """A function that somebody wants called on the loop, and what came of it."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.answered = threading.Lock()
        self.answered.acquire()
        self.is_taken_back = False
        self._function = function
        self._results: list[T] = []
        self._error: BaseException | None = None

    def answer(self) -> None:
        """Call the function, on the loop."""
        if self.is_taken_back:
            return
        try:
            self._results.append(self._function())
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            self._error = error
        finally:
            self.answered.release()

    def result(self) -> T:
        """Return what the function returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._results[0]


class Portal:
    """A running event loop in a daemon thread; closed by `close`, by the collector, or at exit.

    The collector finds it only if nothing that runs on the loop refers to it.
    """

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._pid = os.getpid()
        self._farewells: list[Farewell] = []
        self._thread = _LoopThread(
            target=_run, args=(self.loop,), name=f"moldau-{name}", daemon=True
        )
        self._thread.start()
        self._end = weakref.finalize(
            self, _stop, self.loop, self._thread, self._pid, self._farewells
        )
        _open.add(self)
        _watch_exit()

    def set_farewell(self, work: Farewell) -> None:
        """Have something done on the loop before it ends, if nobody calls `close`.

        It is cancelled after FAREWELL_S. What is given must not refer to the portal.
        """
        self._farewells[:] = [work]

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
            return future.result(waiting_s(timeout))
        except CancelledError:
            raise _closed() from None
        except BaseException:
            future.cancel()
            raise

    def ask(self, function: Callable[[], T]) -> T:
        """Call a function that never waits on the loop, and wait for its result.

        Costs a third of `call`: there is no task and no future. Ctrl-C ends the wait at once; a
        function that was not called by then is not called any more.
        """
        self._check_usable()
        question = _Question(function)
        self.post(question.answer)
        try:
            # In slices: a loop that has just ended calls nothing.
            while not question.answered.acquire(timeout=ASK_SLICE_S):
                self.check_open()
        except BaseException:
            question.is_taken_back = True
            raise
        return question.result()

    def post(self, callback: Callable[..., object], *arguments: object) -> None:
        """Have a function called on the loop soon, without waiting; from a callback too."""
        self.check_open()
        try:
            self.loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError as error:
            raise _closed() from error

    def _check_usable(self) -> None:
        self.check_open()
        if self.is_own_thread:
            raise _in_a_callback()

    def check_open(self) -> None:
        """Refuse what is closed or another process's: ClientClosed, InvalidState."""
        if not self.is_own_process:
            raise forked()
        if not self._end.alive:
            raise _closed()

    @property
    def is_open(self) -> bool:
        """Whether calls can be made from this process."""
        return self._end.alive and self.is_own_process

    @property
    def is_own_process(self) -> bool:
        """Whether this is the process that made it, not one that was forked off."""
        return os.getpid() == self._pid

    @property
    def is_own_thread(self) -> bool:
        """Whether this is the loop's thread: in a callback, that is."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Cancel what still runs, wait for it, and end the thread. Closing twice is fine.

        From a callback it does not wait: the loop ends after this turn.
        """
        self._farewells.clear()
        self._end()
        if self.is_own_process and not self.is_own_thread:
            self._thread.join(EXIT_PATIENCE_S)


def refuse_in_callbacks() -> None:
    """Refuse to wait in the thread of a loop: what is waited for may never come then."""
    if isinstance(threading.current_thread(), _LoopThread):
        raise _in_a_callback()


def forked() -> InvalidState:
    """Make what is told to a process that uses a client of its parent's."""
    return InvalidState(
        "the client was made before this process was forked off",
        advice="Make clients after the fork, in each process its own.",
    )


def _in_a_callback() -> InvalidState:
    return InvalidState(
        "a blocking call was made from a callback of the client itself",
        advice="Hand the work to a thread of your own, or use the asyncio client.",
    )


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
        _parting.discard(threading.current_thread())


_open: Final[weakref.WeakSet[Portal]] = weakref.WeakSet()
_parting: Final[set[threading.Thread]] = set()
"""Threads that were told to end; the end of the process waits for them."""


def _stop(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    pid: int,
    farewells: list[Farewell],
) -> None:
    """Have a loop end. Waits for nothing: the collector calls it in any thread, at any time."""
    if os.getpid() != pid:
        return  # the thread stayed in the other process
    _parting.add(thread)
    with contextlib.suppress(RuntimeError):  # it has ended by itself
        loop.call_soon_threadsafe(_part, loop, tuple(farewells))
    if not thread.is_alive():
        _parting.discard(thread)


def _part(loop: asyncio.AbstractEventLoop, farewells: tuple[Farewell, ...]) -> None:
    if not farewells:
        loop.stop()
        return
    parting = loop.create_task(_bid_farewell(farewells))
    parting.add_done_callback(lambda _: loop.stop())


async def _bid_farewell(farewells: tuple[Farewell, ...]) -> None:
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                for farewell in farewells:
                    await farewell()
    except Exception:
        logger.exception("a client that was not closed could not be ended properly")


@functools.cache
def _watch_exit() -> None:
    atexit.register(_exit)


def _exit() -> None:
    """End what is open; by now nothing else would, as the finalizers may come later or before."""
    for portal in tuple(_open):
        portal._end()  # noqa: SLF001 - of this module
    for thread in tuple(_parting):
        thread.join(EXIT_PATIENCE_S)
