"""Where the metadata stores do what blocks: in the executor, or in place where there is none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from moldau.base.executor import Executor

Blocking = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a call that waits for the disk, beside the event loop."""


def blocking_in(executor: Executor | None) -> Blocking:
    """Return what runs blocking calls."""

    async def run(work: Callable[[], None]) -> None:
        if executor is None:
            work()
        else:
            await executor.run(work)

    return run
