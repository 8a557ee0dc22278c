"""How far the work on a partition has come when its records are finished in any order.

Pure. A committed offset says that everything below it is done; so it may only move over records
that are finished without a gap, whatever was finished beyond it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from moldau.client.records import OffsetAndMetadata, Record


class Progress:
    """The records of one partition that were taken on, for as long as it is assigned."""

    __slots__ = ("_finished", "_open", "committed", "reached")

    def __init__(self) -> None:
        self._open: deque[tuple[int, int | None]] = deque()
        """Offset and leader epoch of what was taken on and lies at or behind the first gap."""
        self._finished: set[int] = set()
        """What was finished behind the first gap."""
        self.reached: OffsetAndMetadata | None = None
        """What may be committed: behind it nothing is finished without a gap."""
        self.committed: OffsetAndMetadata | None = None
        """What is known to have been committed."""

    def begin(self, record: Record[Any, Any]) -> None:
        """Take a record on; its offset is above all before."""
        self._open.append((record.offset, record.leader_epoch))

    def finish(self, offset: int) -> None:
        """Note that the work on a record is done."""
        self._finished.add(offset)
        last: tuple[int, int | None] | None = None
        while self._open and self._open[0][0] in self._finished:
            last = self._open.popleft()
            self._finished.remove(last[0])
        if last is not None:
            self.reached = OffsetAndMetadata(last[0] + 1, leader_epoch=last[1])

    @property
    def first_open(self) -> int | None:
        """The offset of the first record that is not finished, if there is one."""
        return self._open[0][0] if self._open else None
