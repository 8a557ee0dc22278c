"""What all logs of one broker share: ports, bounded caches and delayed work.

The manager owns it, and only the event loop changes it. Logs queue work here that is due later:
files to delete after a delay, logs to sync. So an idle log needs no timer, and the broker never
scans all logs to find the few with work.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from moldau.base.clock import Clock, Random
from moldau.base.files import Files
from moldau.base.limits import ABORTED_CACHED_BYTES, INDEXES_CACHED_BYTES, OPEN_FILES_CACHED
from moldau.storage.flushing import Flushable
from moldau.storage.indexes import AbortedIndex, IndexCache, IndexPair
from moldau.storage.open_files import OpenFiles


class ScheduledDelete(NamedTuple):
    """A file or folder to delete at a time; until then a reader may still use it."""

    due_ms: int
    path: str
    is_folder: bool


class Resources:
    """The objects that all logs share."""

    __slots__ = (
        "aborted",
        "clock",
        "files",
        "indexes",
        "open_files",
        "random",
        "rolled",
        "scheduled_deletes",
        "timed",
    )

    def __init__(
        self,
        files: Files,
        clock: Clock,
        random: Random,
        *,
        open_files: int = OPEN_FILES_CACHED,
        index_bytes: int = INDEXES_CACHED_BYTES,
        aborted_bytes: int = ABORTED_CACHED_BYTES,
    ) -> None:
        self.files = files
        self.clock = clock
        self.random = random
        self.open_files = OpenFiles(open_files)
        self.indexes: IndexCache[IndexPair] = IndexCache(index_bytes)
        self.aborted: IndexCache[AbortedIndex] = IndexCache(aborted_bytes)
        self.scheduled_deletes: deque[ScheduledDelete] = deque()
        self.timed: dict[Flushable, None] = {}
        """Logs with `flush.ms` and appends since their last timed flush.

        Dicts instead of sets: their order makes simulations repeatable."""
        self.rolled: dict[Flushable, None] = {}
        """Logs with a closed segment that is not synced yet."""
