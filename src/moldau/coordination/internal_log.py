"""The port to the partition of an internal topic that holds the state of a shard.

`server.lifecycle.internal_partitions` implements it. A host uses a partition to append, to read
everything once, and to wait until an append is committed. The host does not see what a commit
takes: followers, a sync of the disk, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from moldau.protocol.errors import ErrorCode
from moldau.records.batch import BatchHeader


class CommitWait(Protocol):
    """A pending wait for the commit of an offset."""

    def cancel(self) -> None:
        """Stop waiting; does nothing when the wait is over."""
        ...


class InternalLog(Protocol):
    """One partition of an internal topic, led by this broker in one leader epoch.

    The epoch never changes. If this broker leads again in another epoch, there is a new
    `InternalLog`, and this one must refuse every append: a host that has not yet ended would
    otherwise write records that were decided on the state of an old epoch.
    """

    @property
    def index(self) -> int:
        """The number of the partition in its topic."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this broker leads."""
        ...

    @property
    def log_start_offset(self) -> int:
        """The first offset in the log."""
        ...

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        ...

    @property
    def committed_offset(self) -> int:
        """Everything below survives a change of the leader, and may be told to clients."""
        ...

    def append(self, batch: bytes, header: BatchHeader) -> None:
        """Append one batch, given with its header; ApiError, with nothing appended, if refused."""
        ...

    def append_committed(self, checked: bytes, timestamp: int) -> int | None:
        """Append one record if it is committed as soon as it is appended; return the end offset.

        `checked` is the part of the batch that its checksum covers. Returns None, with nothing
        appended, if the commit would take time or the append is refused: use `append` then.
        """
        ...

    async def read(self, offset: int, max_bytes: int) -> bytes:
        """Read batches, from the one that holds an offset, without blocking the event loop.

        The first batch is whole, the last one may be cut off. Returns no bytes if there is no batch
        up to the end. Raises ApiError, StorageError or CorruptRecords if the read fails.
        """
        ...

    def next_start(self, offset: int) -> int:
        """Return the offset at which reading may continue after a damaged batch.

        That is the start of the next segment, or the end of the log. It is larger than `offset`, as
        long as that is below the end.
        """
        ...

    def delay(
        self, offset: int, done: Callable[[ErrorCode], None], timeout_s: float | None = None
    ) -> CommitWait:
        """Call `done` with NONE once everything below an offset is committed, or with an error.

        Only for an offset that is not committed yet. REQUEST_TIMED_OUT and
        NOT_ENOUGH_REPLICAS_AFTER_APPEND come only with a timeout. All other errors mean that this
        broker no longer leads the partition, or that the partition is deleted.
        """
        ...
