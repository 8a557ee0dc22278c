"""A program in a pseudo-terminal, and what is on its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pyte

READ_SIZE: Final = 65536
CLEAR: Final = b"\x1b[2J"
REDRAW_S: Final = 0.1
"""A program that clears the screen to draw it anew has done so after this time."""
WORDS: Final = re.compile(r"\S+(?: \S+)*")
"""Text with single blanks in it: viewers of SVG may draw several blanks as one."""


@dataclass(frozen=True, slots=True)
class Run:
    """Some text of one look, and the column where it begins."""

    column: int
    text: str
    color: str
    is_bold: bool


Row = tuple[Run, ...]
"""A row of a screen, without its blanks."""


class Terminal:
    """A screen of so many rows. Empty until a program is started in it."""

    def __init__(self, rows: int, columns: int) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._process_id: int | None = None
        self._cleared_s = -REDRAW_S
        self._last_rows = self._drawn()
        self.descriptor: int | None = None
        """Where its output can be read, while there is a program."""

    def start(self, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        """Start a program, whose terminal this is."""
        self._process_id, descriptor = pty.fork()
        if self._process_id == 0:
            os.chdir(folder)
            os.execvpe(command[0], list(command), dict(environment))  # noqa: S606
        size = struct.pack("HHHH", self._screen.lines, self._screen.columns, 0, 0)
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)
        self.descriptor = descriptor

    def write(self, text: str) -> None:
        """Type something."""
        assert self.descriptor is not None
        os.write(self.descriptor, text.encode())

    def read(self) -> None:
        """Take in what the program has written; call it when there is something to read."""
        assert self.descriptor is not None
        try:
            output = os.read(self.descriptor, READ_SIZE)
        except OSError:  # Linux reports the end of a pseudo-terminal as EIO
            output = b""
        if output:
            self._stream.feed(output)
            if CLEAR in output:
                self._cleared_s = time.monotonic()
        else:
            os.close(self.descriptor)
            self.descriptor = None

    def end(self) -> None:
        """End the program at once: one that waits to be read would not heed a polite signal."""
        if self._process_id is not None:
            os.kill(self._process_id, signal.SIGKILL)
            os.waitpid(self._process_id, 0)
            self._process_id = None
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def text(self) -> str:
        """Return what is on the screen, as lines without colours."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def rows(self) -> tuple[Row, ...]:
        """Return what is on the screen, with its looks; never what is half drawn."""
        if time.monotonic() >= self._cleared_s + REDRAW_S:
            self._last_rows = self._drawn()
        return self._last_rows

    def _drawn(self) -> tuple[Row, ...]:
        return tuple(self._row(number) for number in range(self._screen.lines))

    def _row(self, number: int) -> Row:
        cells = [self._screen.buffer[number][column] for column in range(self._screen.columns)]
        runs: list[Run] = []
        column = 0
        for (color, is_bold), alike in groupby(cells, lambda cell: (cell.fg, cell.bold)):
            text = "".join(cell.data for cell in alike)
            runs += (
                Run(column + word.start(), word[0], color, is_bold) for word in WORDS.finditer(text)
            )
            column += len(text)
        return tuple(runs)
