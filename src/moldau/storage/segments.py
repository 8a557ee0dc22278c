"""The segments of one log, ordered by base offset, and which of them have aborted transactions.

The base offsets are a separate list so that `bisect` finds a segment in C. A second list has the
base offsets of the few segments with a `.txnindex`: every `read_committed` fetch asks for aborted
transactions, in logs of thousands of segments that mostly have none.

This module does not touch files.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from moldau.base.checks import invariant
from moldau.storage.segment import Segment


class Segments:
    """Segments by ascending base offset; the last is the active one."""

    __slots__ = ("_aborting", "all", "base_offsets")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self.all = list(segments)
        self.base_offsets = [segment.base_offset for segment in self.all]
        invariant(
            all(before < after for before, after in pairwise(self.base_offsets)),
            f"segments are not in order: {self.base_offsets}",
        )
        self._aborting = [one.base_offset for one in self.all if one.has_aborted]
        """Base offsets of segments with a `.txnindex`. A truncation may have emptied some."""

    def __len__(self) -> int:
        return len(self.all)

    def number_of(self, offset: int) -> int:
        """Find the segment that contains an offset, or the first if all start above it."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def end_of(self, number: int, log_end_offset: int) -> int:
        """Return where the next segment starts, or the log end for the last one."""
        following = number + 1
        return self.base_offsets[following] if following < len(self.all) else log_end_offset

    def add(self, segment: Segment) -> None:
        """Add a segment after all others."""
        invariant(
            not self.all or segment.base_offset > self.base_offsets[-1],
            f"{segment.stem}: a new segment starts above {self.base_offsets[-1:]}",
        )
        self.all.append(segment)
        self.base_offsets.append(segment.base_offset)
        self.note_aborted(segment)

    def take_newest(self) -> Segment:
        """Remove the last segment and return it."""
        return self._take(len(self.all) - 1)

    def take_oldest(self) -> Segment:
        """Remove the first segment and return it."""
        return self._take(0)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Replace adjacent closed segments by one that starts where the first of them did."""
        number = self.all.index(old[0])
        following = number + len(old)
        # The active segment is excluded: it may have grown since compaction read it.
        invariant(
            self.all[number:following] == list(old)
            and following < len(self.all)
            and new.base_offset == old[0].base_offset,
            f"{new.stem}: does not replace {[segment.base_offset for segment in old]}",
        )
        for _ in old:
            self._take(number)
        self.all.insert(number, new)
        self.base_offsets.insert(number, new.base_offset)
        self.note_aborted(new)

    def note_aborted(self, segment: Segment) -> None:
        """Register a segment if it has a `.txnindex` now."""
        if segment.has_aborted and not self._has_noted(segment.base_offset):
            insort(self._aborting, segment.base_offset)

    def has_aborted_from(self, base_offset: int) -> bool:
        """Return whether this segment or a later one may have aborted transactions."""
        return bool(self._aborting) and self._aborting[-1] >= base_offset

    def aborting_from(self, base_offset: int) -> Iterator[int]:
        """Yield the numbers of the segments with a `.txnindex`, from this base offset on."""
        first = bisect_left(self._aborting, base_offset)
        for number in range(first, len(self._aborting)):
            yield self.number_of(self._aborting[number])

    def _has_noted(self, base_offset: int) -> bool:
        number = bisect_left(self._aborting, base_offset)
        return number < len(self._aborting) and self._aborting[number] == base_offset

    def _take(self, number: int) -> Segment:
        base_offset = self.base_offsets.pop(number)
        if self._has_noted(base_offset):
            self._aborting.remove(base_offset)
        return self.all.pop(number)
