"""Syncing a log to disk without blocking the event loop.

A flush has three steps. The loop lists what to sync (`Log.prepare_flush`), a thread syncs it
(`Flush.run`), and the loop moves the recovery point (`Log.flushed`). So only the loop touches the
state of a log, and appends continue during the sync. `Flusher` does all three. Callers that arrive
during a sync wait for it and share the next one (group commit). A flush waits until a truncation of
its log has cut the files.

Below the recovery point everything is durable: batches, the indexes and snapshots of closed
segments, leader epochs, and file names. Recovery trusts everything below it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

from moldau.base.checks import crash_point
from moldau.base.errors import StorageError
from moldau.base.executor import Executor
from moldau.base.files import File, Files, Folder, replace_in
from moldau.base.shielding import shielded
from moldau.storage.disk_errors import disk_errors, disk_failures
from moldau.storage.epochs import LEADER_EPOCHS
from moldau.storage.topic_config import LogConfig


@dataclass(frozen=True, slots=True)
class Flush:
    """One sync of a log; `run` is safe on any thread."""

    files: Files
    path: str
    """The folder of the log, for error messages."""
    end_offset: int
    """Everything below is durable once this has run."""
    truncation_count: int
    """Truncations of the log so far. If another one happens, the result of this sync is void."""
    name_changes: int
    """Name changes in the folder so far."""
    logs: tuple[File, ...]
    """Open `.log` files, oldest first."""
    paths: tuple[str, ...]
    """Unsynced indexes, snapshots and topic id files. One that was removed is skipped."""
    folder: Folder | None
    """The folder, if a name in it has changed or the epochs must be written; else None.

    It is open, because the log may be deleted during the sync and its path used again."""
    epochs: bytes | None
    """The new content of the leader epoch checkpoint; None if the file is up to date."""
    parent: str | None
    """The parent folder, if the folder's own name is not durable yet."""

    def run(self) -> None:
        """Sync everything; a StorageError must take the log directory offline.

        A failed fsync is never retried: the kernel may have dropped the dirty pages, and a second
        fsync would succeed. Only the write of the epochs may raise DiskFull; the next flush then
        repeats everything.
        """
        try:
            with disk_failures(self.path):
                self._sync()
        finally:
            if self.folder is not None:
                self.folder.close()

    def _sync(self) -> None:
        # Contents before names: a name must not become durable before the content of its file.
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
        # Epochs last: they alone need space, and on a full disk the batches are synced anyway.
        # They must be durable before `flushed` moves the recovery point.
        if self.folder is not None and self.epochs is not None:
            # The folder was removed: the log was deleted during the sync.
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
    """A log as the flusher sees it."""

    @property
    def config(self) -> LogConfig:
        """`flush.ms` limits how long a sync may wait."""
        ...

    @property
    def flushed_ms(self) -> int:
        """When the last sync ended."""
        ...

    @property
    def recovery_point(self) -> int:
        """Everything below survives a power cut."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset up to which a sync would make the log durable now."""
        ...

    @property
    def offline(self) -> bool:
        """Whether the log has failed or is closed."""
        ...

    def prepare_flush(self) -> Flush | None:
        """Return the sync up to the log end; None if all is durable."""
        ...

    def flushed(self, flush: Flush) -> None:
        """Move the recovery point after a sync has run."""
        ...


Failed = Callable[[StorageError], None]
"""Told of a disk that fails."""


class Flusher:
    """Syncs and cuts logs through the executor, one sync per log at a time."""

    __slots__ = ("_executor", "_running", "_truncating")

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._running: dict[Flushable, asyncio.Task[None]] = {}
        self._truncating: dict[Flushable, asyncio.Task[bool]] = {}

    async def flush(self, log: Flushable, offset: int) -> None:
        """Return once everything below this offset is durable; StorageError if the sync failed.

        Returns also if the log was truncated below the offset: nothing is left to sync.
        """
        while log.recovery_point < offset:
            truncating = self._truncating.get(log)
            if truncating is not None:
                await asyncio.wait([truncating])
                continue
            running = self._running.get(log)
            if running is None:
                flush = log.prepare_flush()
                if flush is None:
                    return
                running = asyncio.get_running_loop().create_task(self._run(log, flush))
                self._running[log] = running
            # Others wait for the same task: a cancelled caller must not cancel it.
            await shielded(running)

    async def run(self, blocking: Callable[[], None]) -> None:
        """Run what would block the loop."""
        await self._executor.run(blocking)

    async def truncate(
        self, log: Flushable, steps: Iterator[Callable[[], None]], failed: Failed
    ) -> bool:
        """Run the steps of a truncation that has begun; return whether all of them have run.

        If one fails, `failed` is told: the log takes no appends any more. The steps go on if the
        caller is cancelled, and a failure is told all the same.
        """
        running = asyncio.get_running_loop().create_task(self._run_steps(log, steps, failed))
        self._truncating[log] = running
        return await shielded(running)

    async def settle(self) -> None:
        """Wait until all that runs has ended or failed; for a clean shutdown."""
        running = (*self._truncating.values(), *self._running.values())
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, log: Flushable, flush: Flush) -> None:
        try:
            await self._executor.run(flush.run)
            log.flushed(flush)
        finally:
            del self._running[log]

    async def _run_steps(
        self, log: Flushable, steps: Iterator[Callable[[], None]], failed: Failed
    ) -> bool:
        try:
            for step in steps:
                await self._executor.run(step)
        except StorageError as error:
            failed(error)
            return False
        finally:
            del self._truncating[log]
        return True
