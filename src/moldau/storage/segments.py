"""The segments of one log, in order: which holds an offset, and which have aborted transactions.

Base offsets are kept beside the segments, so that the one which holds an offset is found in C. So
are those of the few segments with a `.txnindex`: every `read_committed` fetch asks for what was
aborted from its segment on, in logs of thousands of segments and mostly to learn that nothing was.

What is in a segment, and what happens to its files, is up to the caller.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from moldau.storage.segment import Segment


class Segments:
    """Segments by ascending base offset; the last is being written."""

    __slots__ = ("_aborting", "all", "base_offsets")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self.all = list(segments)
        self.base_offsets = [segment.base_offset for segment in self.all]
        self._aborting = [one.base_offset for one in self.all if one.has_aborted]
        """Base offsets of those with aborted transactions, and of some that had them once."""

    def __len__(self) -> int:
        return len(self.all)

    def number_of(self, offset: int) -> int:
        """Find the segment that holds an offset, or the first if all begin behind it."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    def end_of(self, number: int, log_end_offset: int) -> int:
        """Say where the next segment begins, or the log ends."""
        following = number + 1
        return self.base_offsets[following] if following < len(self.all) else log_end_offset

    def add(self, segment: Segment) -> None:
        """Put a segment behind all others."""
        self.all.append(segment)
        self.base_offsets.append(segment.base_offset)
        self.note_aborted(segment)

    def take_newest(self) -> Segment:
        """Take the last segment off."""
        return self._take(len(self.all) - 1)

    def take_oldest(self) -> Segment:
        """Take the first segment off."""
        return self._take(0)

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Let one segment stand for neighbours."""
        number = self.all.index(old[0])
        for _ in old:
            self._take(number)
        self.all.insert(number, new)
        self.base_offsets.insert(number, new.base_offset)
        self.note_aborted(new)

    def note_aborted(self, segment: Segment) -> None:
        """Take note of whether a segment of these has aborted transactions now."""
        if segment.has_aborted and not self._is_noted(segment.base_offset):
            insort(self._aborting, segment.base_offset)

    def has_aborted_from(self, base_offset: int) -> bool:
        """Tell whether the segment with this base offset, or one behind it, may have any."""
        return bool(self._aborting) and self._aborting[-1] >= base_offset

    def aborting_from(self, base_offset: int) -> Iterator[int]:
        """Number the segments with aborted transactions, from this base offset on."""
        first = bisect_left(self._aborting, base_offset)
        for number in range(first, len(self._aborting)):
            yield self.number_of(self._aborting[number])

    def _is_noted(self, base_offset: int) -> bool:
        number = bisect_left(self._aborting, base_offset)
        return number < len(self._aborting) and self._aborting[number] == base_offset

    def _take(self, number: int) -> Segment:
        base_offset = self.base_offsets.pop(number)
        if self._is_noted(base_offset):
            self._aborting.remove(base_offset)
        return self.all.pop(number)
