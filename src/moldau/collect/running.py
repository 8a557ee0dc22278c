"""Running a collector's tasks until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def until_stopped(stop: asyncio.Event, *works: Coroutine[Any, Any, None]) -> None:
    """Run until told to stop, or until one of the works ends; the others are cancelled then.

    Raises what a work raised. Cancelled, so are the works.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.wait([*tasks, stopping])
    for task in tasks:
        if not task.cancelled():
            task.result()
