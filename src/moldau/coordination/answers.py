"""Responses that are ready or pending, and how several are combined into one.

Nearly every request of a coordinator is answered in the same turn of the loop, and then needs no
future. The caller gets an `Answer[R]`: the response itself, or an `asyncio.Future` of it. The
dispatcher awaits the future, and cancels it when the client disconnects. Neither raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from moldau.protocol.errors import ErrorCode

R = TypeVar("R")
T = TypeVar("T")

Answer: TypeAlias = R | asyncio.Future[R]

Failed: TypeAlias = Callable[[ErrorCode], R]
"""Makes the response for an error of the coordinator itself."""


class OpenTicket:
    """A ticket as the runtime sees it: holds the response, once there is one."""

    __slots__ = ("_answered", "_failed", "_future", "_response")

    def __init__(self, failed: Failed[object]) -> None:
        self._failed = failed
        self._answered = False
        self._response: object = None
        self._future: asyncio.Future[object] | None = None

    def answer(self, response: object) -> None:
        """Set the response; only the first one counts."""
        if self._answered:
            return
        self._answered = True
        self._response = response
        future = self._future
        if future is not None and not future.done():
            future.set_result(response)

    def fail(self, code: ErrorCode) -> None:
        """Answer with an error, unless there is a response already."""
        if not self._answered:
            self.answer(self._failed(code))

    def taken(self) -> Answer[object]:
        """Return the response, or a future of it; called once."""
        if self._answered:
            return self._response
        self._future = asyncio.get_running_loop().create_future()
        return self._future


def combined(answers: Sequence[Answer[R]], combine: Callable[[list[R]], T]) -> Answer[T]:
    """Combine several answers into one, which is ready when all of them are.

    If a part raises or is cancelled, so is the result. Cancelling the result cancels the pending
    parts.
    """
    waiting = [one for one in answers if isinstance(one, asyncio.Future)]
    if not waiting:
        return combine([one for one in answers if not isinstance(one, asyncio.Future)])
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    left = len(waiting)

    def arrived(_: asyncio.Future[R]) -> None:
        nonlocal left
        left -= 1
        if left or result.done():
            return
        try:
            parts = [one.result() if isinstance(one, asyncio.Future) else one for one in answers]
            result.set_result(combine(parts))
        except asyncio.CancelledError:
            result.cancel()
        except Exception as error:  # noqa: BLE001 - the caller that awaits the result gets it
            result.set_exception(error)

    def abandoned(_: asyncio.Future[T]) -> None:
        if result.cancelled():
            for one in waiting:
                one.cancel()

    for one in waiting:
        one.add_done_callback(arrived)
    result.add_done_callback(abandoned)
    return result
