"""The end of the segment being written: its indexes in memory, and when they get an entry.

Appending, rebuilding and recovering all go through `note`, so that an index is the same however
it came about: an entry is due when more than `index.interval.bytes` lie between the start of the
batch and the start of the last one that has an entry; it names the batch's last offset, and the
time index gets the largest timestamp so far beside it if that has grown.
"""

from __future__ import annotations

from typing import Final

from moldau.storage.indexes import OffsetIndex, TimeIndex

RECENT_BATCHES: Final = 64
"""Batch positions remembered at least: readers at the end of the log, and high watermarks a few
batches behind it, are found without a search."""

SMALL_BATCH_BYTES: Final = 2048
"""Up to here a batch is joined before it is written: that costs less than to write two pieces."""


class Tail:
    """What a segment being written keeps in memory."""

    __slots__ = (
        "_older",
        "_recent",
        "indexed_position",
        "largest_offset",
        "largest_timestamp",
        "offsets",
        "stored_offsets",
        "stored_times",
        "times",
    )

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self.offsets = offsets
        self.times = times
        self.stored_offsets = len(offsets)
        """How many entries the index files hold already."""
        self.stored_times = len(times)
        self._recent: dict[int, int] = {}
        """Base offset -> position of the batches noted last."""
        self._older: dict[int, int] = {}
        """Of those before, at least as many as `RECENT_BATCHES`, or none."""
        self.indexed_position = offsets.last_position
        self.largest_timestamp, self.largest_offset = times.last

    @classmethod
    def empty(cls, base_offset: int) -> Tail:
        """Begin a segment."""
        return cls(OffsetIndex(base_offset), TimeIndex(base_offset))

    def note(
        self,
        position: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        index_interval_bytes: int,
    ) -> None:
        """Account for a batch that starts at this position, behind all others."""
        self.note_largest(max_timestamp, last_offset)
        self._recent[base_offset] = position
        if len(self._recent) >= RECENT_BATCHES:
            self._older, self._recent = self._recent, {}
        if position - self.indexed_position > index_interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.append_if_larger(self.largest_timestamp, self.largest_offset)
            self.indexed_position = position

    def position_of(self, base_offset: int) -> int | None:
        """Say where the batch with this base offset starts, if it is one of the last."""
        position = self._recent.get(base_offset)
        return self._older.get(base_offset) if position is None else position

    def note_largest(self, max_timestamp: int, last_offset: int) -> None:
        """Account for the timestamp alone of a batch."""
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self.largest_offset = last_offset

    def truncate_to(self, end_offset: int) -> None:
        """Forget what lies at or above this offset; the largest timestamp is a floor from now."""
        self.offsets.truncate_to(end_offset)
        self.times.truncate_to(end_offset)
        self.stored_offsets = min(self.stored_offsets, len(self.offsets))
        self.stored_times = min(self.stored_times, len(self.times))
        self._recent.clear()
        self._older.clear()
        self.indexed_position = self.offsets.last_position
        self.largest_timestamp, self.largest_offset = self.times.last

    def close_times(self) -> None:
        """Give the time index its last entry: the largest timestamp of all."""
        self.times.append_if_larger(self.largest_timestamp, self.largest_offset)
