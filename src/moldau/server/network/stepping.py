"""Work in slices from within a coroutine: a step for each turn of the loop.

For what follows a wait, and for changes. A coroutine is finished even if its client leaves, where
work of its own in `slices` is dropped.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from moldau.server.network.slices import Sliced

T = TypeVar("T")


async def take_turns(work: Sliced[T]) -> T:
    """Do work to its end and return its result."""
    try:
        while True:
            next(work)
            await asyncio.sleep(0)
    except StopIteration as stop:
        result: T = stop.value
        return result
