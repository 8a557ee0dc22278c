"""One file of the metadata journal, and where each of its batches begins.

The journal is fed to other nodes in whole batches, from any offset they name, so each batch's
position is kept: 16 bytes a batch, until retention removes the segment. Kafka's sparse index would
need the headers between two entries to be read again for every fetch.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

from moldau.base.files import File, FileRegion
from moldau.cluster.batch_files import DamagedBatch, walk_offsets


class JournalSegment:
    """A segment. Its batches follow each other without a gap, in offset and in position."""

    __slots__ = ("_offsets", "_positions", "base", "file", "next_offset", "size")

    def __init__(self, base: int, file: File | None = None) -> None:
        self.base = base
        self.file = file
        """Open while the segment is the newest one, which is written to."""
        self.size = 0
        """Bytes of whole batches; the file may be longer while it is repaired."""
        self.next_offset = base
        self._offsets = array("q")
        self._positions = array("q")

    def add(self, size: int, next_offset: int) -> None:
        """Note a batch that stands at the end of the file."""
        self._offsets.append(self.next_offset)
        self._positions.append(self.size)
        self.size += size
        self.next_offset = next_offset

    def region(self, file: File, offset: int, end_offset: int, max_bytes: int) -> FileRegion:
        """Name the whole batches from an offset on, up to another; at least one of them.

        The first one is that which holds the offset. None of them ends behind `end_offset`.
        """
        first = bisect_right(self._offsets, offset) - 1
        start = self._positions[first]
        limit = start + max(max_bytes, 0)
        # Batches up to this number end within the limit: the next one begins there.
        fitting = bisect_right(self._positions, limit) - (self.size > limit)
        committed = bisect_left(self._offsets, end_offset)
        behind = min(max(fitting, first + 1), committed)
        stop = self._positions[behind] if behind < len(self._positions) else self.size
        return FileRegion(file, start, stop - start)

    def cut(self, offset: int) -> None:
        """Forget the batch that holds this offset and all behind it; the file stays as it is."""
        if offset < self.next_offset and self._offsets:
            kept = max(bisect_right(self._offsets, offset) - 1, 0)
            self.next_offset, self.size = self._offsets[kept], self._positions[kept]
            del self._offsets[kept:], self._positions[kept:]


def read_older_segment(base: int, file: File) -> JournalSegment:
    """Find the batches of a segment that a snapshot has; it ends before the first wrong one.

    Only their headers are read: nobody needs the records here, and up to 100 MB of them are kept
    by default. A node that fetches them checks them.
    """
    segment = JournalSegment(base)
    try:
        for batch in walk_offsets(file):
            if batch.base_offset != segment.next_offset:
                break
            segment.add(batch.size, batch.next_offset)
    except DamagedBatch:
        pass
    return segment
