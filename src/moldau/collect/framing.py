"""How the bytes of a log file become records: a line each, or several lines that belong together.

Pure. Bytes are pushed as they were read, in pieces of any size, and records are taken as soon as
they are whole; the pieces make no difference. What cannot be a record yet is kept, never more of it
than one record may have: the rest of a longer one is counted and forgotten.

`position` is where reading would have to begin again to get exactly what has not been taken yet.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.base.errors import UserError

TAIL_SIZE: Final = 256
"""So many bytes before a position tell a file from another: two lines of a usual log."""

_DATE: Final = rb"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d"

PRESETS: Final = {
    "python": _DATE + rb"|\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b",
    "java": (
        _DATE
        + rb"|\d\d:\d\d:\d\d[.,]\d{3} "
        + rb"|[A-Z][a-z]{2} \d{1,2}, \d{4} "
        + rb"|\[?(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b(?!:)"
    ),
}
"""How the first line of a record begins in the usual formats of `logging`, and of Log4j, Logback
and java.util.logging. A traceback, which begins otherwise, belongs to the line before it. (In the
two-line form of java.util.logging the second line begins with a level and a colon.)"""


@dataclass(frozen=True, slots=True)
class Beginnings:
    """Which lines begin a record: those that match, or those that do not."""

    pattern: re.Pattern[bytes]
    if_matched: bool = True

    @classmethod
    def of(cls, text: str, *, if_matched: bool = True) -> Beginnings:
        """Read a regular expression for the beginning of a line; UserError if it is none."""
        try:
            pattern = re.compile(text.encode(errors="surrogateescape"))
        except re.error as error:
            raise UserError(f"{text!r} is not a pattern: {error}") from error
        return cls(pattern, if_matched)

    @classmethod
    def preset(cls, name: str) -> Beginnings:
        """Return the rule for logs of a language."""
        return cls(re.compile(PRESETS[name]))

    def begins(self, line: bytes) -> bool:
        """Tell whether a line begins a record; the first of a file does in any case."""
        return (self.pattern.match(line) is not None) is self.if_matched


@dataclass(frozen=True, slots=True)
class Framing:
    """What a record is."""

    size_max: int
    """Bytes of a record; a longer one is cut there, or left out."""
    keeps_cut: bool = True
    """Whether of a record that is too long the beginning is kept, or nothing."""
    beginnings: Beginnings | None = None
    """None where each line is a record."""


class Piece(NamedTuple):
    """A record as it lies in a file."""

    value: bytes
    """Without the last line end; of a record that was too long the beginning, or nothing."""
    position: int
    size: int
    """Bytes in the file, the last line end included."""
    is_whole: bool = True


class Splitter:
    """Cuts one file into records. Owned by whoever reads the file."""

    def __init__(self, framing: Framing, position: int = 0, tail: bytes = b"") -> None:
        self.position = position
        """Where what was not taken yet begins."""
        self.tail = tail
        """Up to TAIL_SIZE bytes before that; fewer where not all was kept."""
        self._framing = framing
        self._buffer = b""
        """What was not cut yet: lines, and the beginning of an unfinished one."""
        self._long: bytes | None = None
        """The beginning of an unfinished line that is too long; the buffer goes on with it."""
        self._long_size = 0
        self._lines: list[bytes] = []
        """The record that is being put together; empty where each line is one."""
        self._kept_size = 0
        self._size = 0
        self._is_ended = False
        """Whether the last of its lines has its line end."""

    @property
    def waits_for_lines(self) -> bool:
        """Whether whole lines wait for one that begins the next record."""
        return self._size > 0

    def push(self, chunk: bytes) -> None:
        """Go on with what was read next. Take all there is before the next push."""
        self._buffer += chunk

    def take(self, count: int) -> list[Piece]:
        """Return records that are whole by now, of at most so many lines; none if none is left."""
        pieces: list[Piece] = []
        while not pieces and (lines := self._cut(count)):
            pieces = self._framed(lines)
        self.tail = _tail_after(self.tail, pieces)
        return pieces

    def flush(self, *, partial: bool) -> list[Piece]:
        """Return what waits as if its end had come: whole lines, and with `partial` all there is.

        Take all there is before.
        """
        pieces = []
        if partial and (rest := self._rest()) is not None:
            pieces += self._framed([rest], is_ended=False)
        if self._size:
            pieces.append(self._assembled())
        self.tail = _tail_after(self.tail, pieces)
        return pieces

    # Lines: what is kept of each, and its size in the file

    def _cut(self, count: int) -> list[tuple[bytes, int]]:
        """Take up to so many whole lines out of the buffer, and bound what is left of it."""
        limit = self._framing.size_max
        parts = self._buffer.split(b"\n", count)
        self._buffer = parts.pop()
        lines = [(part[:limit], len(part) + 1) for part in parts]
        if self._long is not None and lines:
            lines[0] = (self._long, self._long_size + lines[0][1])
            self._long, self._long_size = None, 0
        if len(lines) < count:
            self._shorten()
        return lines

    def _shorten(self) -> None:
        """Forget of an unfinished line what no record could have."""
        limit = self._framing.size_max
        if self._long is None and len(self._buffer) <= limit:
            return
        if self._long is None:
            self._long = self._buffer[:limit]
        self._long_size += len(self._buffer)
        self._buffer = b""

    def _rest(self) -> tuple[bytes, int] | None:
        """Take the unfinished line."""
        size = self._long_size + len(self._buffer)
        if not size:
            return None
        kept = self._buffer if self._long is None else self._long
        self._buffer, self._long, self._long_size = b"", None, 0
        return kept, size

    # Records

    def _framed(self, lines: list[tuple[bytes, int]], *, is_ended: bool = True) -> list[Piece]:
        """Make records of lines; of several, the last stays open for more."""
        rule = self._framing.beginnings
        if rule is None:
            return [self._closed(line, size, is_ended=is_ended) for line, size in lines]
        pieces = []
        for line, size in lines:
            if self._size and rule.begins(line):
                pieces.append(self._assembled())
            if self._kept_size <= self._framing.size_max:
                self._lines.append(line)
                self._kept_size += len(line) + 1
            self._size += size
            self._is_ended = is_ended
        return pieces

    def _assembled(self) -> Piece:
        """Close the record that is being put together."""
        value, size = b"\n".join(self._lines)[: self._framing.size_max], self._size
        self._lines, self._kept_size, self._size = [], 0, 0
        return self._closed(value, size, is_ended=self._is_ended)

    def _closed(self, kept: bytes, size: int, *, is_ended: bool) -> Piece:
        position = self.position
        self.position = position + size
        if len(kept) == size - is_ended:
            return Piece(kept, position, size)
        return Piece(kept if self._framing.keeps_cut else b"", position, size, is_whole=False)


def _tail_after(tail: bytes, pieces: list[Piece]) -> bytes:
    """Return the bytes before the end of the last piece, as far as they are known."""
    parts: list[bytes] = []
    size = 0
    for piece in reversed(pieces):
        if not piece.is_whole:
            break
        raw = piece.value + b"\n"[: piece.size - len(piece.value)]
        parts.append(raw)
        size += len(raw)
        if size >= TAIL_SIZE:
            break
    else:
        parts.append(tail)
    return b"".join(reversed(parts))[-TAIL_SIZE:]
