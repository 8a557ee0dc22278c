"""What of one log would survive a power cut, and what the next flush must sync.

The recovery point moves only when a flush has run that covered everything below it. What a flush
took is forgotten only then as well, so that one which never came back, or came back after a
truncation, leaves nothing unsynced behind.
"""

from __future__ import annotations

from collections.abc import Iterable

from moldau.base.files import File, Files
from moldau.storage.disk_errors import disk_errors
from moldau.storage.epochs import LeaderEpochs, format_epochs
from moldau.storage.flushing import Flush


class Durability:
    """The unsynced part of a log, besides its batches."""

    __slots__ = (
        "_folder",
        "_folder_is_new",
        "_name_changes",
        "_synced_name_changes",
        "_truncation_count",
        "_unsynced_paths",
        "flushed_ms",
        "recovery_point",
    )

    def __init__(
        self,
        folder: str,
        recovery_point: int,
        now_ms: int,
        *,
        names_durable: bool,
        unsynced_paths: Iterable[str],
    ) -> None:
        self._folder = folder
        self._folder_is_new = not names_durable
        self._name_changes = 0 if names_durable else 1
        self._synced_name_changes = 0
        self._truncation_count = 0
        self._unsynced_paths = list(unsynced_paths)
        self.recovery_point = recovery_point
        self.flushed_ms = now_ms

    def names_changed(self, *written_paths: str) -> None:
        """Files were made, renamed or removed; these were written and are not synced yet."""
        self._name_changes += 1
        self._unsynced_paths += written_paths

    def cut_to(self, offset: int) -> bool:
        """The log is about to be truncated; tell whether that lowers the recovery point."""
        self._truncation_count += 1
        self._name_changes += 1
        lowered = offset < self.recovery_point
        self.recovery_point = min(offset, self.recovery_point)
        return lowered

    def flush(
        self, files: Files, logs: tuple[File, ...], end_offset: int, epochs: LeaderEpochs
    ) -> Flush:
        """Put together what must be synced for all below this offset to be durable."""
        changed = self._name_changes != self._synced_name_changes
        folder = None
        if changed or epochs.dirty:
            with disk_errors(self._folder):
                folder = files.open_folder(self._folder)
        return Flush(
            files=files,
            path=self._folder,
            end_offset=end_offset,
            truncation_count=self._truncation_count,
            name_changes=self._name_changes,
            logs=logs,
            paths=tuple(self._unsynced_paths),
            folder=folder,
            epochs=format_epochs(epochs) if epochs.dirty else None,
            parent=self._folder.rpartition("/")[0] if self._folder_is_new else None,
        )

    def flushed(self, flush: Flush, epochs: LeaderEpochs, now_ms: int) -> None:
        """Take note that a flush has run; one from before a truncation proves nothing."""
        if flush.truncation_count != self._truncation_count:
            return
        self.recovery_point = max(self.recovery_point, flush.end_offset)
        self.flushed_ms = now_ms
        self._folder_is_new = False
        self._synced_name_changes = flush.name_changes
        synced = set(flush.paths)
        self._unsynced_paths = [path for path in self._unsynced_paths if path not in synced]
        if flush.epochs is not None and flush.epochs == format_epochs(epochs):
            epochs.dirty = False
