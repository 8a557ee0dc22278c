"""Work in slices, as tests of handlers see it: done to the end at once, or looked at in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any


def finished(answer: Any) -> Any:
    """Return what a handler answers, having done all of its slices."""
    if not isinstance(answer, Generator):
        return answer
    try:
        while True:
            next(answer)
    except StopIteration as end:
        return end.value


class Finishing:
    """Handlers, or one of them, that do all of their slices when they are called."""

    def __init__(self, handlers: Any) -> None:
        self.handlers = handlers
        """Those that may be paused."""

    def __getattr__(self, name: str) -> Any:
        handler = getattr(self.handlers, name)
        return lambda *args: finished(handler(*args))

    def __call__(self, *args: Any) -> Any:
        return finished(self.handlers(*args))


def answered(answer: Any) -> Any:
    """Return what a handler answers in the end, in an event loop of its own where it needs one."""

    async def awaited() -> Any:
        result = finished(answer)
        return await result if isinstance(result, Awaitable) else result

    return asyncio.run(awaited())


async def count_turns(work: Awaitable[Any]) -> int:
    """Return how many turns the loop makes before work is done."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await work
    counting.cancel()
    return turns


def count_pauses(work: Generator[None, None, Any]) -> int:
    """Return how often work may be paused before it has a result."""
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            if isinstance(end.value, Coroutine):
                end.value.close()
            return pauses
        pauses += 1
