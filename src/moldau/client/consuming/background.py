"""Tasks in the background that nobody loses sight of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def in_background(
    work: Coroutine[Any, Any, None], name: str, crashed: Callable[[Exception], None]
) -> asyncio.Task[None]:
    """Run a loop without end in a task; should it fail after all, somebody is told."""
    task = asyncio.get_running_loop().create_task(work, name=name)

    def done(ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and isinstance(error := ended.exception(), Exception):
            crashed(error)

    task.add_done_callback(done)
    return task
