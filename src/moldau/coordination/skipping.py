"""Records of an internal topic that a load could not read, and what the operator hears of them.

Anything may lie in a partition: records of a newer release, bytes that an earlier broker let
clients write, a batch that the disk has damaged. None of it may keep the groups of the partition
from their coordinator. Each of the first few is named in the log; all are counted, for a summary
and for the metrics.
"""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

LINES_PER_LOAD: Final = 10
"""Lines for one load; a topic of a newer release may be full of records that nobody knows."""


class Skipped:
    """What one load has skipped."""

    __slots__ = ("_lines", "_name", "count")

    def __init__(self, name: str) -> None:
        """`name` is that of the partition."""
        self._name = name
        self._lines = 0
        self.count = 0
        """Records. A stretch whose records cannot be counted is one."""

    def record(self, offset: int, why: str) -> None:
        """Note a single record."""
        self._note(1, f"the record at offset {offset} is skipped: {why}")

    def batch(self, offset: int, count: int, why: str) -> None:
        """Note so many records of one batch, from an offset on."""
        self._note(
            max(count, 1), f"{max(count, 1)} record(s) from offset {offset} on are skipped: {why}"
        )

    def stretch(self, offset: int, next_offset: int, why: str) -> None:
        """Note all that lies between two offsets."""
        text = f"everything from offset {offset} up to {next_offset - 1} is skipped: {why}"
        self._note(1, text)

    def _note(self, count: int, text: str) -> None:
        self.count += count
        self._lines += 1
        if self._lines <= LINES_PER_LOAD:
            logger.warning("%s: %s", self._name, text)

    def summarize(self) -> None:
        """Say how many they were, if there are more than have a line each."""
        if self._lines > LINES_PER_LOAD:
            logger.warning("%s: %d records were skipped in all", self._name, self.count)
