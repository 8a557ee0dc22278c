"""Turning what the operating system says into what the storage floor says.

The files port raises OSError; above it only StorageError is known, which names the path so that
the manager can find the log directory that goes offline. Hot paths write the same `except` out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from moldau.base.errors import StorageError


def storage_error(path: str, error: OSError) -> StorageError:
    """Make the error that takes a directory offline out of the one the disk gave."""
    return StorageError(path, error.strerror or str(error))


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Raise the OSErrors of a block as StorageError for this path."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error
