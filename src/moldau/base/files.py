"""The files port: everything storage may ask of a disk.

Two implementations stand under one contract test (`tests/contract/test_files.py`):
`storage.disk.Disk` and `sim.disk.SimDisk`. Paths are plain strings, joined with "/", because a
broker holds many thousands of them. All calls are synchronous; `sync`, `sync_folder` and `warm`
may block for long and are called through the executor wherever the event loop is running.

Durability is the operating system's: bytes appended are seen by every reader at once, survive
the death of the process, and survive the death of the machine only after `sync`. A file created,
renamed or removed stays so after a power cut only when its folder was synced.

Any operating system failure is raised as OSError, unchanged; the storage floor turns it into
StorageError with the log directory concerned.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, Protocol

from moldau.base.tuples import NamedTuple

Buffer = bytes | bytearray | memoryview

NEVER_CUT: Final = 2**63 - 1
"""The intact end of a file that was never cut: no file is larger."""


class File(Protocol):
    """One open file. Appends go to the end; reads name their position.

    A file that nobody holds any more closes itself: a region on its way to a socket keeps its file
    open after the segment has let go of it.
    """

    @property
    def path(self) -> str:
        """Where the file was when it was opened."""
        ...

    @property
    def intact_end(self) -> int:
        """No region of this handle may be sent from here on (`cut_off_regions`)."""
        ...

    def size(self) -> int:
        """Bytes in the file now."""
        ...

    def append(self, parts: Sequence[Buffer]) -> None:
        """Write all parts at the end. After an OSError any prefix may have been written."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to this many bytes; fewer only at the end of the file."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to this many bytes; it never grows."""
        ...

    def cut_off_regions(self, position: int) -> None:
        """Let no region that reaches beyond a position be sent through this handle any more.

        Regions wait in the queues of slow peers. Once the file was cut below their end, other bytes
        may be written there, which would go out as if they were the old ones. Whoever cuts a file
        calls this and opens it anew.
        """
        ...

    def sync(self) -> None:
        """Return once every byte appended so far would survive a power cut."""
        ...

    def resident(self, position: int, size: int) -> bool:
        """Tell whether reading this region would not wait for the disk."""
        ...

    def warm(self, position: int, size: int) -> None:
        """Bring a region into the page cache; may block."""
        ...

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        ...


class FileRegion(NamedTuple):
    """Bytes of a file on their way to a socket, not yet read."""

    file: File
    position: int
    size: int


def check_intact(region: FileRegion) -> None:
    """Raise OSError if a file was cut since a region of it was made, and the region with it."""
    if region.position + region.size > region.file.intact_end:
        raise OSError(errno.ESTALE, "the file was cut below the end of a region", region.file.path)


class Folder(Protocol):
    """One open folder: it stays the same one when it is moved, whatever gets its path then.

    For work that goes on while somebody else may take the folder away. Names are those of files
    directly in it. In a folder that was removed no file can be made: FileNotFoundError.
    """

    def open(self, name: str, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless it exists or `create`."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in one step, replacing a file of that name."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; one that is gone is fine."""
        ...

    def sync(self) -> None:
        """Return once the names in this folder would survive a power cut."""
        ...

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""
        ...


class Lock(Protocol):
    """Held while a process owns a folder."""

    def release(self) -> None:
        """Let another process in."""
        ...


class Files(Protocol):
    """One machine's file system."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless it exists or `create`."""
        ...

    def open_folder(self, path: str) -> Folder:
        """Open a folder that exists."""
        ...

    def exists(self, path: str) -> bool:
        """Tell whether a file or folder has this path."""
        ...

    def size(self, path: str) -> int:
        """Bytes in the file; FileNotFoundError if there is none."""
        ...

    def space(self, folder: str) -> tuple[int, int]:
        """Bytes in all and bytes free on the volume that holds a folder; -1 where unknown."""
        ...

    def names(self, folder: str) -> list[str]:
        """Names of what lies directly in a folder, sorted."""
        ...

    def is_folder(self, path: str) -> bool:
        """Tell whether the path is a folder."""
        ...

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents; one that exists is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Move a file or folder in one step, replacing a file of the new name."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone is fine. Open handles go on reading it."""
        ...

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all that is in it; one that is gone is fine."""
        ...

    def sync_folder(self, path: str) -> None:
        """Return once the names in this folder would survive a power cut."""
        ...

    def lock(self, path: str) -> Lock:
        """Take an exclusive lock on this file, made if missing; BlockingIOError if it is held."""
        ...


def read_whole(files: Files, path: str) -> bytes:
    """Read a small file; FileNotFoundError if there is none."""
    file = files.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def write_atomically(files: Files, path: str, content: Buffer) -> None:
    """Replace a small file by its path: `replace_in`."""
    parent, slash, name = path.rpartition("/")
    folder = files.open_folder(parent or slash)
    try:
        replace_in(folder, name, content)
    finally:
        folder.close()


def replace_in(folder: Folder, name: str, content: Buffer) -> None:
    """Replace a small file so that a crash leaves the old content or the new, never a mixture.

    Written beside it as `.tmp`, synced, renamed, and the folder synced: Kafka's own way.
    """
    temporary = name + ".tmp"
    folder.remove(temporary)
    file = folder.open(temporary, create=True)
    try:
        file.append([content])
        file.sync()
    finally:
        file.close()
    folder.rename(temporary, name)
    folder.sync()
