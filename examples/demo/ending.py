"""Whether all of it shall end: asked for by Ctrl-C, or by a signal from elsewhere, at any time."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending:
    """The first signal asks for an end in good order, the second does not wait for that."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self.in_haste: Callable[[], None] | None = None
        """What the second signal calls."""

    def listen(self) -> None:
        """Take the signals from now on."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    @property
    def is_asked_for(self) -> bool:
        """Whether somebody wants it to end."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Have it end."""
        self._asked.set()

    def wait(self, seconds: float) -> bool:
        """Wait, unless it shall end; tell whether it shall."""
        return self._asked.wait(seconds)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked.is_set() and self.in_haste is not None:
            self.in_haste()
        self._asked.set()
