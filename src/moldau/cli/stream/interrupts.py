"""Ctrl-C while records are on their way: the first ends the reading, the second everything.

A program that sends must not be torn out of the middle of a record. The first Ctrl-C raises only
where the program waits for input; elsewhere it is noted, and found when the next input is wanted.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Interrupts:
    """Handles SIGINT while it is entered."""

    def __init__(self) -> None:
        self.came = False
        self._is_waiting = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self.came or self._is_waiting:
            self.came = True
            raise KeyboardInterrupt
        self.came = True

    def waiting(self, wait: Callable[[], T]) -> T:
        """Call what waits for input; KeyboardInterrupt if Ctrl-C came, now or before."""
        self._is_waiting = True
        try:
            if self.came:
                raise KeyboardInterrupt
            return wait()
        finally:
            self._is_waiting = False
