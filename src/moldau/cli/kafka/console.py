"""Where a command reads and writes.

Commands are handed a console and never touch the process's own streams, so a test reads what they
say without a process. Output is bytes underneath: records are not text.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import BinaryIO


class Console:
    """Three streams, as a shell gives them."""

    def __init__(self, stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    @classmethod
    def of_process(cls) -> Console:
        """Return the streams of this process."""
        return cls(sys.stdin.buffer, sys.stdout.buffer, sys.stderr.buffer)

    def say(self, line: str = "") -> None:
        """Write a line to standard output."""
        self.stdout.write(line.encode(errors="surrogateescape") + b"\n")

    def say_all(self, lines: Iterable[str]) -> None:
        """Write lines to standard output."""
        for line in lines:
            self.say(line)

    def warn(self, line: str) -> None:
        """Write a line to standard error, after all that was said before it."""
        self.stdout.flush()
        self.stderr.write(line.encode(errors="surrogateescape") + b"\n")
        self.stderr.flush()

    def ask(self, question: str) -> str:
        """Show a question and return the line that is typed."""
        self.stdout.write(question.encode())
        self.stdout.flush()
        return self.stdin.readline().decode(errors="replace").strip()
