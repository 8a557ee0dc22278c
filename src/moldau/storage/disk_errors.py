"""Turning what the operating system says into what the storage floor says.

The files port raises OSError; above it only StorageError is known, which names the path so that
the manager can find the log directory that goes offline. Hot paths write the same `except` out.

A full disk is told apart, as DiskFull: the directory stays online, refuses writes, and goes on when
there is room. That is right only where a refused write has left nothing half done. After a failed
sync, or in the middle of a truncation, a full disk is a failure like any other (`disk_failures`).

A file that may not grow any more is FileTooLarge. That says nothing of the disk or of other files:
a log goes on in its next segment (`Log`). Whoever cannot do such a thing treats it as a failure.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.base.errors import DiskFull, FileTooLarge, StorageError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Tell whether an operation failed for want of room, on the disk or in a quota."""
    return error.errno in _NO_ROOM


def storage_error(path: str, error: OSError) -> StorageError:
    """Make the storage floor's error out of the one the disk gave."""
    kind = DiskFull if is_full(error) else StorageError
    if error.errno == errno.EFBIG:
        kind = FileTooLarge
    return kind(path, error.strerror or str(error))


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Raise the OSErrors of a block as StorageError for this path."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


@contextmanager
def disk_failures(path: str) -> Iterator[None]:
    """Raise the OSErrors of a block that must not end half-way: the directory goes offline."""
    try:
        yield
    except OSError as error:
        raise StorageError(path, error.strerror or str(error)) from error
