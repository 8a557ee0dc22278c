"""Long work on the event loop, done in slices, so that every other client gets its turn.

Work whose length a client decides (an array it sent, an answer it asked for) is a generator: it
yields where it may pause, and returns its result. Whatever is done by the end of the first slice
is answered on the spot, so that ordinary requests never wait. The rest takes turns: however many
clients have such work, all of them together get one short turn for each turn of the loop.

What such work makes may be a million objects, and a full run of Python's garbage collector, which
looks at every one of them, is not done in slices. It waits until no work has been paused for a
while, and for coroutines in which a large request goes on and which keep those objects. The
youngest objects, among which nearly all cycles end, are collected as always.

Between two slices anything may have changed. Work reads a snapshot, or looks again; it validates
in slices and then applies in one piece. Work that nobody waits for any more is closed at a yield.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from moldau.base.clock import Clock
from moldau.observe.loop_lag import NOTED_S, LoopLag

T = TypeVar("T")

Sliced: TypeAlias = Generator[None, None, T]
"""Work that may be paused at every yield, and returns its result."""

FIRST_SLICE_S = 0.002
"""What one request gets at once; of several in one turn of the loop, what all get together."""

TURN_S = 0.004
"""What all work that takes turns gets together for each turn of the loop."""

SLICE_S = 0.001
"""How long one of them runs before the next one does."""


COLLECTIONS_WAIT_S = 1.0
"""How long after the last paused work the garbage collector may make a full run again."""

COLLECTIONS_HELD_S = 30.0
"""How long a full run waits for one coroutine. Some of them wait for long themselves."""

NEVER = 2**31 - 1
"""A threshold that the garbage collector does not reach."""

_FULL_THRESHOLD = gc.get_threshold()[2]


class Finished(NamedTuple):
    """Work that was done within its first slice."""

    result: Any


class _Paused(NamedTuple):
    work: Sliced[Any]
    future: asyncio.Future[Any]
    who: object


class SlicedWork:
    """All paused work of one broker. Owned by the event loop's thread."""

    def __init__(self, clock: Clock, lag: LoopLag | None = None) -> None:
        self._clock = clock
        self._lag = lag or LoopLag()
        self._paused: deque[_Paused] = deque()
        self._takes_turns = False
        self._full_threshold = _FULL_THRESHOLD
        self._collections: asyncio.TimerHandle | None = None
        """Set while full runs are put off and no work is paused."""
        self._held: dict[asyncio.Future[Any], float] = {}
        """What full runs wait for besides, and until when."""
        self._first_slices_s = 0.0
        """What first slices have taken in this turn of the loop."""

    def start(self, work: Sliced[Any], who: object = None) -> Finished | asyncio.Future[Any]:
        """Run the first slice; return the result, or the future of it if there is more to do."""
        return self.run_first_slice(work, who) or self.pause(work, who)

    def run_first_slice(self, work: Sliced[Any], who: object = None) -> Finished | None:
        """Run the first slice; return None if there is more to do, and then do not do it.

        `who` names the work if it holds the loop.
        """
        began = self._clock.monotonic()
        try:
            return self._advance(work, began + FIRST_SLICE_S - self._first_slices_s)
        finally:
            self._count_first_slice(self._clock.monotonic() - began, who)

    def pause(self, work: Sliced[Any], who: object = None) -> asyncio.Future[Any]:
        """Do the rest in turns with all other work; cancelling the future ends it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._takes_turns:
            self._takes_turns = True
            loop.call_soon(self._take_turns)
            self._put_off_full_collections()
        self._paused.append(_Paused(work, future, who))
        return future

    def hold_collections(self, going_on: asyncio.Future[Any]) -> None:
        """Let full runs that are put off wait for a coroutine in which a large request goes on."""
        if self._takes_turns or self._collections is not None:
            self._held[going_on] = self._clock.monotonic() + COLLECTIONS_HELD_S
            going_on.add_done_callback(self._held.pop)

    def close(self) -> None:
        """End all paused work: its broker has stopped, but maybe not the process it was in."""
        for work, future, _ in self._paused:
            future.cancel()
            work.close()
        self._paused.clear()
        if self._takes_turns or self._collections is not None:
            self._allow_full_collections()

    def _put_off_full_collections(self) -> None:
        if self._collections is not None:
            self._collections.cancel()
            self._collections = None
        young, middle, full = gc.get_threshold()
        if full != NEVER:  # another broker in this process may have put them off already
            self._full_threshold = full
        gc.set_threshold(young, middle, NEVER)

    def _look_at_collections_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._collections = loop.call_later(COLLECTIONS_WAIT_S, self._look_at_collections)

    def _look_at_collections(self) -> None:
        now_s = self._clock.monotonic()
        if any(now_s < until_s for until_s in self._held.values()):
            self._look_at_collections_later()
        else:
            self._allow_full_collections()

    def _allow_full_collections(self) -> None:
        if self._collections is not None:
            self._collections.cancel()
            self._collections = None
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, self._full_threshold)

    def _count_first_slice(self, seconds: float, who: object) -> None:
        before_s = self._first_slices_s
        self._first_slices_s += seconds
        if before_s < SLICE_S <= self._first_slices_s:
            asyncio.get_running_loop().call_soon(self._forget_first_slices)
        if seconds > NOTED_S:
            self._lag.note(seconds, who)

    def _forget_first_slices(self) -> None:
        """Begin to count anew: this is another turn of the loop."""
        self._first_slices_s = 0.0

    def _advance(self, work: Sliced[Any], end: float) -> Finished | None:
        """Run until it has finished or the slice is over; None if there is more to do."""
        now = self._clock.monotonic
        try:
            while True:
                next(work)
                if now() >= end:
                    return None
        except StopIteration as stop:
            return Finished(stop.value)

    def _take_turns(self) -> None:
        now = self._clock.monotonic
        began = now()
        end = began + TURN_S
        while self._paused and began < end:
            paused = self._paused.popleft()
            self._take_turn(paused, began)
            after = now()
            if after - began > NOTED_S:
                self._lag.note(after - began, paused.who)
            began = after
        if self._paused:
            asyncio.get_running_loop().call_soon(self._take_turns)
        else:
            self._takes_turns = False
            self._look_at_collections_later()

    def _take_turn(self, paused: _Paused, began: float) -> None:
        work, future, _ = paused
        if future.done():
            work.close()
            return
        try:
            finished = self._advance(work, began + SLICE_S)
        except Exception as error:  # noqa: BLE001 - it belongs to the caller who waits
            future.set_exception(error)
            return
        if finished is None:
            self._paused.append(paused)
        else:
            future.set_result(finished.result)
