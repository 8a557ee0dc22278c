"""The sources port over the operating system.

Only plain files are ever opened: opening a pipe waits for whoever writes to it, and reading from a
device may do things.
"""

# Paths are plain strings: there may be thousands, and they go into headers as they are.
# ruff: noqa: PTH116, PTH118, PTH120, PTH207, PTH208
from __future__ import annotations

import contextlib
import errno
import glob
import os
import resource
import stat
from collections.abc import Sequence
from typing import Final

from moldau.collect.marks import FileIdentity
from moldau.collect.sources import Seen

SPARE_COUNT: Final = 64
"""Descriptors that files leave to connections, to the file of positions and to what is imported
meanwhile: without them nothing would be delivered of any file."""


class MachineFile:
    """One descriptor."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def look(self) -> Seen:
        return _seen(os.fstat(self._descriptor))

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        pieces = [data]
        while data and len(data) < size:
            position, size = position + len(data), size - len(data)
            data = os.pread(self._descriptor, size, position)
            pieces.append(data)
        return b"".join(pieces)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class MachineSources:
    """This machine's files."""

    def matches(self, patterns: Sequence[str]) -> list[str]:
        found: dict[str, None] = {}
        for pattern in patterns:
            if not glob.has_magic(pattern):
                found[pattern] = None
                continue
            found.update(dict.fromkeys(sorted(glob.iglob(pattern, recursive=True))))
        return list(found)

    def check(self, pattern: str) -> None:
        folder = pattern
        while glob.has_magic(folder):
            folder = os.path.dirname(folder)
        if folder != pattern:
            with contextlib.suppress(FileNotFoundError):
                os.scandir(folder or ".").close()

    def siblings(self, path: str) -> list[str]:
        folder = os.path.dirname(path)
        try:
            names = os.listdir(folder or ".")
        except OSError:
            return []
        return [os.path.join(folder, name) for name in sorted(names)]

    def look(self, path: str) -> Seen:
        return _seen(_plain(os.stat(path), path))

    def open(self, path: str) -> MachineFile:
        # O_NONBLOCK: should a pipe have taken the place of the file meanwhile, nobody waits for it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        file = MachineFile(descriptor)
        _plain(os.fstat(descriptor), path)
        limit, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The system gives the lowest number that is free: all below this one are taken.
        if descriptor >= limit - min(SPARE_COUNT, limit // 2):
            file.close()
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return file


def _seen(status: os.stat_result) -> Seen:
    return Seen(FileIdentity(status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)


def _plain(status: os.stat_result, path: str) -> os.stat_result:
    """Refuse what is no plain file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", path)
    return status
