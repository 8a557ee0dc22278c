"""Notes what is on some terminals, and when it changed."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tools.recording.terminal import Row, Terminal

FRAME_S: Final = 0.1
"""No more than ten frames a second: a counter stays readable, and the file small."""
KEYSTROKE_S: Final = 0.04


@dataclass(frozen=True, slots=True)
class Frame:
    """All rows of all terminals, one below the other, at one moment."""

    at_s: float
    rows: tuple[Row, ...]


class TooLateError(Exception):
    """Something that was waited for has not come."""


class Recorder:
    """Reads the terminals' output while the session waits, and keeps a frame of each change."""

    def __init__(self, terminals: Sequence[Terminal]) -> None:
        self._terminals = terminals
        self._began_s = time.monotonic()
        self.frames: list[Frame] = []

    def type(self, terminal: Terminal, text: str) -> None:
        """Type a text at the pace of a person."""
        for letter in text:
            terminal.write(letter)
            self.watch(KEYSTROKE_S)

    def watch(self, seconds: float) -> None:
        """Let time pass."""
        self._watch_until(lambda: False, seconds)

    def wait(self, condition: Callable[[], bool], limit_s: float) -> None:
        """Let time pass until something is so."""
        if not self._watch_until(condition, limit_s):
            screens = "\n".join(terminal.text() for terminal in self._terminals)
            raise TooLateError(f"not within {limit_s:.0f} s; on the screens was:\n{screens}")

    def _watch_until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        end_s = time.monotonic() + limit_s
        while not condition():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return False
            self._read(min(left_s, FRAME_S))
            self._look()
        return True

    def _read(self, limit_s: float) -> None:
        """Take in what comes first, or nothing within the limit."""
        opened = {one.descriptor: one for one in self._terminals if one.descriptor is not None}
        readable, _, _ = select.select(list(opened), [], [], limit_s)
        for descriptor in readable:
            opened[descriptor].read()

    def _look(self) -> None:
        rows = tuple(row for terminal in self._terminals for row in terminal.rows())
        at_s = time.monotonic() - self._began_s
        last = self.frames[-1] if self.frames else Frame(-FRAME_S, ())
        if rows != last.rows and at_s >= last.at_s + FRAME_S:
            self.frames.append(Frame(at_s, rows))
