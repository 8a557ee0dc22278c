"""The port to the partition of an internal topic that a shard lives on.

`server.lifecycle.internal_partitions` puts a partition behind it. A shard needs little of one:
to append, to read everything once, and to hear when what was appended is committed. Whether that
takes a follower, a sync of the disk or nothing at all is not seen from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moldau.protocol.errors import ErrorCode
from moldau.records.batch import BatchHeader


class CommitWait(Protocol):
    """Somebody who waits until an offset is committed."""

    def cancel(self) -> None:
        """Wait no more; harmless when the wait is over."""
        ...


class InternalLog(Protocol):
    """One partition of an internal topic, led by this broker in one leader epoch."""

    @property
    def index(self) -> int:
        """The number of the partition in its topic."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this broker leads; another one is another `InternalLog`."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset there is."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        ...

    @property
    def committed_offset(self) -> int:
        """Everything below will be there, whoever leads: the high watermark."""
        ...

    def append(self, batch: bytes, header: BatchHeader) -> None:
        """Append one batch, its header given with it; ApiError, nothing appended, if it cannot."""
        ...

    def append_committed(self, checked: bytes, timestamp: int) -> int | None:
        """Append one record that is committed as soon as it is appended; return the end offset.

        It comes as what the checksum of its batch covers. None, with nothing appended, where it
        would have to wait, or cannot be appended: `append` tells.
        """
        ...

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Read batches from the one that holds an offset on, without holding up the loop.

        The first comes whole, the last may be cut. Nothing if there is nothing up to the end.
        ApiError, StorageError or CorruptRecords if it cannot be read.
        """
        ...

    def next_start(self, offset: int) -> int:
        """Return where reading may go on if what lies at an offset cannot be walked through.

        That is where the next file begins, or the end of the log.
        """
        ...

    def delay(
        self, offset: int, done: Callable[[ErrorCode], None], timeout_s: float | None = None
    ) -> CommitWait:
        """Call `done` with NONE once everything below an offset is committed, or with an error.

        For an offset that is not committed yet. REQUEST_TIMED_OUT when the time is up, and
        NOT_ENOUGH_REPLICAS_AFTER_APPEND, come only with a timeout. An error that says that this
        broker no longer leads may come without one.
        """
        ...
