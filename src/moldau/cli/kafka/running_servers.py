"""Which brokers `kafka-server-start` has started and `kafka-server-stop` may therefore stop.

Kafka's script looks for any process whose command line mentions Kafka. Here each broker holds a
lock on a file of its own that bears its process id and says when and as what it was started. A
number that the system has given to another process since stops nobody.

The folder's name can be guessed, and others may write beside it. So it is used only if it is ours
and nobody else can write to it or put another in its place; no link is followed inside it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from moldau.cli.kafka.running import CommandFailed
from moldau.cli.operations.known_process import KnownProcess, identity_of

FOLDER_VARIABLE: Final = "MOLDAU_RUN_DIR"
PRIVATE_FOLDER: Final = 0o700
PRIVATE_FILE: Final = 0o600
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def folder() -> Path:
    """Return where the files are: the user's run-time folder, or one beside the temporary files."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    return Path(_own_runtime_folder() or tempfile.gettempdir()) / f"moldau-{os.getuid()}"


def _own_runtime_folder() -> str | None:
    """Return the session's folder, unless it is that of the user from whom we are by sudo."""
    place = os.environ.get("XDG_RUNTIME_DIR")
    with suppress(OSError):
        if place and Path(place).stat().st_uid == os.getuid():
            return place
    return None


@contextmanager
def registered() -> Iterator[None]:
    """Be known as a running broker, as long as the block lasts or the process lives."""
    make_folder()
    name = str(os.getpid())
    with opened_folder() as place:
        held = _locked_new_file(place, name)
        try:
            os.write(held, identity_of(os.getpid()))
            yield
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place)
            os.close(held)


def running() -> list[int]:
    """Return the process ids of the brokers that run; files of dead ones are taken away."""
    if not os.path.lexists(folder()):
        return []
    with opened_folder() as place:
        names = sorted(filter(str.isdecimal, os.listdir(place)))  # noqa: PTH208 - a descriptor
        return [int(name) for name in names if _is_running(place, name)]


def stop_running() -> list[int]:
    """Ask every broker that runs to stop; return their process ids."""
    return [process_id for process_id in running() if _stop(process_id)]


def _stop(process_id: int) -> bool:
    """Signal a process if it is still the one that is registered under its number."""
    process = KnownProcess.find(process_id, lambda: process_id in running())
    if process is None:
        return False
    with process:
        return process.signal(signal.SIGTERM)


def make_folder() -> None:
    """Make the folder unless it is there; CommandFailed if that is not possible."""
    try:
        folder().mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    except OSError as error:
        raise _unsafe(error.strerror or str(error)) from None


@contextmanager
def opened_folder() -> Iterator[int]:
    """Open the folder; CommandFailed if it is not safe to use."""
    path = folder()
    try:
        place = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        # A link, to a folder or not, is "not a directory" to a system that does not follow it.
        raise _unsafe(error.strerror or str(error)) from None
    try:
        status = os.fstat(place)
        if status.st_uid != os.getuid():
            raise _unsafe(f"it belongs to user {status.st_uid}")
        if status.st_mode & WRITABLE_BY_OTHERS:
            raise _unsafe("others may write to it (chmod 700 it)")
        above = path.absolute().parent.stat()
        if above.st_uid not in (0, os.getuid()):
            raise _unsafe(f"the folder it lies in belongs to user {above.st_uid}")
        if above.st_mode & WRITABLE_BY_OTHERS and not above.st_mode & stat.S_ISVTX:
            raise _unsafe("others may put another in its place")
        yield place
    finally:
        os.close(place)


def _unsafe(reason: str) -> CommandFailed:
    return CommandFailed(
        f"The folder {folder()}, which knows the running servers, cannot be used: {reason}. "
        f"Name another with {FOLDER_VARIABLE}."
    )


def _locked_new_file(place: int, name: str) -> int:
    """Make a file that nobody else has made, and lock it."""
    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            held = os.open(name, flags, PRIVATE_FILE, dir_fd=place)
        except FileExistsError:
            # Left behind by a process that had our number before us.
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=place)
            continue
        fcntl.flock(held, fcntl.LOCK_EX)
        if os.fstat(held).st_nlink:
            return held
        # `running` saw it before it was locked, took it for a dead one's, and took it away.
        os.close(held)


def _is_running(place: int, name: str) -> bool:
    """Tell whether a file is that of a live broker; take it away if nobody holds it."""
    try:
        file = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place
        )
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid():
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(file, status.st_size, 0)
            return said == identity_of(int(name))
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=place)
        return False
    finally:
        os.close(file)
