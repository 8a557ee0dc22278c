"""Answers that are there at once or come later, and how several become one.

Nearly every request of a coordinator is answered in the same turn of the loop, and then costs no
future. Whoever asks gets `Answer[R]`: the response itself, or an `asyncio.Future` of it, which the
dispatcher awaits, and cancels when the client leaves. Neither raises.
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
"""Makes the response that tells a client of an error of the coordinator itself."""


class OpenTicket:
    """The runtime's end of a ticket: a response, once there is one."""

    __slots__ = ("_answered", "_failed", "_future", "_response")

    def __init__(self, failed: Failed[object]) -> None:
        self._failed = failed
        self._answered = False
        self._response: object = None
        self._future: asyncio.Future[object] | None = None

    def answer(self, response: object) -> None:
        """Take the response; only the first one counts."""
        if self._answered:
            return
        self._answered = True
        self._response = response
        future = self._future
        if future is not None and not future.done():
            future.set_result(response)

    def fail(self, code: ErrorCode) -> None:
        """Answer with an error, unless it is answered."""
        if not self._answered:
            self.answer(self._failed(code))

    def taken(self) -> Answer[object]:
        """Hand the response out, or a future of it; called once."""
        if self._answered:
            return self._response
        self._future = asyncio.get_running_loop().create_future()
        return self._future


def combined(answers: Sequence[Answer[R]], combine: Callable[[list[R]], T]) -> Answer[T]:
    """Make one answer of several, once all of them are there; at once if they are.

    A part that fails, or is cancelled, does the same to the result. Cancelling the result cancels
    those that are still to come.
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
        except Exception as error:  # noqa: BLE001 - whoever awaits the result deals with it
            result.set_exception(error)

    def abandoned(_: asyncio.Future[T]) -> None:
        if result.cancelled():
            for one in waiting:
                one.cancel()

    for one in waiting:
        one.add_done_callback(arrived)
    result.add_done_callback(abandoned)
    return result
