"""The indexes of the active segment in memory, and the rule for adding entries.

Appends, rebuilds, recovery and compaction all use `note`, so every way gives the same index. A
batch gets an entry if it starts more than `index.interval.bytes` after the last batch with an
entry. The entry has the batch's last offset. The time index gets the largest timestamp so far, if
that has grown.
"""

from __future__ import annotations

from typing import Final

from moldau.storage.indexes import OffsetIndex, TimeIndex

RECENT_BATCHES: Final = 64
"""At least so many batch positions are remembered: reads at the log end, and at a high watermark a
few batches below it, need no search."""

SMALL_BATCH_BYTES: Final = 2048
"""Up to this size a batch is copied into one buffer: cheaper than a write of two parts."""


class Tail:
    """What the active segment keeps in memory."""

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
        """How many entries are in the `.index` file already."""
        self.stored_times = len(times)
        self._recent: dict[int, int] = {}
        """Base offset -> position of the latest batches, fewer than `RECENT_BATCHES`."""
        self._older: dict[int, int] = {}
        """The `RECENT_BATCHES` before those, or none."""
        self.indexed_position = offsets.last_position
        self.largest_timestamp, self.largest_offset = times.last

    @classmethod
    def empty(cls, base_offset: int) -> Tail:
        """Return the tail of a segment without batches."""
        return cls(OffsetIndex(base_offset), TimeIndex(base_offset))

    def note(
        self,
        position: int,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        index_interval_bytes: int,
    ) -> None:
        """Add a batch that starts at this position, after all others."""
        self.note_largest(max_timestamp, last_offset)
        self._recent[base_offset] = position
        if len(self._recent) >= RECENT_BATCHES:
            self._older, self._recent = self._recent, {}
        if position - self.indexed_position > index_interval_bytes:
            self.offsets.append(last_offset, position)
            self.times.append_if_larger(self.largest_timestamp, self.largest_offset)
            self.indexed_position = position

    def position_of(self, base_offset: int) -> int | None:
        """Return the position of the batch with this base offset, if it is a recent one."""
        position = self._recent.get(base_offset)
        return self._older.get(base_offset) if position is None else position

    def note_largest(self, max_timestamp: int, last_offset: int) -> None:
        """Add only the timestamp of a batch."""
        if max_timestamp > self.largest_timestamp:
            self.largest_timestamp = max_timestamp
            self.largest_offset = last_offset

    def truncate_to(self, end_offset: int) -> None:
        """Remove the entries at or above this offset.

        The largest timestamp falls back to the last entry's: the caller must call `note_largest`
        for the batches after that entry.
        """
        self.offsets.truncate_to(end_offset)
        self.times.truncate_to(end_offset)
        self.stored_offsets = min(self.stored_offsets, len(self.offsets))
        self.stored_times = min(self.stored_times, len(self.times))
        self._recent.clear()
        self._older.clear()
        self.indexed_position = self.offsets.last_position
        self.largest_timestamp, self.largest_offset = self.times.last

    def close_times(self) -> None:
        """Add the last entry of the time index: the largest timestamp of the segment."""
        self.times.append_if_larger(self.largest_timestamp, self.largest_offset)
