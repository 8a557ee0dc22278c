"""What all logs of one broker share: the ports, the bounded caches, the work left for later.

Owned by the manager and only changed on the event loop's thread. Logs put work here that is not
theirs to time: files to be removed after a delay, logs whose closed segments want a sync. So an
idle log costs no timer, and nobody has to go through all logs to find the few with something to
do.
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
    """A file or folder that goes for good at a time; until then a reader may still be in it."""

    due_ms: int
    path: str
    is_folder: bool


class Resources:
    """The shared part of every log."""

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
        """Logs with `flush.ms` that were appended to since it was last looked at."""
        self.rolled: dict[Flushable, None] = {}
        """Logs with a closed segment that was not synced yet; ordered, so that runs repeat."""
