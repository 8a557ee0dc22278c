"""SIGTERM and Ctrl-C: the first asks for an end in good order, the next does not wait for that.

What ends something is called in a thread of its own: a handler interrupts the main thread anywhere,
also where it holds the very lock that is needed to tell it so.
"""

from __future__ import annotations

import _thread
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Protocol, Self

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop(Protocol):
    """What ends something."""

    def __call__(self, *, urgent: bool) -> None:
        """Have it end, at once if that is urgent."""


class Signals:
    """Takes the signals while it is entered; outside the main thread, which has none, nothing."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._came = False
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Take the signals from whoever has taken them: Spark takes Ctrl-C when it starts."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        came, self._came = self._came, True
        _thread.start_new_thread(self._stop, (), {"urgent": came})

    def __enter__(self) -> Self:
        """Listen."""
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back."""
        if threading.current_thread() is threading.main_thread():
            for number, handler in self._before.items():
                signal.signal(number, handler)
