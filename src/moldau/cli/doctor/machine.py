"""The port through which the checks see a machine.

Checks are pure: what they are told here decides what they say. So a test needs no odd machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Python:
    """The interpreter that runs this command, and would run a broker."""

    implementation: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is new enough, or why there is none."""

    path: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WallClock:
    """What the clock tells, and what speaks for or against it."""

    now_s: float
    installed_s: float
    """When the files of this package were written: no clock may be before that."""
    is_synchronized: bool | None
    """Whether the kernel says that it follows a time server; None if it does not tell."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A log directory, or the nearest folder above it that exists."""

    existing: str
    """The folder that the other values are about."""
    is_folder: bool
    is_writable: bool
    file_system: str
    size_bytes: int
    free_bytes: int
    free_files: int | None
    """How many files can still be made; None if the file system has no such limit."""
    newest_file_s: float | None
    """When the newest file in it was written; None if it is empty."""
    can_send_files: bool | None
    """Whether `sendfile` works on it; None if it could not be tried."""
    tells_cached_pages: bool | None
    """Whether a read with RWF_NOWAIT works on it; None if it could not be tried."""
    is_locked: bool
    """Whether a broker runs with it."""


class Machine(Protocol):
    """What this machine tells."""

    def system(self) -> str:
        """Return the name of the operating system, as `linux`."""
        ...

    def python(self) -> Python: ...

    def is_compiled(self) -> bool:
        """Tell whether this is the compiled wheel."""
        ...

    def has_crc_instruction(self) -> bool:
        """Tell whether the processor computes the checksums of batches."""
        ...

    def installed_version(self, distribution: str) -> str | None:
        """Return the version of a Python package; None if it is not installed."""
        ...

    def java(self) -> Java: ...

    def clock(self) -> WallClock: ...

    def open_files_max(self) -> int:
        """Return the hard limit of open files of a process."""
        ...

    def memory_bytes(self) -> int | None:
        """Return the memory that processes here may use; None if that is not known."""
        ...

    def backlog_max(self) -> int | None:
        """Return how many connections may wait at a port; None if that is not known."""
        ...

    def has_process_handles(self) -> bool:
        """Tell whether the kernel gives a process a handle (pidfd)."""
        ...

    def folder(self, path: str) -> Folder: ...

    def why_not_bound(self, host: str, port: int) -> str | None:
        """Return why nobody can listen there now; None if it is possible."""
        ...

    def is_known_host(self, host: str) -> bool:
        """Tell whether a name has an address."""
        ...
