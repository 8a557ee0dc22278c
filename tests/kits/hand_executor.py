"""An executor whose calls run when a test says so."""

from __future__ import annotations

import asyncio

from moldau.base.errors import StorageError


class HandExecutor:
    """Runs a call when the test says so."""

    def __init__(self) -> None:
        self.waiting = []
        self.calls = 0

    def run(self, work, *args):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((future, work, args))
        self.calls += 1
        return future

    def go(self) -> None:
        future, work, args = self.waiting.pop(0)
        try:
            future.set_result(work(*args))
        except StorageError as error:
            future.set_exception(error)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
