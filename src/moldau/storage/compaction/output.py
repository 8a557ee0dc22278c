"""The segment that a cleaning writes, beside those it is made from, under the suffix `.cleaned`.

Its indexes are noted with the same rule as those of a segment that is appended to. When it is
finished all its files are synced, so that the names alone decide what is in use. One that was never
finished is removed when the log is next opened, or by the next cleaning of the same segments.
"""

from __future__ import annotations

from typing import Final

from moldau.base.checks import crash_point
from moldau.base.files import Files
from moldau.records.batch import BatchHeader
from moldau.storage.indexes import AbortedIndex
from moldau.storage.recovery import CLEANED_SUFFIX
from moldau.storage.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    file_stem,
)
from moldau.storage.tail import Tail
from moldau.storage.transaction_index import TRANSACTION_INDEX_SUFFIX

WRITE_SIZE: Final = 1024 * 1024
"""Bytes gathered before a call to the disk; more gains nothing."""


class CleanedSegment:
    """A segment in the making."""

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
        """Bytes of all batches so far."""
        remove_unfinished(files, self._stem)
        crash_point("compaction.write.before_create")
        self._log = files.open(self._stem + LOG_SUFFIX + CLEANED_SUFFIX, create=True)

    def add(self, header: BatchHeader, content: bytes) -> None:
        """Add a batch behind the others."""
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
        """Hand over what was gathered; its buffers are free to go then."""
        if self._parts:
            crash_point("compaction.write.before_append")
            self._log.append(self._parts)
            self._parts.clear()
            self._waiting_size = 0

    def finish(self, aborted: AbortedIndex) -> None:
        """Write the indexes and wait until all of it is on the disk."""
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
    """Remove what a cleaning that did not end has left of a segment."""
    for suffix in SEGMENT_SUFFIXES:
        files.remove(stem + suffix + CLEANED_SUFFIX)
