"""How far a command is, told on a terminal and nowhere else.

One line on standard error that is written over a few times a second.
"""

from __future__ import annotations

import sys
from typing import Final, TextIO

from moldau.base.clock import Clock, SystemClock
from moldau.cli.frame.texts import size_text

PERIOD_S: Final = 0.2
"""Quick enough to see that it runs, slow enough to read."""
ERASE: Final = "\r\x1b[K"


class Progress:
    """Counts records and bytes; shows them if the stream is a terminal."""

    def __init__(
        self, word: str, *, stream: TextIO | None = None, clock: Clock | None = None,
        is_wanted: bool = True, total: int | None = None,
    ) -> None:  # fmt: skip
        self.total = total
        """How many records there will be, where that is known."""
        self.count = 0
        self.size = 0
        self._word = word
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self.is_shown = is_wanted and self._stream.isatty()
        self._began = self._next = self._clock.monotonic()

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return self._clock.monotonic() - self._began

    def add(self, count: int, size: int) -> None:
        """Count some more; call it for many records at a time."""
        self.count += count
        self.size += size
        if self.is_shown and (now := self._clock.monotonic()) >= self._next:
            self._next = now + PERIOD_S
            self._stream.write(f"{ERASE}{self.text()}")
            self._stream.flush()

    def text(self) -> str:
        """Say how far it is."""
        seconds = max(self.elapsed_s, 1e-9)
        part = f" ({min(100, 100 * self.count // self.total)} %)" if self.total else ""
        return (
            f"{self.count:,} records {self._word}{part}, {size_text(self.size)},"
            f" {self.count / seconds:,.0f}/s, {size_text(self.size / seconds)}/s"
        )

    def clear(self) -> None:
        """Take the line away, so that something else can be said."""
        if self.is_shown:
            self._stream.write(ERASE)
            self._stream.flush()

    def end(self) -> None:
        """Leave the last figures on the terminal."""
        if self.is_shown:
            self._stream.write(f"{ERASE}{self.text()}\n")
            self._stream.flush()
