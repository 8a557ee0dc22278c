"""The files port of a test broker: syncs cost nothing, and a broker that is killed loses its hold.

A test never cuts the power, so nothing is gained by waiting for the disk; the page cache survives a
kill, as it does with `kill -9`. What makes a kill one, in a process that goes on living, is that
nothing of the dead broker changes a file any more: code of it that still unwinds gets `Killed`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from moldau.base.files import Buffer
from moldau.storage.disk import FILE_MODE, Disk, DiskFile, DiskFolder, DiskLock


class Killed(BaseException):
    """Code of a broker that was killed tried to go on.

    No Exception, so that no handler that was written for failures survives it.
    """


class MortalFile(DiskFile):
    """One open file of one life of a broker."""

    __slots__ = ("_disk",)

    def __init__(self, disk: MortalDisk, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def append(self, parts: Sequence[Buffer]) -> None:
        self._disk.require_alive()
        super().append(parts)

    def truncate(self, size: int) -> None:
        self._disk.require_alive()
        super().truncate(size)

    def sync(self) -> None:
        self._disk.require_alive()


class MortalFolder(DiskFolder):
    """One open folder of one life of a broker."""

    __slots__ = ("_disk",)

    def __init__(self, disk: MortalDisk, path: str, flags: int) -> None:
        super().__init__(path, flags)
        self._disk = disk

    def open(self, name: str, *, create: bool = False) -> MortalFile:
        self._disk.require_alive()
        flags = self._flags | os.O_CREAT if create else self._flags
        descriptor = os.open(name, flags, FILE_MODE, dir_fd=self._descriptor)
        return MortalFile(self._disk, f"{self._path}/{name}", descriptor)

    def rename(self, old: str, new: str) -> None:
        self._disk.require_alive()
        super().rename(old, new)

    def remove(self, name: str) -> None:
        self._disk.require_alive()
        super().remove(name)

    def sync(self) -> None:
        self._disk.require_alive()


class MortalDisk(Disk):
    """This machine's file system, as one life of a test broker sees it."""

    def __init__(self) -> None:
        super().__init__()
        self._alive = True
        self._locks: list[DiskLock] = []

    def require_alive(self) -> None:
        """Raise Killed if this life is over."""
        if not self._alive:
            raise Killed("a broker that was killed used its disk")

    def kill(self) -> None:
        """Let nothing be changed any more, and the next life in."""
        self._alive = False
        for lock in self._locks:
            lock.release()

    def open(self, path: str, *, create: bool = False) -> MortalFile:
        self.require_alive()
        flags = self._flags | os.O_CREAT if create else self._flags
        return MortalFile(self, path, os.open(path, flags, FILE_MODE))

    def open_folder(self, path: str) -> MortalFolder:
        self.require_alive()
        return MortalFolder(self, path, self._flags)

    def make_folder(self, path: str) -> None:
        self.require_alive()
        super().make_folder(path)

    def rename(self, old: str, new: str) -> None:
        self.require_alive()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.require_alive()
        super().remove(path)

    def remove_folder(self, path: str) -> None:
        self.require_alive()
        super().remove_folder(path)

    def lock(self, path: str) -> DiskLock:
        self.require_alive()
        lock = super().lock(path)
        self._locks.append(lock)
        return lock
