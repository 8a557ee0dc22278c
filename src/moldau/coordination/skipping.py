"""Records of an internal topic that a load could not read, and what is logged about them.

A partition may hold records of a newer release, records that clients wrote through an earlier
broker, or batches that the disk has damaged. None of them may stop the load of the partition's
groups. The first few are logged; all are counted, for a summary and for the metrics.
"""

from __future__ import annotations

import logging
from typing import Final

logger = logging.getLogger(__name__)

LINES_PER_LOAD: Final = 10
"""Log lines for one load. A topic of a newer release may be full of unknown records."""


class Skipped:
    """The records that one load has skipped."""

    __slots__ = ("_lines", "_name", "count")

    def __init__(self, name: str) -> None:
        """`name` is the name of the partition."""
        self._name = name
        self._lines = 0
        self.count = 0
        """Records. A range whose records cannot be counted counts as one."""

    def record(self, offset: int, why: str) -> None:
        """Count one record."""
        self._note(1, f"the record at offset {offset} is skipped: {why}")

    def batch(self, offset: int, count: int, why: str) -> None:
        """Count this many records of one batch, starting at an offset."""
        self._note(
            max(count, 1), f"{max(count, 1)} record(s) from offset {offset} on are skipped: {why}"
        )

    def stretch(self, offset: int, next_offset: int, why: str) -> None:
        """Count everything between two offsets as one."""
        text = f"everything from offset {offset} up to {next_offset - 1} is skipped: {why}"
        self._note(1, text)

    def _note(self, count: int, text: str) -> None:
        self.count += count
        self._lines += 1
        if self._lines <= LINES_PER_LOAD:
            logger.warning("%s: %s", self._name, text)

    def summarize(self) -> None:
        """Log the total, if not every skipped record has its own line."""
        if self._lines > LINES_PER_LOAD:
            logger.warning("%s: %d records were skipped in all", self._name, self.count)
