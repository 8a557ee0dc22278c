"""The offset checkpoints of one log directory: the loop notes offsets, another thread writes them.

A write takes what is noted when it gets the lock, not what was noted when it was asked for. So a
write that was asked for earlier and comes later cannot bring back an offset that a truncation has
lowered, and every write that was asked for leaves files that are at least as new.

This module does not know what the offsets mean, or when they are written.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from moldau.base.files import Files
from moldau.base.ids import PartitionKey
from moldau.storage.checkpoints import write_offsets
from moldau.storage.disk_errors import disk_errors

Offsets = Mapping[PartitionKey, int]


class OffsetCheckpoints:
    """The files of one directory, by name. Only `write` may run on another thread than the loop."""

    __slots__ = ("_files", "_folder", "_lock", "_noted", "_written")

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._lock = threading.Lock()
        self._noted: dict[str, Offsets] = {}
        """The mappings are replaced and never changed: another thread reads them."""
        self._written: dict[str, Offsets] = {}
        """The content of each file, as last written by this object."""

    def note(self, name: str, offsets: Offsets) -> None:
        """Set what a file is to contain; the caller does not change the mapping any more."""
        self._noted[name] = offsets

    def noted(self, name: str) -> Offsets:
        """Return what a file is to contain."""
        return self._noted.get(name, {})

    def lower(self, name: str, key: PartitionKey, offset: int) -> None:
        """Lower the offset of one partition; one without an entry counts as 0 already."""
        noted = self.noted(name)
        if noted.get(key, 0) > offset:
            self._noted[name] = {**noted, key: offset}

    def write(self, *names: str) -> None:
        """Replace files by what is noted now, unless they have it: idle logs must cost no sync.

        It blocks. StorageError if the disk fails, DiskFull if it is full.
        """
        with disk_errors(self._folder), self._lock:
            for name in names:
                offsets = self.noted(name)
                if self._written.get(name) != offsets:
                    # After a failed write the content of the file is unknown.
                    self._written.pop(name, None)
                    write_offsets(self._files, f"{self._folder}/{name}", offsets)
                    self._written[name] = offsets
