"""The new segment of a cleaning, written beside the old ones with the suffix `.cleaned`.

Its indexes follow the same rule as those of the active segment (`tail`). `finish` syncs all files,
so that the swap only has to rename them. An unfinished segment is removed when the log is opened
again, or by the next cleaning of the same segments.
"""

from __future__ import annotations

from typing import Final

from moldau.base.checks import crash_point
from moldau.base.files import Files
from moldau.records.batch import BatchHeader
from moldau.storage.index_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from moldau.storage.indexes import AbortedIndex
from moldau.storage.recovery import CLEANED_SUFFIX
from moldau.storage.segment import LOG_SUFFIX, SEGMENT_SUFFIXES, file_stem
from moldau.storage.tail import Tail
from moldau.storage.transaction_index import TRANSACTION_INDEX_SUFFIX

WRITE_SIZE: Final = 1024 * 1024
"""Bytes to collect before a write; larger writes are not faster."""


class CleanedSegment:
    """A new segment that is being written."""

    def __init__(
        self, files: Files, folder: str, base_offset: int, index_interval_bytes: int
    ) -> None:
        self._files = files
        self._stem = f"{folder}/{file_stem(base_offset)}"
        self._index_interval_bytes = index_interval_bytes
        self._tail = Tail.empty(base_offset)
        self._parts: list[bytes] = []
        self._waiting_size = 0
        self.size = 0
        """Bytes of all batches so far, also of those not written yet."""
        remove_unfinished(files, self._stem)
        crash_point("compaction.write.before_create")
        self._log = files.open(self._stem + LOG_SUFFIX + CLEANED_SUFFIX, create=True)

    def add(self, header: BatchHeader, content: bytes) -> None:
        """Add a batch after the others."""
        self.add_span(header.base_offset, header.last_offset, header.max_timestamp, content)

    def add_span(
        self, base_offset: int, last_offset: int, max_timestamp: int, content: bytes
    ) -> None:
        """Add a batch, or a message of an old format."""
        self._tail.note(
            self.size, base_offset, last_offset, max_timestamp, self._index_interval_bytes
        )
        self._parts.append(content)
        self.size += len(content)
        self._waiting_size += len(content)
        if self._waiting_size >= WRITE_SIZE:
            self.write()

    def write(self) -> None:
        """Write the collected batches and release their buffers."""
        if self._parts:
            crash_point("compaction.write.before_append")
            self._log.append(self._parts)
            self._parts.clear()
            self._waiting_size = 0

    def finish(self, aborted: AbortedIndex) -> None:
        """Write the rest and the indexes, and sync all files.

        The sync must come before the swap: once the old segments are deleted, this is the only
        copy of their records.
        """
        self.write()
        crash_point("compaction.write.before_sync")
        self._log.sync()
        self._log.close()
        self._tail.close_times()
        crash_point("compaction.write.before_indexes")
        self._store(TIME_INDEX_SUFFIX, self._tail.times.encode())
        self._store(INDEX_SUFFIX, self._tail.offsets.encode())
        if aborted.size:
            self._store(TRANSACTION_INDEX_SUFFIX, aborted.encode())
        crash_point("compaction.write.after_indexes")

    def _store(self, suffix: str, content: bytes) -> None:
        file = self._files.open(self._stem + suffix + CLEANED_SUFFIX, create=True)
        try:
            file.append([content])
            file.sync()
        finally:
            file.close()


def remove_unfinished(files: Files, stem: str) -> None:
    """Remove the `.cleaned` files of an unfinished cleaning."""
    for suffix in SEGMENT_SUFFIXES:
        files.remove(stem + suffix + CLEANED_SUFFIX)
