"""One partition on this broker: its log, its high watermark, and those who wait for it to move.

All changes happen on the event loop's thread without an await between reading state and acting
on it. Consumers read below the high watermark (below the last stable offset when they ask for
committed transactions only); the leader's high watermark is the lowest end offset over the
in-sync replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from moldau.base.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicId,
)
from moldau.protocol.errors import ErrorCode
from moldau.storage.epochs import EpochEnd

if TYPE_CHECKING:
    from moldau.storage.log import Log


class Watcher(Protocol):
    """Somebody who wants to hear that a partition has more to read."""

    def moved(self, partition: Partition) -> None:
        """The high watermark, the stable offset or the log's start has moved."""
        ...


@dataclass(slots=True, frozen=True)
class Role:
    """What the cluster's metadata says of a partition."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]


class Partition:
    """The only object request handlers touch to read or write a partition."""

    __slots__ = ("_watchers", "high_watermark", "key", "log", "role", "topic_id")

    def __init__(self, key: PartitionKey, topic_id: TopicId, log: Log, role: Role) -> None:
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.role = role
        self.high_watermark = log.log_start_offset
        # Ordered, so that who is woken first does not depend on addresses in memory.
        self._watchers: dict[Watcher, None] = {}

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset of an undecided transaction, or the high watermark.

        Never below the log's start: DeleteRecords may have taken the beginning of a transaction.
        """
        unstable = self.log.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log.log_start_offset)

    @property
    def in_sync_enough(self) -> bool:
        """Whether acks=all may be promised: more than all replicas can never be asked for."""
        wanted = min(self.log.config.min_insync_replicas, len(self.role.replicas))
        return len(self.role.isr) >= wanted

    def fence(self, believed_epoch: LeaderEpoch, broker_id: BrokerId) -> ErrorCode:
        """Say why this broker may not serve a client with this belief; -1 believes nothing."""
        role = self.role
        if self.log.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if role.leader != broker_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if believed_epoch in (NO_LEADER_EPOCH, role.leader_epoch):
            return ErrorCode.NONE
        if believed_epoch < role.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        """Say where an epoch ends; the leader's own goes on, also before its first record.

        One in which nobody wrote ends where the leader's began. That is the log's end, for the
        leader has not written either: else the log would know of a later epoch.
        """
        end, epochs = self.log.log_end_offset, self.log.epochs
        if epochs.latest < epoch < self.role.leader_epoch:
            wrote_last = epoch if epochs.latest == NO_LEADER_EPOCH else epochs.latest
            return EpochEnd(wrote_last, end)
        if epoch == self.role.leader_epoch:
            return EpochEnd(epoch, end)
        return epochs.end_offset_for(epoch, end)

    def advance(self) -> None:
        """Move the high watermark to what every in-sync replica has, and tell those who wait."""
        end = self.log.log_end_offset
        if end != self.high_watermark:
            self.high_watermark = end  # as `stand_at`, for every batch that is produced
            self.log.producers.high_watermark_moved(end)
            if self._watchers:
                self.notify()

    def stand_at(self, high_watermark: Offset) -> None:
        """Put the high watermark somewhere; transactions whose markers it passes become stable."""
        self.high_watermark = high_watermark
        self.log.producers.high_watermark_moved(high_watermark)

    def notify(self) -> None:
        """Tell every watcher that there may be more to read."""
        for watcher in tuple(self._watchers):
            watcher.moved(self)

    def watch(self, watcher: Watcher) -> None:
        """Tell this watcher of every move until `unwatch`."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Tell this watcher no more; harmless when it was not told before."""
        self._watchers.pop(watcher, None)
