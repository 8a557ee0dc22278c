"""Nothing may be left behind: no task, no socket, no thread."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

FOREIGN_SOCKETS_END_S = 5.0
"""Other libraries in this process (librdkafka) may open a socket meanwhile, and close it again.
What is left behind stays."""


def open_sockets() -> set[str]:
    """Return the sockets of this process, by what the kernel calls them."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - entries vanish while they are listed
        try:
            target = str(Path(f"/proc/self/fd/{name}").readlink())
        except OSError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


@contextmanager
def only_new_garbage() -> Iterator[None]:
    """Let collections inside look at what was made inside.

    A whole suite keeps millions of objects, and a collection that visits all takes half a second.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@only_new_garbage()
def run_without_leaks(main: Coroutine[Any, Any, T], *, timeout_s: float = 120) -> T:
    """Run to the end, and fail if anything was left behind."""
    threads_before = set(threading.enumerate())
    sockets_before = open_sockets()

    async def watched() -> T:
        complaints: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: complaints.append(context)
        )
        async with asyncio.timeout(timeout_s):
            result = await main
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"
        gc.collect()
        assert not complaints, f"the loop complains: {complaints}"
        return result

    result = asyncio.run(watched())
    gc.collect()
    _check_sockets(sockets_before)
    left = {one for one in threading.enumerate() if one not in threads_before}
    assert not left, f"threads left behind: {left}"
    return result


def _check_sockets(before: set[str]) -> None:
    left = open_sockets() - before
    deadline = time.monotonic() + FOREIGN_SOCKETS_END_S
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left &= open_sockets()
    assert not left, f"sockets left behind: {left}"
