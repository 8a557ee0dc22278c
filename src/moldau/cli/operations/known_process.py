"""Processes that an earlier command started: known again by more than their number, and signalled.

The system gives the number of an ended process to another one. So a process is known by its
number, its start time and its command line. A descriptor holds on to it: as long as that is open,
the number cannot come to mean another process.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

START_TIME_FIELD: Final = 19
"""In /proc/PID/stat, counted from the field behind the name (proc(5), starttime)."""
COMMAND_LINE_WITHIN_S: Final = 2.0
COMMAND_LINE_LOOK_S: Final = 0.001
NO_PROCESS: Final = (errno.ESRCH, errno.EINVAL, errno.ENOENT)
"""Why no descriptor is given: there is no such process, or the number is that of a thread now."""


def identity_of(process_id: int) -> bytes:
    """Return start time and command line of a process; nothing if there is none.

    A process that has ended, and whose parent has not asked for its status, has no command line.
    """
    try:
        fields = Path(f"/proc/{process_id}/stat").read_bytes().rpartition(b")")[2].split()
        command = Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        return b""
    return fields[START_TIME_FIELD] + b"\n" + command


def identity_of_child(process_id: int) -> bytes:
    """Return start time and command line of a process that was just started.

    For a moment after `exec` a process has no command line: the kernel sets it after it has closed
    the pipe by which the parent learns of the `exec`. A process that has ended has none either, so
    the wait is short.
    """
    deadline_s = time.monotonic() + COMMAND_LINE_WITHIN_S
    while True:
        identity = identity_of(process_id)
        if not identity.endswith(b"\n") or time.monotonic() > deadline_s:
            return identity
        time.sleep(COMMAND_LINE_LOOK_S)


class KnownProcess:
    """A process that is certainly the one that is meant; also a context manager."""

    def __init__(self, process_id: int, descriptor: int) -> None:
        self.process_id = process_id
        self._descriptor = descriptor

    @classmethod
    def find(cls, process_id: int, is_expected: Callable[[], bool]) -> KnownProcess | None:
        """Take hold of a process, then ask whether it is the expected one; None if it is not."""
        try:
            descriptor = os.pidfd_open(process_id)
        except OverflowError:
            return None
        except OSError as error:
            if error.errno in NO_PROCESS:
                return None
            raise
        with ExitStack() as opened:
            found = opened.enter_context(cls(process_id, descriptor))
            if not is_expected():
                return None
            opened.pop_all()
            return found

    def signal(self, number: int) -> bool:
        """Send a signal; False if the process is gone."""
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            return False
        return True

    def has_ended(self) -> bool:
        """Tell whether the process has ended, without waiting."""
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def fileno(self) -> int:
        """Return the descriptor, which is readable once the process has ended."""
        return self._descriptor

    def close(self) -> None:
        """Let go of the process."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
