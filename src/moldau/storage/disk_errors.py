"""Converting OSError to StorageError.

The files port raises OSError. The floors above know only StorageError, which has a path, so that
the manager can find the log directory and take it offline. Hot paths have the `except` inline.

A full disk is DiskFull: the directory stays online and refuses writes until there is room. Use
`disk_errors` only where a refused write leaves nothing half done. A sync, or the middle of a
truncation, needs `disk_failures`: there a full disk is a failure like any other.

A file that may not grow is FileTooLarge. `Log` then continues in a new segment; other callers treat
it as a failure.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.base.errors import DiskFull, FileTooLarge, StorageError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Return whether an operation failed because the disk or a quota is full."""
    return error.errno in _NO_ROOM


def storage_error(path: str, error: OSError) -> StorageError:
    """Convert an OSError to StorageError, DiskFull or FileTooLarge."""
    kind = DiskFull if is_full(error) else StorageError
    if error.errno == errno.EFBIG:
        kind = FileTooLarge
    return kind(path, error.strerror or str(error))


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Convert every OSError of a block to StorageError, DiskFull or FileTooLarge."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


@contextmanager
def disk_failures(path: str) -> Iterator[None]:
    """Convert every OSError to StorageError, for a block that must not stop halfway."""
    try:
        yield
    except OSError as error:
        raise StorageError(path, error.strerror or str(error)) from error
