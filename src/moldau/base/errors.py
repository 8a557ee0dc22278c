"""The exceptions of Moldau, as one tree.

    MoldauError
    |-- UserError           a request cannot be fulfilled: one line, no traceback
    |   `-- ConfigError     a setting is unknown, malformed or contradicts another
    |-- ProtocolError       a peer sent bytes that are not the protocol
    |   `-- CorruptRecords  record bytes do not match their header
    |       `-- BatchTooLarge  a batch exceeds the broker's limits
    |-- StorageError        a disk operation failed; the log directory goes offline
    |   |-- DiskFull        no room; nothing was changed, and writes resume when there is room
    |   `-- FileTooLarge    the file would exceed the limit of the process
    |-- InvariantViolated   a bug: stop the partition instead of continuing with wrong state
    |-- WorkerLost          the worker process is gone (defined in `executor`)
    `-- WorkTooLong         the work took too much CPU time (defined in `executor`)

Errors that a broker returns to Kafka clients are `protocol.errors.ApiError`, not these.
"""

from __future__ import annotations


class MoldauError(Exception):
    """The base class of all errors that Moldau raises."""

    advice: str = ""
    """What the user can do about it, in one line."""


class UserError(MoldauError):
    """A request cannot be fulfilled; the text is one line for the user."""

    retriable: bool = False
    """Whether the same request may succeed later without a change."""
    advice = "Follow the text of the error."


class ConfigError(UserError):
    """A setting is unknown, malformed or contradicts another."""

    advice = "Correct the setting named in the text."


class ProtocolError(MoldauError):
    """A peer sent bytes that are not the protocol; the connection is closed."""


class CorruptRecords(ProtocolError):  # noqa: N818 - it names the thing, as the protocol does
    """Record bytes do not match their header."""


class BatchTooLarge(CorruptRecords):
    """A batch has more records, or more uncompressed bytes, than the broker accepts.

    The limits are RECORDS_PER_BATCH, INFLATED_BATCH_BYTES and CONVERTED_BATCH_BYTES.
    """


class StorageError(MoldauError):
    """A disk operation failed; the log directory of the path goes offline."""

    advice = "Check the disk, and the permissions of the file named in the text."

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class DiskFull(StorageError):  # noqa: N818 - it names the state of the disk
    """The disk has no room for a write; nothing was written in part."""


class FileTooLarge(StorageError):  # noqa: N818 - it names the state of the file
    """A file would exceed the size limit of the process (EFBIG, RLIMIT_FSIZE)."""


class InvariantViolated(MoldauError):  # noqa: N818 - it names the event
    """A check found a bug in Moldau."""
