"""Long work on the event loop, done in slices, so that every other client gets its turn.

Work whose length a client decides (an array it sent, an answer it asked for) is a generator: it
yields where it may pause, and returns its result. Whatever is done by the end of the first slice
is answered on the spot, so that ordinary requests never wait. The rest takes turns: however many
clients have such work, all of them together get one short turn for each turn of the loop.

Between two slices anything may have changed. Work reads a snapshot, or looks again; it validates
in slices and then applies in one piece. Work that nobody waits for any more is closed at a yield.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from moldau.base.clock import Clock

T = TypeVar("T")

Sliced: TypeAlias = Generator[None, None, T]
"""Work that may be paused at every yield, and returns its result."""

FIRST_SLICE_S = 0.002
"""What one request gets at once."""

TURN_S = 0.004
"""What all work that takes turns gets together for each turn of the loop."""

SLICE_S = 0.001
"""How long one of them runs before the next one does."""


class _Finished(NamedTuple):
    result: Any


class SlicedWork:
    """All paused work of one broker. Owned by the event loop's thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paused: deque[tuple[Sliced[Any], asyncio.Future[Any]]] = deque()
        self._following: set[asyncio.Future[Any]] = set()

    def start(self, work: Sliced[T | Awaitable[T]]) -> T | Awaitable[T]:
        """Run the first slice; return the result, or what it will come by if there is more to do.

        Cancelling the future that is returned ends the work.
        """
        finished = self._advance(work, FIRST_SLICE_S)
        if finished is not None:
            result: T | Awaitable[T] = finished.result
            return result
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if not self._paused:
            loop.call_soon(self._take_turns)
        self._paused.append((work, future))
        return future

    def _advance(self, work: Sliced[Any], slice_s: float) -> _Finished | None:
        """Run until it has finished or the slice is over; None if there is more to do."""
        now = self._clock.monotonic
        end = now() + slice_s
        try:
            while True:
                next(work)
                if now() >= end:
                    return None
        except StopIteration as stop:
            return _Finished(stop.value)

    def _take_turns(self) -> None:
        now = self._clock.monotonic
        end = now() + TURN_S
        while self._paused and now() < end:
            self._take_turn(*self._paused.popleft())
        if self._paused:
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _take_turn(self, work: Sliced[Any], future: asyncio.Future[Any]) -> None:
        if future.done():
            work.close()
            return
        try:
            finished = self._advance(work, SLICE_S)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller who waits
            future.set_exception(error)
            return
        if finished is None:
            self._paused.append((work, future))
        elif isinstance(finished.result, Awaitable):
            self._follow(finished.result, future)
        else:
            future.set_result(finished.result)

    def _follow(self, awaitable: Awaitable[Any], future: asyncio.Future[Any]) -> None:
        """Let a result that is itself still to come arrive in the future that was handed out."""
        inner = asyncio.ensure_future(awaitable)
        self._following.add(inner)

        def arrived(inner: asyncio.Future[Any]) -> None:
            self._following.discard(inner)
            if future.done():
                return
            if inner.cancelled():
                future.cancel()
            elif (error := inner.exception()) is not None:
                future.set_exception(error)
            else:
                future.set_result(inner.result())

        inner.add_done_callback(arrived)
