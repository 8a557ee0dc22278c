"""Work in the background: nobody loses sight of it, and a client does not go on without it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.engine.errors import ClientFailed

logger = logging.getLogger(__name__)

Crashed = Callable[[ClientFailed], None]
"""Told of work that ended by an error that nobody expected."""


def in_background(
    work: Coroutine[Any, Any, None], name: str, crashed: Crashed
) -> asyncio.Task[None]:
    """Run work in a task; should it fail, somebody is told."""
    task = asyncio.get_running_loop().create_task(work, name=name)

    def done(ended: asyncio.Task[None]) -> None:
        if not ended.cancelled() and isinstance(error := ended.exception(), Exception):
            crashed(failure_of(name, error))

    task.add_done_callback(done)
    return task


def failure_of(name: str, error: Exception) -> ClientFailed:
    """Make what a client raises from now on, a part of which has ended; the log has it too."""
    if isinstance(error, ClientFailed):
        return error
    logger.critical("%s ended", name, exc_info=error)
    failed = ClientFailed(f"{name} ended: {error!r}")
    failed.__cause__ = error
    return failed
