"""How much of a log survives a power cut, and what the next flush must sync.

The recovery point moves only after a flush of everything below it has run. Only then are the files
of that flush taken off the list of unsynced files. So if a flush fails, or the log is truncated
meanwhile, the next flush syncs them again.

All methods run on the event loop; only `Flush.run` and the writes that `cut_to` and
`lower_log_start` return run on another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from moldau.base.checks import crash_point
from moldau.base.files import File, Files
from moldau.storage.disk_errors import disk_errors
from moldau.storage.epochs import LeaderEpochs, format_epochs
from moldau.storage.flushing import Flush


class LowerOffsets(Protocol):
    """Lowers offsets of a log in the checkpoints of its directory."""

    def __call__(
        self, folder: str, *, recovery_point: int | None = None, log_start: int | None = None
    ) -> Callable[[], None]:
        """Lower what is given; return the call that writes it. It blocks, on any thread."""
        ...


class Durability:
    """The recovery point of a log, and its unsynced files besides the `.log` files."""

    __slots__ = (
        "_folder",
        "_folder_is_new",
        "_lower_offsets",
        "_lowered_count",
        "_name_changes",
        "_synced_name_changes",
        "_unsynced_paths",
        "_written_count",
        "flushed_ms",
        "recovery_point",
        "truncation_count",
    )

    def __init__(
        self,
        folder: str,
        recovery_point: int,
        now_ms: int,
        lower_offsets: LowerOffsets,
        *,
        names_durable: bool,
        unsynced_paths: Iterable[str],
    ) -> None:
        self._folder = folder
        self._folder_is_new = not names_durable
        self._name_changes = 0 if names_durable else 1
        self._synced_name_changes = 0
        self._lower_offsets = lower_offsets
        self._lowered_count = 0
        """The truncation count when the recovery point was lowered last."""
        self._written_count = 0
        """The same of the last lowering that was written. Another thread sets it, and only it."""
        self._unsynced_paths = list(unsynced_paths)
        self.recovery_point = recovery_point
        self.flushed_ms = now_ms
        self.truncation_count = 0

    def names_changed(self, *written_paths: str) -> None:
        """Note that names in the folder changed, and that these files are not synced yet."""
        self._name_changes += 1
        self._unsynced_paths += written_paths

    def cut_to(self, offset: int) -> Callable[[], None] | None:
        """Lower the recovery point; return what must be run before bytes below it change, if any.

        With the old checkpoint, recovery would trust batches that replaced the truncated ones.
        """
        # A flush that is running now may sync files that the truncation changes under it.
        self.truncation_count += 1
        self._name_changes += 1
        # A lowering that was not written yet, or failed on a full disk, is written again.
        if offset >= self.recovery_point and self._written_count >= self._lowered_count:
            return None
        self.recovery_point = min(self.recovery_point, offset)
        self._lowered_count = self.truncation_count
        crash_point("log.truncate.before_checkpoint")
        write = self._lower_offsets(self._folder, recovery_point=self.recovery_point)
        return partial(self._write_lowered, write, self._lowered_count)

    def _write_lowered(self, write: Callable[[], None], count: int) -> None:
        write()
        self._written_count = count

    def lower_log_start(self, offset: int) -> Callable[[], None]:
        """Return what must be run before anything is appended below the old log start.

        With the old checkpoint, recovery would remove those batches, flushed or not.
        """
        crash_point("log.truncate.before_log_start")
        return self._lower_offsets(self._folder, log_start=offset)

    def flush(
        self, files: Files, logs: tuple[File, ...], end_offset: int, epochs: LeaderEpochs
    ) -> Flush:
        """Return the sync that makes everything below this offset durable."""
        changed = self._name_changes != self._synced_name_changes
        folder = None
        if changed or epochs.dirty:
            # Open now, on the loop: if the log is deleted, its path may soon be another log's.
            with disk_errors(self._folder):
                folder = files.open_folder(self._folder)
        return Flush(
            files=files,
            path=self._folder,
            end_offset=end_offset,
            truncation_count=self.truncation_count,
            name_changes=self._name_changes,
            logs=logs,
            paths=tuple(self._unsynced_paths),
            folder=folder,
            epochs=format_epochs(epochs) if epochs.dirty else None,
            parent=self._folder.rpartition("/")[0] if self._folder_is_new else None,
        )

    def flushed(self, flush: Flush, epochs: LeaderEpochs, now_ms: int) -> None:
        """Move the recovery point after a flush has run.

        A flush from before a truncation is ignored: the bytes that it synced may be gone.
        """
        if flush.truncation_count != self.truncation_count:
            return
        self.recovery_point = max(self.recovery_point, flush.end_offset)
        self.flushed_ms = now_ms
        self._folder_is_new = False
        self._synced_name_changes = flush.name_changes
        synced = set(flush.paths)
        self._unsynced_paths = [path for path in self._unsynced_paths if path not in synced]
        # An append during the flush may have started another epoch, which is not in the file.
        if flush.epochs is not None and flush.epochs == format_epochs(epochs):
            epochs.dirty = False
