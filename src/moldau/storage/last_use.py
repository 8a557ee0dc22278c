"""What a log directory knows of its last use: whether records may be lost, and its broker's epoch.

A broker that registers tells the controller the epoch it had before (KIP-966). If that is the last
epoch given to its id, and nothing was lost since, its replicas still have all they acknowledged.
The epoch must come from the directory itself. The metadata have the last epoch of the id, which may
be that of a broker on another machine: it had the same id for a while, and this directory lacks
what it acknowledged.

A broker may be registered and not hear of it before it ends. Its epoch would be unknown here, and
the next life would count as one that has lost records. So the mark also has the incarnation under
which a broker asks. The next life asks under the same one, and keeps the epoch that it was given.
"""

from __future__ import annotations

import threading

from moldau.base.files import Files
from moldau.storage.checkpoints import (
    OpenMark,
    read_clean_mark,
    read_open_mark,
    write_open_mark,
)
from moldau.storage.disk_errors import disk_errors


class LastUse:
    """The last use of one directory, and the mark of this one. Only `write` may run on any thread.

    Nothing is written after a power cut until the broker has registered. A start that ends before
    would make the next one look as if only a process had died.
    """

    __slots__ = (
        "_boot_id",
        "_files",
        "_folder",
        "_lock",
        "_noted",
        "_written",
        "broker_epoch",
        "clean",
        "incarnation_id",
        "power_lost",
    )

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._lock = threading.Lock()
        self._boot_id = ""
        self._noted: OpenMark | None = None
        """What the open mark is to say; None if it stays as it is."""
        self._written: OpenMark | None = None
        """What it says, as far as is known."""
        self.clean = False
        """Whether the last shutdown was clean."""
        self.power_lost = False
        """Whether unsynced bytes may be lost: an unclean shutdown before the last boot."""
        self.broker_epoch = -1
        """The epoch of the broker that acknowledged the last records; -1 if some may be lost."""
        self.incarnation_id = b""
        """Under which a broker on this directory should ask to be registered."""

    def read(self, boot_id: str, incarnation_id: bytes) -> None:
        """Read the marks that the last use has left; OSError if the disk fails.

        The incarnation is a new one. That of the last use counts instead if it may have been
        registered without hearing of it, and has lost nothing since.
        """
        clean = read_clean_mark(self._files, self._folder)
        opened = read_open_mark(self._files, self._folder)
        self._boot_id, self._written = boot_id, opened
        self.clean = clean is not None
        self.power_lost = False
        if clean is not None:
            self.broker_epoch = clean.broker_epoch
        elif opened is not None and opened.boot_id == boot_id:
            self.broker_epoch = opened.broker_epoch
        else:
            self.power_lost, self.broker_epoch = True, -1
        self.incarnation_id = incarnation_id
        if not self.power_lost:
            if opened is not None and opened.boot_id == boot_id:
                self.incarnation_id = opened.incarnation_id or incarnation_id
            # The clean mark is removed before this broker registers, and its epoch stays known.
            self.note(self.broker_epoch, self.incarnation_id)

    @property
    def marked_epoch(self) -> int:
        """The broker epoch that the open mark has on the disk; -1 if it has none."""
        return -1 if self._written is None else self._written.broker_epoch

    def note(self, broker_epoch: int, incarnation_id: bytes = b"") -> None:
        """Set what the open mark is to have; no incarnation once the broker is registered."""
        self._noted = OpenMark(self._boot_id, broker_epoch, incarnation_id)

    def write(self) -> None:
        """Write the open mark, unless it says what is noted. It blocks.

        StorageError if the disk fails, DiskFull if it is full. With an old mark or none, the next
        start assumes that records are lost, which is safe.
        """
        with disk_errors(self._folder), self._lock:
            mark = self._noted
            if mark is not None and mark != self._written:
                write_open_mark(self._files, self._folder, mark)
                self._written = mark
