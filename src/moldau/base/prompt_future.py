"""A future that tells one listener of its result within the same turn of the event loop.

asyncio calls whoever listens to a future on the next turn of the loop. An answer that waits for
replicas passes several futures, and each of these turns adds to what its client waits. It is told
at once here. Who awaits such a future, or adds a callback, still hears of it on the next turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

Listener = Callable[[asyncio.Future[Any]], None]
"""It must not raise: it is called by whoever sets the result."""


class PromptFuture(asyncio.Future[T]):
    """A future with one listener that is called at once. Made on a running loop."""

    __slots__ = ("_listener", "on_cancel")

    def __init__(self) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self._listener: Listener | None = None
        self.on_cancel: Callable[[], None] | None = None
        """Called at once, once, if the future is cancelled."""

    def listen(self, listener: Listener) -> None:
        """Call a listener as soon as there is a result; for an error or the end a turn later."""
        if self.done():
            self.get_loop().call_soon(listener, self)
        else:
            self._listener = listener

    def set_result(self, result: T) -> None:
        """Set the result, and call the listener."""
        super().set_result(result)
        listener = self._listener
        if listener is not None:
            self._listener = None
            listener(self)

    def set_exception(self, exception: type[BaseException] | BaseException) -> None:
        """Set an error; the listener hears of it on the next turn."""
        super().set_exception(exception)
        self._tell_later()

    def cancel(self, msg: Any = None) -> bool:
        """Cancel it; the listener hears of that on the next turn: it may be the one who cancels."""
        if not super().cancel(msg):
            return False
        self._tell_later()
        on_cancel, self.on_cancel = self.on_cancel, None
        if on_cancel is not None:
            on_cancel()
        return True

    def _tell_later(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self.get_loop().call_soon(listener, self)
