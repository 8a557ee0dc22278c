"""Closed segments of a log while another process reads them.

Their bytes do not change as long as they are part of the log. But a segment may be deleted, give
its place to a cleaned one, or be cut by a truncation, after which it may be written to and closed
again. What was read of it then says nothing: neither a result nor an error.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.storage.log import Log
    from moldau.storage.segment import Segment

_base_offset = attrgetter("base_offset")


class ClosedSegments:
    """Adjacent segments that are closed when somebody begins to read them."""

    __slots__ = ("_log", "_truncation_count", "segments")

    def __init__(self, log: Log, segments: Sequence[Segment]) -> None:
        self._log = log
        self._truncation_count = log.truncation_count
        self.segments = tuple(segments)

    def are_unchanged(self) -> bool:
        """Tell whether what was read of them counts; ask after every `await`."""
        log, closed = self._log, self._log.segments[:-1]
        if log.offline or log.truncation_count != self._truncation_count or not self.segments:
            return False
        first = bisect_left(closed, self.segments[0].base_offset, key=_base_offset)
        return tuple(closed[first : first + len(self.segments)]) == self.segments
