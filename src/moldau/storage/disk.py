"""The files port on the operating system.

An append or a read is one system call. The kernel knows the end of a file (O_APPEND) and its size;
a copy kept here could be wrong after a failed write or a write through another handle. This module
does not know logs; callers decide what an error means.
"""

# Paths are plain strings, because a broker holds many thousands of them.
# ruff: noqa: PTH103, PTH104, PTH108, PTH110, PTH112, PTH116, PTH208
from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Sequence

from moldau.base.files import NEVER_CUT, Buffer

VECTOR_COUNT_MAX = os.sysconf("SC_IOV_MAX")
"""How many buffers the kernel accepts in one `writev`."""

RESIDENCY_STRIDE = 128 * 1024
"""The kernel's usual read-ahead: pages are cached and dropped in runs of about this size, so one
byte per run is enough to probe."""

WARM_CHUNK = 256 * 1024
"""Small enough to stay in the processor's cache, so that warming costs one pass over memory."""

READ_AHEAD = 8 * 1024 * 1024
"""A consumer that reads from disk usually continues. The disk is kept this much ahead of it, or
half of that: eight usual fetches. Kafka leaves it to the kernel, whose own reading ahead would be
done within `sendfile`, on the event loop."""

READ_AHEAD_STEP = 1024 * 1024
"""What is asked of the disk in one call. The kernel silently cuts a request to the largest transfer
of the device or its `read_ahead_kb`, whichever is more."""

FILE_MODE = 0o644
"""World-readable, like Kafka's files with the usual umask."""

_probe = [bytearray(1)]
_held_locks: set[str] = set()


class DiskFile:
    """One descriptor. Calls may come from several threads; the kernel orders them."""

    __slots__ = ("_ahead_end", "_descriptor", "intact_end", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.intact_end = NEVER_CUT
        self._descriptor = descriptor
        self._ahead_end = -1
        """Up to here the disk was asked to read for a reader; -1 if it need not go on."""

    def fileno(self) -> int:
        """The descriptor, for `sendfile`; -1 once closed."""
        return self._descriptor

    def size(self) -> int:
        return os.lseek(self._descriptor, 0, os.SEEK_END)

    def append(self, parts: Sequence[Buffer]) -> None:
        if len(parts) == 1:
            written, size = os.write(self._descriptor, parts[0]), len(parts[0])
        elif len(parts) <= VECTOR_COUNT_MAX:
            written, size = os.writev(self._descriptor, parts), sum(map(len, parts))
        else:
            for first in range(0, len(parts), VECTOR_COUNT_MAX):
                self.append(parts[first : first + VECTOR_COUNT_MAX])
            return
        if written != size:
            self._append_rest(parts, written)

    def _append_rest(self, parts: Sequence[Buffer], written: int) -> None:
        """Continue after a short write: on a full disk the next write raises the error."""
        rest = memoryview(b"".join(parts))[written:]
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size:
            return data
        pieces = [data]
        while data:
            position += len(data)
            size -= len(data)
            data = os.pread(self._descriptor, size, position)
            pieces.append(data)
        return b"".join(pieces)

    def truncate(self, size: int) -> None:
        if size < self.size():
            os.ftruncate(self._descriptor, size)

    def cut_off_regions(self, position: int) -> None:
        self.intact_end = min(self.intact_end, position)

    def sync(self) -> None:
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        os.fdatasync(self._descriptor)

    def resident(self, position: int, size: int) -> bool:
        try:
            for probed in range(position, position + size, RESIDENCY_STRIDE):
                os.preadv(self._descriptor, _probe, probed, os.RWF_NOWAIT)
            if size > 1:
                os.preadv(self._descriptor, _probe, position + size - 1, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            # Some file systems do not support this: assume that the pages are cached.
            if error.errno != errno.EOPNOTSUPP:
                raise
        return True

    def warm(self, position: int, size: int) -> None:
        end = position + size + READ_AHEAD
        end -= end % READ_AHEAD_STEP
        self._ask_disk(position, end)
        self._ahead_end = end
        scratch = memoryview(bytearray(min(size, WARM_CHUNK)))
        while size > 0:
            count = os.preadv(self._descriptor, [scratch[:size]], position)
            if not count:
                return
            position += count
            size -= count

    def read_ahead_from(self, position: int) -> int | None:
        """Say from where to `read_ahead` for a reader that has come here; each start only once.

        None unless this reader, or another one, has waited for the disk (`warm`), and less than
        half of what was then read ahead is left.
        """
        end = self._ahead_end
        if not position <= end < position + READ_AHEAD // 2:
            return None
        self._ahead_end = end + READ_AHEAD // 2
        return end

    def read_ahead(self, start: int) -> None:
        """Have the disk read on, without waiting for the bytes; may block for a moment.

        The file's end, and what is in memory already, end the reading ahead. Errors are left to
        whoever needs the bytes.
        """
        with contextlib.suppress(OSError):
            if self.resident(start, 1):
                self._ahead_end = -1
            else:
                self._ask_disk(start, start + READ_AHEAD // 2)

    def _ask_disk(self, start: int, end: int) -> None:
        for position in range(start, end, READ_AHEAD_STEP):
            size = min(end - position, READ_AHEAD_STEP)
            os.posix_fadvise(self._descriptor, position, size, os.POSIX_FADV_WILLNEED)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class DiskFolder:
    """One descriptor of a folder; names are relative to it, also after the folder is moved."""

    __slots__ = ("_descriptor", "_flags", "_path")

    def __init__(self, path: str, flags: int) -> None:
        self._descriptor = -1
        self._path = path
        self._flags = flags
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def open(self, name: str, *, create: bool = False) -> DiskFile:
        flags = self._flags | os.O_CREAT if create else self._flags
        descriptor = os.open(name, flags, FILE_MODE, dir_fd=self._descriptor)
        return DiskFile(f"{self._path}/{name}", descriptor)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class DiskLock:
    """A POSIX record lock on a whole file, like Java's FileLock on `.lock`.

    So Kafka and Moldau exclude each other from a folder. The lock belongs to the process: the
    kernel grants it twice to the same process, and drops it when *any* descriptor of the file is
    closed. So `_held_locks` is checked before the file is even opened.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        if self._path in _held_locks:
            raise BlockingIOError(errno.EAGAIN, "locked by this process", path)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # POSIX lets a kernel answer either
            os.close(self._descriptor)
            raise BlockingIOError(errno.EAGAIN, "locked by another process", path) from None
        except OSError:
            os.close(self._descriptor)
            raise
        _held_locks.add(self._path)

    def release(self) -> None:
        """Release the lock; a second call is harmless."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            _held_locks.discard(self._path)


class Disk:
    """This machine's file system.

    `read_only` opens files for reading only, for tools that have no write permission.
    """

    def __init__(self, *, read_only: bool = False) -> None:
        self._flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_APPEND

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        flags = self._flags | os.O_CREAT if create else self._flags
        descriptor = os.open(path, flags, FILE_MODE)
        return DiskFile(path, descriptor)

    def open_folder(self, path: str) -> DiskFolder:
        return DiskFolder(path, self._flags)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def space(self, folder: str) -> tuple[int, int]:
        volume = os.statvfs(folder)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_folder(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            if os.path.lexists(path):
                raise

    def sync_folder(self, path: str) -> None:
        folder = self.open_folder(path)
        try:
            folder.sync()
        finally:
            folder.close()

    def lock(self, path: str) -> DiskLock:
        return DiskLock(path)
