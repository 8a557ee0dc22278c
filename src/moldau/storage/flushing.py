"""Making a log durable without holding up the event loop.

The loop says what must be synced (`Log.prepare_flush`), a thread syncs it (`Flush.run`), the loop
takes note (`Log.flushed`): so no state is touched outside the loop, and appends go on meanwhile.
`Flusher` does all three. Those who come while a sync is under way wait for it and share the next
one: that is group commit, one fsync for all produce requests that arrived during the last.

The recovery point moves only past what is durable in full: batches, indexes and snapshots of
closed segments, the epochs of the leaders that wrote them, and the names of the files.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from moldau.base.checks import crash_point
from moldau.base.executor import Executor
from moldau.base.files import File, Files, Folder, replace_in
from moldau.storage.disk_errors import disk_errors, disk_failures
from moldau.storage.epochs import LEADER_EPOCHS
from moldau.storage.topic_config import LogConfig


@dataclass(frozen=True, slots=True)
class Flush:
    """What one sync of a log comprises; safe to run on any thread."""

    files: Files
    path: str
    """The log's folder, for what is said of an error."""
    end_offset: int
    """Everything below is durable once this has run."""
    truncation_count: int
    """How often the log had been truncated; after another time this proves nothing."""
    name_changes: int
    """How often names in the folder had changed."""
    logs: tuple[File, ...]
    """Open `.log` files, oldest first."""
    paths: tuple[str, ...]
    """Indexes, snapshots and the topic id, as far as they are new; gone by now is not needed."""
    folder: Folder | None
    """Where names have changed or are about to; None if there is nothing to do in it.

    Open, because the log may be deleted while this runs: its path is another log's then."""
    epochs: bytes | None
    """The new content of the leader epoch checkpoint, None if it is up to date."""
    parent: str | None
    """Where the folder's own name is not durable yet."""

    def run(self) -> None:
        """Sync it all; StorageError takes the log directory offline.

        Only the new epochs are written here, and may find the disk full: then all is tried again
        with the next flush. A sync that failed is never tried again, whatever it failed of: the
        kernel may have dropped what it could not write.
        """
        try:
            with disk_failures(self.path):
                self._sync()
        finally:
            if self.folder is not None:
                self.folder.close()

    def _sync(self) -> None:
        for file in self.logs:
            crash_point("flush.before_sync")
            file.sync()
        crash_point("flush.before_indexes")
        for path in self.paths:
            self._sync_path(path)
        crash_point("flush.before_folder")
        if self.folder is not None:
            self.folder.sync()
        if self.parent is not None:
            self.files.sync_folder(self.parent)
        crash_point("flush.before_epochs")
        # Last, because they alone need room: without any, the batches are on the disk.
        if self.folder is not None and self.epochs is not None:
            # In a folder that was removed meanwhile nobody will look for them.
            with disk_errors(self.path), contextlib.suppress(FileNotFoundError):
                replace_in(self.folder, LEADER_EPOCHS, self.epochs)
        crash_point("flush.after_epochs")

    def _sync_path(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            file = self.files.open(path)
            try:
                file.sync()
            finally:
                file.close()


class Flushable(Hashable, Protocol):
    """A log, as far as flushing is concerned."""

    @property
    def config(self) -> LogConfig:
        """Says by `flush.ms` how long a sync may wait."""
        ...

    @property
    def flushed_ms(self) -> int:
        """When the last sync was."""
        ...

    @property
    def recovery_point(self) -> int:
        """Everything below survives a power cut."""
        ...

    @property
    def log_end_offset(self) -> int:
        """What a sync now would make durable."""
        ...

    @property
    def offline(self) -> bool:
        """Whether it is out of use."""
        ...

    def prepare_flush(self) -> Flush | None:
        """Say what a sync up to the end comprises now; None if all is durable."""
        ...

    def flushed(self, flush: Flush) -> None:
        """Take note that a sync has run."""
        ...


class Flusher:
    """Syncs logs through the executor, one sync a log at a time."""

    __slots__ = ("_executor", "_running")

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._running: dict[Flushable, asyncio.Task[None]] = {}

    async def flush(self, log: Flushable, offset: int) -> None:
        """Return once everything below this offset is durable; StorageError if that failed.

        A log truncated below the offset meanwhile counts as durable: there is nothing left.
        """
        while log.recovery_point < offset:
            running = self._running.get(log)
            if running is None:
                flush = log.prepare_flush()
                if flush is None:
                    return
                running = asyncio.get_running_loop().create_task(self._run(log, flush))
                self._running[log] = running
            await asyncio.shield(running)

    async def settle(self) -> None:
        """Wait for the syncs under way, whatever becomes of them; for an orderly stop."""
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, log: Flushable, flush: Flush) -> None:
        try:
            await self._executor.run(flush.run)
            log.flushed(flush)
        finally:
            del self._running[log]
