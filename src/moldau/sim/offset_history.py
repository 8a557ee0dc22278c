"""What was committed as one partition's offset of one group, and what was read back (P6).

Several clients may commit at once, and an answer may be lost, so what must be read is not one
number. Every commit has an interval in which it took effect: from when it was sent to when it was
known to have happened, by its answer or because somebody read it. What is read must not have been
replaced by a commit that came wholly after it and was over before the question. That is what a
register promises, and no more; the order of commits whose intervals overlap is the broker's.

Offsets count up and none is used twice, so that a number read back tells whose it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from moldau.sim.history import Violation

NO_OFFSET = -1


@dataclass
class Commit:
    """One offset on its way."""

    offset: int
    sent: int
    over: float = math.inf
    """From here on it has happened, or will never."""
    refused: bool = False


class OffsetHistory:
    """All commits and reads of one offset."""

    def __init__(self, name: str, tick: Callable[[], int]) -> None:
        self.name = name
        self._tick = tick
        self._commits: list[Commit] = []

    def begin(self) -> Commit:
        """Choose the offset of the next commit, which is about to be sent."""
        commit = Commit(len(self._commits), self._tick())
        self._commits.append(commit)
        return commit

    def acknowledged(self, commit: Commit) -> None:
        """Learn that a commit was taken."""
        commit.over = min(commit.over, self._tick())

    def refused(self, commit: Commit) -> None:
        """Learn that a commit was refused for good: nobody may ever read it."""
        commit.refused = True

    def ask(self) -> int:
        """Note when a question is put; for `read`."""
        return self._tick()

    def read(self, asked: int, offset: int) -> None:
        """Take the answer to a question."""
        done = [commit for commit in self._commits if commit.over < asked]
        if offset == NO_OFFSET:
            if done:
                raise Violation(f"P6: {self.name} has no offset, {done[-1].offset} was committed")
            return
        if not 0 <= offset < len(self._commits):
            raise Violation(f"P6: {self.name} is at {offset}, which nobody committed")
        found = self._commits[offset]
        if found.refused:
            raise Violation(f"P6: {self.name} is at {offset}, whose commit was refused")
        newer = [commit for commit in done if commit.sent > found.over]
        if newer:
            raise Violation(f"P6: {self.name} is at {offset}, {newer[-1].offset} was committed")
        found.over = min(found.over, self._tick())
