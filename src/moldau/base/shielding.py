"""Waits for work that goes on if who waits is cancelled: `asyncio.shield` as it was before 3.14.

From Python 3.14 on `asyncio.shield` reports what shielded work fails of to the event loop once
nobody waits any more, even where the failure was told elsewhere: a line of ERROR in a broker's log
for a connection that could not be made. Here such a failure is nobody's, in every version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def shielded(awaitable: Awaitable[T]) -> T:
    """Return what the work comes to; cancelled, it goes on, and how it ends is not told here."""
    work = asyncio.ensure_future(awaitable)
    try:
        if not work.done():
            await asyncio.wait((work,))
    except asyncio.CancelledError:
        work.add_done_callback(_take_note)
        raise
    return work.result()


def _take_note(work: asyncio.Future[T]) -> None:
    """Keep the loop from reporting a failure that nobody has asked for."""
    if not work.cancelled():
        work.exception()
