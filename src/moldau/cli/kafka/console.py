"""Where a command reads and writes, and the tables it prints.

Commands are handed a console and never touch the process's own streams, so a test reads what they
say without a process. Output is bytes underneath: records are not text.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
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


def padded_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lay out columns as wide as their widest cell, a tab after each, as newer commands do."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [
        "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
        for row in (header, *rows)
    ]
