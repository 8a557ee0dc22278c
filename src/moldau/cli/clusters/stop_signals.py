"""Ctrl-C and SIGTERM as something to wait for, beside processes that may end.

A signal does not interrupt what the command is doing. It is counted: the first one asks for a stop
in good order, the second one for an end at once.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from types import FrameType
from typing import Any, Final, Self

from moldau.cli.operations.known_process import KnownProcess

NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The last one comes when the terminal is closed."""


class Interrupted(Exception):  # noqa: N818 - not an error
    """A signal ended what was under way."""


class StopSignals:
    """Counts signals while the block lasts."""

    def __init__(self) -> None:
        self.count = 0
        self.last = 0
        self._earlier: dict[int, Any] = {}
        self._awake, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._earlier_wake = -1

    def __enter__(self) -> Self:
        self._earlier_wake = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in NUMBERS:
            # `nohup` has the end of the terminal ignored, and that stays so.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._earlier[number] = signal.signal(number, self._received)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._earlier.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._earlier_wake)
        os.close(self._awake)
        os.close(self._wake)

    def wait(self, processes: Iterable[KnownProcess], timeout_s: float | None) -> None:
        """Wait until a process ends, a signal comes or the time is over."""
        descriptors = [self._awake, *(process.fileno() for process in processes)]
        ready = select.select(descriptors, [], [], timeout_s)[0]
        if self._awake in ready:
            os.read(self._awake, 4096)

    def _received(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.count += 1
        self.last = number
