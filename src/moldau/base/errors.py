"""The exceptions of Moldau, as one tree.

    MoldauError
    |-- UserError           what the user asked for cannot be: one line, no traceback
    |   `-- ConfigError     a setting is unknown, malformed or contradicts another
    |-- ProtocolError       bytes from a peer that are not the protocol
    |   `-- CorruptRecords  record bytes that are not what their header claims
    |       `-- BatchTooLarge  a batch with more in it than the broker works on
    |-- StorageError        the disk refused; carries the log directory, which goes offline
    |   |-- DiskFull        there is no room; nothing was changed, and writes go on once there is
    |   `-- FileTooLarge    the process may not make a file as large as that
    |-- InvariantViolated   a bug of ours: stop the partition loudly rather than go on wrong
    |-- WorkerLost          the process that computed is gone (stands in `executor`)
    `-- WorkTooLong         the work took too much CPU time (stands in `executor`)

Outcomes a Kafka client must be told about are not here: they are `protocol.errors.ApiError`.
"""

from __future__ import annotations


class MoldauError(Exception):
    """The root of everything Moldau raises on purpose."""

    advice: str = ""
    """What the user can do, in one line."""


class UserError(MoldauError):
    """What the user asked for cannot be; the text is the one line the user reads."""

    retriable: bool = False
    """Whether the same may succeed later without anybody's doing."""
    advice = "Do what the text says."


class ConfigError(UserError):
    """A setting is unknown, malformed or contradicts another."""

    advice = "Correct the setting that the text names."


class ProtocolError(MoldauError):
    """Bytes from a peer that are not the protocol; the connection ends."""


class CorruptRecords(ProtocolError):  # noqa: N818 - it names the thing, as the protocol does
    """Record bytes that are not what their header claims."""


class BatchTooLarge(CorruptRecords):
    """A batch with more records, or more bytes when inflated, than the broker works on.

    The limits are RECORDS_PER_BATCH, INFLATED_BATCH_BYTES and CONVERTED_BATCH_BYTES.
    """


class StorageError(MoldauError):
    """The disk refused; the log directory that holds the path goes offline."""

    advice = "Look at the disk, and at the permissions of the file that the text names."

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class DiskFull(StorageError):  # noqa: N818 - it names the state of the disk
    """There is no room for what was to be written; nothing is half done."""


class FileTooLarge(StorageError):  # noqa: N818 - it names the state of the file
    """A file would become larger than this process may make one (EFBIG, RLIMIT_FSIZE)."""


class InvariantViolated(MoldauError):  # noqa: N818 - it names the event
    """A bug of ours was caught in the act."""
