"""A log as readers may see it: who is served, and how far.

    log start <= last stable offset <= high watermark <= log end

This half of a partition answers questions, and turns away whoever believes in another leader. What
changes the log, the role and the high watermark is the other half (`partition`).
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import Enum
from typing import TYPE_CHECKING, Final

from moldau.base.errors import InvariantViolated
from moldau.base.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicId,
)
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader
from moldau.replication import truncation
from moldau.replication.role import NO_ROLE
from moldau.storage.epochs import EpochEnd
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.producers import Producer
from moldau.storage.reader import ReadResult
from moldau.storage.time_search import Search
from moldau.storage.topic_config import LogConfig

if TYPE_CHECKING:
    from moldau.storage.flushing import Flusher
    from moldau.storage.log import Log


class ReadLimit(Enum):
    """Up to where a reader may read."""

    HIGH_WATERMARK = "high watermark"
    LAST_STABLE_OFFSET = "last stable offset"
    """For consumers that want committed transactions only."""
    LOG_END = "log end"
    """For followers, and for a coordinator that loads its own partition."""


_NO_ERROR: Final = ErrorCode.NONE
"""As globals, for every read: Python 3.11 looks a member of an enum up by a call."""
_TO_HIGH_WATERMARK: Final = ReadLimit.HIGH_WATERMARK
_TO_LAST_STABLE_OFFSET: Final = ReadLimit.LAST_STABLE_OFFSET


class ReadableLog:
    """The log of a partition, its role, and how far it may be read."""

    __slots__ = ("_broker_id", "high_watermark", "key", "log", "role", "topic_id")

    def __init__(self, key: PartitionKey, topic_id: TopicId, log: Log, broker_id: BrokerId) -> None:
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.role = NO_ROLE
        """Changed by `Partition.become_leader`, `become_follower` and `isr_answer` only."""
        self.high_watermark = log.log_start_offset
        self._broker_id = broker_id

    # Who is served

    @property
    def leads(self) -> bool:
        """Whether this broker is the leader."""
        return self.role.leader == self._broker_id

    def fence(self, believed_epoch: LeaderEpoch) -> ErrorCode:
        """Say why this broker may not serve a client with this belief; -1 believes nothing."""
        role = self.role
        if self.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if role.leader != self._broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if believed_epoch in (NO_LEADER_EPOCH, role.leader_epoch):
            return _NO_ERROR
        if believed_epoch < role.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    # How far

    def set_high_watermark(self, high_watermark: Offset) -> None:
        """Put the high watermark somewhere; transactions whose markers it passes become stable.

        For a follower, and for what a checkpoint says at the start. A leader moves it by `advance`.
        """
        # Not `invariant`, which would format its message for every batch of a follower.
        if high_watermark > self.log.log_end_offset:
            raise InvariantViolated(
                f"{self.key}: high watermark {high_watermark} behind the end of {self.log}"
            )
        if high_watermark < self.high_watermark and self.leads:
            raise InvariantViolated(
                f"{self.key}: high watermark {high_watermark} below {self.high_watermark} as leader"
            )
        self.high_watermark = high_watermark
        self.log.producers.high_watermark_moved(high_watermark)

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset of an undecided transaction, or the high watermark.

        Never below the log's start: DeleteRecords may have taken the beginning of a transaction.
        """
        unstable = self.log.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log.log_start_offset)

    # Reading

    def read(
        self, offset: int, max_bytes: int, limit: ReadLimit, *, at_least_one: bool = True
    ) -> ReadResult:
        """Find the bytes from the batch that holds an offset on (`Log.read`)."""
        end_offset = self.high_watermark
        if limit is not _TO_HIGH_WATERMARK:
            stable = limit is _TO_LAST_STABLE_OFFSET
            end_offset = self.last_stable_offset if stable else self.log.log_end_offset
        return self.log.read(offset, max_bytes, end_offset, at_least_one=at_least_one)

    def aborted_transactions(self, offset: int, read: ReadResult) -> tuple[AbortedTransaction, ...]:
        """List the aborted transactions with records in what `read` found from an offset on."""
        return self.log.aborted_transactions(offset, read)

    def search(self, timestamp: int | None) -> Search:
        """Find the first record that is not older than this, or the newest for None, in steps."""
        return self.log.search(timestamp)

    # Questions about the log

    @property
    def config(self) -> LogConfig:
        """What the topic's configs come to here."""
        return self.log.config

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that is served."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """The next offset to be given out."""
        return self.log.log_end_offset

    @property
    def size(self) -> int:
        """Bytes of all batches."""
        return self.log.size

    @property
    def segment_count(self) -> int:
        """How many files the batches are in."""
        return len(self.log.segments)

    def segment_starts(self, timestamp: int) -> list[int]:
        """List where segments begin that are not newer than this timestamp (`Log`)."""
        return self.log.segment_starts(timestamp)

    def next_segment_start(self, offset: int) -> int:
        """Return where the segment behind the one with this offset begins, or the end."""
        starts = [one.base_offset for one in self.log.segments if one.base_offset > offset]
        return min(starts, default=self.log.log_end_offset)

    # Epochs

    def epoch_of(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch in which an offset was written; the leader's own at the log's end."""
        at_end = offset == self.log.log_end_offset
        return self.role.leader_epoch if at_end else self.log.epochs.epoch_for(offset)

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        """Say where an epoch ends in this log (`truncation`)."""
        log = self.log
        return truncation.epoch_end(log.epochs, self.role.leader_epoch, log.log_end_offset, epoch)

    def diverging(self, last_fetched_epoch: LeaderEpoch, fetch_offset: int) -> EpochEnd | None:
        """Say where a reader's log parts from this one, if it does.

        ApiError if the reader's epoch was never this log's, or its offset lies before the start.
        """
        log = self.log
        end = truncation.diverging(
            log.epochs,
            self.role.leader_epoch,
            log.log_end_offset,
            last_fetched_epoch,
            fetch_offset,
        )
        if end is not None and (end.epoch < 0 or fetch_offset < log.log_start_offset):
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return end

    def _check_in_log(self, offset: int) -> None:
        start_offset, end_offset = self.log.log_start_offset, self.log.log_end_offset
        if not start_offset <= offset <= end_offset:
            text = f"offset {offset} is not in [{start_offset}, {end_offset}]"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)

    # Durability

    @property
    def flush_is_due(self) -> bool:
        """Whether `flush.messages` asks for a sync before what was appended is acknowledged."""
        return self.log.unflushed_count >= self.log.config.flush_messages

    def flush(self, flusher: Flusher) -> Awaitable[None]:
        """Return once all that is appended now is on the disk; StorageError if that failed."""
        return flusher.flush(self.log, self.log.log_end_offset)

    # Producers

    def producers(self) -> tuple[Producer, ...]:
        """List what the log remembers of its producers."""
        return tuple(self.log.producers)

    def marker_count(self, producer_id: int) -> int:
        """Count a producer's markers (`ProducerStates.marker_count`)."""
        return self.log.producers.marker_count(producer_id)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Tell whether the log already holds records of this very transaction."""
        producer = self.log.producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_first_offset >= 0
            and producer.epoch == producer_epoch
        )

    def expect_again(self, header: BatchHeader) -> None:
        """Note that a batch was turned away and will be sent again (`ProducerStates.expect`)."""
        self.log.producers.expect(header)
