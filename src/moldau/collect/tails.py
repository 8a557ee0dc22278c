"""One file that is being read: where in it, and whether it is still what it was.

A tail holds its file open, so that it stays the same one whatever happens to its path, and can be
read to its end after it was renamed or deleted. Each read begins a little before the position, with
bytes that are known: a file that was emptied and written anew in between is found out even if it is
as long as before. Decides nothing about other files; that is `gathering`'s.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from moldau.collect.framing import TAIL_SIZE, Framing, Splitter
from moldau.collect.marks import HEAD_SIZE, Mark
from moldau.collect.progress import Progress
from moldau.collect.sources import Seen, SourceFile

CHUNK_SIZE: Final = 256 * 1024
"""Bytes per read: two system calls for some thousand lines, and little enough to take turns."""

POLL_MIN_S: Final = 0.1
"""How soon a file that grows is looked at again."""
POLL_PART: Final = 10
"""A file that has been quiet is looked at again after this part of that time."""


class Reading(Enum):
    """What came of reading."""

    SOMETHING = "something"
    NOTHING = "nothing"
    OTHER_FILE = "other file"
    """What was read before is not there any more: the file was truncated."""


class Tail:
    """Everything known about one file. Owned by the collector's loop."""

    def __init__(
        self, name: str, file: SourceFile, mark: Mark, framing: Framing, now: float
    ) -> None:
        self.name = name
        """The path its records go under: the first one it was known by."""
        self.place: str | None = None
        """The path it stands at now; None if it was renamed away or deleted."""
        self.file = file
        self.seen: Seen = file.look()
        self.identity = self.seen.identity
        self.changed_at = now
        self.due = now
        self.ticket = -1
        """By which its newest place in the queue is known: older ones do not count."""
        self.after: Tail | None = None
        """What is to be read to its end before this one."""
        self.is_drained = False
        """Whether it was at its end when it was last looked at, and no whole line of it waits."""
        self.is_over = False
        """Whether nothing more will be read of it."""
        self.is_replaced = False
        """Whether what has to be sent again is not in it any more."""
        self._framing = framing
        self.progress = Progress(mark)
        self._set_to(mark.position)

    def _set_to(self, position: int) -> None:
        size = min(position, TAIL_SIZE)
        self._recent = self.file.read(position - size, size)
        self._head = self.file.read(0, min(position, HEAD_SIZE))
        self.read_position = position
        self.splitter = Splitter(self._framing, position, self._recent)

    # Reading

    def read(self, seen: Seen, now: float) -> Reading:
        """Read on, if there is reason to think that there is something to read."""
        if self.is_replaced or seen.size < self.read_position:
            return Reading.OTHER_FILE
        if seen == self.seen and seen.size == self.read_position:
            return Reading.NOTHING
        known = len(self._recent)
        data = self.file.read(self.read_position - known, known + CHUNK_SIZE)
        if data[:known] != self._recent:
            return Reading.OTHER_FILE
        self.seen = seen
        chunk = data[known:]
        if not chunk:
            return Reading.NOTHING
        if len(self._head) < HEAD_SIZE:
            self._head = (self._head + chunk)[:HEAD_SIZE]
        self._recent = data[-TAIL_SIZE:]
        self.read_position += len(chunk)
        self.splitter.push(chunk)
        self.changed_at = now
        self.is_drained = False
        return Reading.SOMETHING

    def mark(self) -> Mark:
        """Return the mark of what has been taken from the splitter."""
        return Mark.at(self.splitter.position, self._head, self.splitter.tail)

    def read_mark(self) -> Mark:
        """Return the mark of everything that was read, whether it makes records yet or not."""
        return Mark.at(self.read_position, self._head, self._recent)

    def read_again(self) -> None:
        """Go back to what was delivered, and read everything after it again, if it is there."""
        position = self.progress.begin_again().position
        self.is_over = self.is_drained = False
        if self.read_mark().fits(self.file.look().size, self.file.read):
            self._set_to(position)
        else:
            self.is_replaced = True
            self.splitter = Splitter(self._framing, position)

    # Waiting

    def quiet_s(self, now: float) -> float:
        """Return for how long nothing has come."""
        return now - self.changed_at

    def rest(self, now: float, poll_max_s: float) -> None:
        """Be looked at again after a while: the longer, the longer nothing has come."""
        self.due = now + min(max(POLL_MIN_S, self.quiet_s(now) / POLL_PART), poll_max_s)
