"""The machine on which the command runs, asked through the operating system.

Nothing is changed: what is tried on a folder is tried on a file without a name.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
import socket
import sys
import tempfile
import time
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import IO, Final

import crc32c

import moldau
from moldau.cli.doctor.machine import Folder, Java, Python, WallClock
from moldau.cli.doctor.mounts import file_system_of
from moldau.cli.frame.failures import reason_of
from moldau.cli.frame.version import is_compiled
from moldau.cli.zookeeper.installation import NoJava, find_java
from moldau.storage.directory import LOCK

MOUNTS: Final = Path("/proc/self/mountinfo")
MEMORY: Final = Path("/proc/meminfo")
CGROUP_MEMORY: Final = Path("/sys/fs/cgroup/memory.max")
BACKLOG: Final = Path("/proc/sys/net/core/somaxconn")

TIMEX_BYTES: Final = 1024
"""More than any C library's `struct timex`. Zeros ask the kernel and set nothing."""
TIME_ERROR: Final = 5
"""What `adjtimex` answers while the clock follows no time server."""


class ThisMachine:
    """What this machine tells."""

    def system(self) -> str:
        return sys.platform

    def python(self) -> Python:
        return Python(platform.python_implementation(), sys.version_info[:3])

    def is_compiled(self) -> bool:
        return is_compiled()

    def has_crc_instruction(self) -> bool:
        return bool(crc32c.hardware_based)

    def installed_version(self, distribution: str) -> str | None:
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            return None

    def java(self) -> Java:
        try:
            return Java(find_java(os.environ))
        except NoJava as error:
            return Java(None, error.reason)

    def clock(self) -> WallClock:
        return WallClock(time.time(), Path(moldau.__file__).stat().st_mtime, _is_synchronized())

    def open_files_max(self) -> int:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[1]

    def memory_bytes(self) -> int | None:
        found = [size for size in (_memory_of_machine(), _number_in(CGROUP_MEMORY)) if size]
        return min(found, default=None)

    def backlog_max(self) -> int | None:
        return _number_in(BACKLOG)

    def has_process_handles(self) -> bool:
        try:
            os.close(os.pidfd_open(os.getpid()))
        except (AttributeError, OSError):
            return False
        return True

    def folder(self, path: str) -> Folder:
        existing = _nearest_existing(path)
        volume = os.statvfs(existing)
        can_send_files, tells_cached_pages = _try_file_in(existing)
        return Folder(
            existing=path if Path(path).exists() else existing,
            is_folder=Path(existing).is_dir(),
            is_writable=os.access(existing, os.W_OK | os.X_OK),
            file_system=file_system_of(os.path.realpath(existing), _text_of(MOUNTS)),
            size_bytes=volume.f_blocks * volume.f_frsize,
            free_bytes=volume.f_bavail * volume.f_frsize,
            free_files=volume.f_favail if volume.f_files else None,
            newest_file_s=_newest_file_s(path),
            can_send_files=can_send_files,
            tells_cached_pages=tells_cached_pages,
            is_locked=_is_locked(Path(path) / LOCK),
        )

    def why_not_bound(self, host: str, port: int) -> str | None:
        try:
            family, _, _, _, address = socket.getaddrinfo(
                host or "::", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # As brokers do, so that connections that have just ended do not count.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6 and not host:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe.bind(address)
        except OSError as error:
            return reason_of(error)
        return None

    def is_known_host(self, host: str) -> bool:
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            return False
        return True


def _is_synchronized() -> bool | None:
    try:
        told: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (AttributeError, OSError):
        return None
    # -1 where a container may not ask.
    return None if told < 0 else told != TIME_ERROR


def _memory_of_machine() -> int | None:
    for line in _text_of(MEMORY).splitlines():
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            return int(rest.split()[0]) * 1024
    return None


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number_in(path: Path) -> int | None:
    text = _text_of(path).strip()
    return int(text) if text.isdecimal() else None


def _nearest_existing(path: str) -> str:
    found = Path(path).absolute()
    while not found.exists():
        found = found.parent
    return str(found)


def _newest_file_s(path: str) -> float | None:
    try:
        with os.scandir(path) as entries:
            return max(
                (entry.stat().st_mtime for entry in entries if entry.is_file()), default=None
            )
    except OSError:
        return None


def _is_locked(lock: Path) -> bool:
    """Tell whether another process holds the lock of a log directory."""
    try:
        file = lock.open("r+b")
    except OSError:
        return False
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def _try_file_in(folder: str) -> tuple[bool | None, bool | None]:
    """Try on a file without a name whether `sendfile` and RWF_NOWAIT work."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
            file.flush()
            return _can_send(file), _tells_cached_pages(file)
    except OSError:
        return None, None


def _can_send(file: IO[bytes]) -> bool:
    ours, theirs = socket.socketpair()
    with ours, theirs, suppress(OSError):
        return os.sendfile(ours.fileno(), file.fileno(), 0, 1) == 1
    return False


def _tells_cached_pages(file: IO[bytes]) -> bool:
    try:
        os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except (AttributeError, OSError):
        return False
    return True
