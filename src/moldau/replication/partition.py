"""One partition on this broker, and the only way from handlers and coordinators to its log.

Its methods decide who may append and read, how far, and when an append counts as committed:

    append_as_leader    refused unless this broker leads and, for acks=all, enough replicas are in
                        sync; then appended, and the high watermark moves
    append_as_follower  appends batches of this epoch's leader, and follows its high watermark
    read                up to the high watermark, the last stable offset, or the log's end
    update_follower     notes the end offset of a follower; moves the high watermark
    become_leader, become_follower   take the role from the cluster's metadata
    delay               waits until an offset is committed (`delayed`)

The leader's high watermark is the lowest end offset of the in-sync replicas. It never decreases
during a leadership: clients were told that everything below is committed. It does not move while
fewer replicas are in sync than `min.insync.replicas`. With one in-sync replica it is the end of the
leader's own log. Then most of this module is not used, and an append costs one comparison.

Two epochs order the roles. The leader epoch rises with each leader; requests, fetches and appended
batches carry it, so that those of an earlier leadership are refused. The partition epoch rises with
each change, also of the ISR, so that an older role never replaces a newer one.

All changes happen on the event loop's thread, without an await between reading state and acting on
it. Code that manages files (retention, compaction, recovery, configs) uses the log directly.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from moldau.base.checks import invariant
from moldau.base.errors import StorageError
from moldau.base.files import Buffer
from moldau.base.ids import (
    NO_LEADER_EPOCH,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicId,
)
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import BatchHeader, iter_batches, parse_header
from moldau.replication.delayed import Delayed, DelayedOperations, Done
from moldau.replication.followers import Follower
from moldau.storage.append_result import AppendResult
from moldau.storage.epochs import EpochEnd
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.producers import Origin, Producer
from moldau.storage.reader import ReadResult
from moldau.storage.time_search import Search
from moldau.storage.topic_config import LogConfig

if TYPE_CHECKING:
    from moldau.storage.flushing import Flusher
    from moldau.storage.log import Log

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

_NO_ERROR: Final = ErrorCode.NONE
_CLIENT: Final = Origin.CLIENT
"""As globals, for every append: Python 3.11 looks a member of an enum up by a call."""


class Watcher(Protocol):
    """Wants to know when a partition has more to read."""

    def moved(self, partition: Partition) -> None:
        """The high watermark, the stable offset, the log's start or the leader has changed."""
        ...


class ReadLimit(Enum):
    """Up to which offset a reader may read."""

    HIGH_WATERMARK = "high watermark"
    LAST_STABLE_OFFSET = "last stable offset"
    """For consumers that read only committed transactions."""
    LOG_END = "log end"
    """For followers, and for a coordinator that loads its own partition."""


_TO_HIGH_WATERMARK: Final = ReadLimit.HIGH_WATERMARK
_TO_LAST_STABLE_OFFSET: Final = ReadLimit.LAST_STABLE_OFFSET


@dataclass(slots=True, frozen=True)
class Role:
    """The state of a partition in the cluster's metadata."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]


NO_ROLE: Final = Role(BrokerId(-1), NO_LEADER_EPOCH, -1, (), ())
"""The role of a partition that was just opened: it has no leader."""


class Partition:
    """A log, its role in the cluster, its high watermark, and the operations that wait for it."""

    __slots__ = (
        "_broker_id",
        "_delayed",
        "_followers",
        "_sync_count",
        "_watchers",
        "_writable_config",
        "commits_at_once",
        "high_watermark",
        "key",
        "log",
        "role",
        "topic_id",
    )

    def __init__(self, key: PartitionKey, topic_id: TopicId, log: Log, broker_id: BrokerId) -> None:
        """Open a partition on this broker; it serves nobody before it has a role."""
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self.role = NO_ROLE
        """Changed by `become_leader` and `become_follower` only."""
        self.high_watermark = log.log_start_offset
        self.commits_at_once = False
        """Whether this leader is the only in-sync replica: an append is committed at once then."""
        self._broker_id = broker_id
        self._writable_config: LogConfig | None = None
        """A cache: the config with which this leader had enough replicas in sync. Configs are
        immutable and a new role clears it, so one comparison per batch is enough."""
        self._followers: dict[BrokerId, Follower] = {}
        """The other replicas, while this broker leads."""
        self._delayed: DelayedOperations | None = None
        """Made for the first operation that waits; with one replica there is none."""
        self._sync_count = 0
        """Syncs that are waited for (`sync_began`)."""
        # Ordered, so that the order of wake-ups does not depend on addresses in memory.
        self._watchers: dict[Watcher, None] = {}

    # Roles

    @property
    def leads(self) -> bool:
        """Whether this broker is the leader."""
        return self.role.leader == self._broker_id

    def become_leader(self, role: Role, now_s: float) -> None:
        """Become the leader, or stay the leader with another epoch, other replicas or another ISR.

        The high watermark stays: a follower only knows a high watermark that the leader had, so
        everything below is committed. It moves when the in-sync followers have fetched from this
        leader. `now_s` is monotonic.
        """
        if role.partition_epoch < self.role.partition_epoch:
            return  # a newer role came first
        invariant(role.leader == self._broker_id, f"{self.key}: {role} has another leader")
        invariant(set(role.isr) <= set(role.replicas), f"{self.key}: {role} is in sync with others")
        # The end offsets of an earlier epoch do not count: a leader in between, which this broker
        # may not know of, may have truncated the followers (KAFKA-7164).
        known = self._followers if role.leader_epoch == self.role.leader_epoch else {}
        self._followers = {
            one: known.get(one) or Follower(now_s)
            for one in role.replicas
            if one != self._broker_id
        }
        self._take_role(role)

    def become_follower(self, role: Role) -> None:
        """Follow another leader, or wait for one; fail the operations that wait for a commit."""
        if role.partition_epoch < self.role.partition_epoch:
            return
        invariant(role.leader != self._broker_id, f"{self.key}: {role} names this broker")
        self._followers = {}
        self._take_role(role)

    def _take_role(self, role: Role) -> None:
        # With an older epoch this broker would serve a leadership that is over.
        old = self.role
        invariant(role.leader_epoch >= old.leader_epoch, f"{self.key}: {role} after {old}")
        self.role = role
        self.commits_at_once = self.leads and role.isr == (self._broker_id,)
        self._writable_config = None
        is_enough = self._is_writable()
        self.advance()
        if self._delayed is not None:
            if not self.leads:
                # The new leader may truncate the batches that wait. Producers retry with it.
                self._delayed.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif not is_enough:
                # The high watermark does not move from now on. Clients need not wait for their
                # timeout.
                self._delayed.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        if old.leader_epoch != role.leader_epoch or old.leader != role.leader:
            self.notify()  # fences readers with the old epoch

    def retire(self) -> None:
        """Stop serving: the partition was removed from this broker."""
        if self._delayed is not None:
            self._delayed.fail_all(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.notify()

    def fence(self, believed_epoch: LeaderEpoch) -> ErrorCode:
        """Return the error for a client that knows this leader epoch; -1 if it knows none.

        A client with an older epoch must refresh its metadata. A client with a newer one knows a
        leader that this broker has not heard of yet, and must not be answered from this log.
        """
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

    # Appending

    def check_writable(self, acks: int) -> None:
        """Raise ApiError if a write with these acks is refused now."""
        if self.log.config is self._writable_config and not self.log.offline:
            return
        fence = self.fence(NO_LEADER_EPOCH)
        if fence is not _NO_ERROR:
            raise ApiError(fence)
        if not self._is_writable() and acks == ACKS_ALL:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.key} has {len(self.role.isr)} in-sync replica(s), "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )

    def _is_writable(self) -> bool:
        """Tell whether this broker leads with enough replicas in sync; cache a positive answer."""
        config = self.log.config
        if config is not self._writable_config:
            # A minimum above the number of replicas could never be reached.
            wanted = min(config.min_insync_replicas, len(self.role.replicas))
            is_enough = self.leads and len(self.role.isr) >= wanted
            self._writable_config = config if is_enough else None
        return self._writable_config is not None

    def append_as_leader(
        self, batch: Buffer, header: BatchHeader, acks: int, origin: Origin = _CLIENT
    ) -> AppendResult:
        """Append one validated batch; ApiError, with nothing appended, if it is refused.

        The batch is committed when the high watermark has passed its last offset. If not
        `commits_at_once`, use `delay` to wait for that.
        """
        log = self.log
        if log.config is not self._writable_config or log.offline:
            self.check_writable(acks)
        appended = log.append(batch, header, self.role.leader_epoch, origin)
        self.advance()
        return appended

    def append_marker(
        self, batch: Buffer, header: BatchHeader, transaction_version: int
    ) -> AppendResult:
        """Append the marker that ends a producer's transaction here, with acks=all."""
        self.check_writable(ACKS_ALL)
        try:
            appended = self.log.append_marker(
                batch, header, self.role.leader_epoch, transaction_version
            )
        except StorageError:
            # The log may have truncated the marker and loaded its producer state again. That does
            # not know the high watermark, and would treat ended transactions as unstable.
            self.log.producers.high_watermark_moved(self.high_watermark)
            raise
        self.advance()
        return appended

    def append_checked(self, checked: bytes, timestamp: int) -> Offset:
        """Append a batch of one record with acks=all; return the log's new end.

        `checked` is the part of the batch that its checksum covers. The fast path of coordinators.
        """
        log = self.log
        if log.config is not self._writable_config or log.offline:
            self.check_writable(ACKS_ALL)
        log.append_checked(checked, timestamp, self.role.leader_epoch)
        self.advance()
        return log.log_end_offset

    def append_as_follower(
        self,
        batches: Buffer,
        leader_epoch: LeaderEpoch,
        leader_high_watermark: int,
        leader_log_start: int,
    ) -> int:
        """Append the batches of a fetch that was sent in this leader epoch; return the size.

        ApiError if the role has changed since the fetch. The high watermark follows the leader's.
        It may go back under a new leader, which knows less at first.
        """
        # The answer of an earlier leader must not be appended: the new one may have truncated it.
        if self.leads or leader_epoch != self.role.leader_epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        size = log.append_as_follower(_up_to_epoch(batches, leader_epoch))
        end_offset = log.log_end_offset
        self.set_high_watermark(
            Offset(min(max(leader_high_watermark, log.log_start_offset), end_offset))
        )
        log.delete_records_before(min(leader_log_start, self.high_watermark))
        return size

    @property
    def flush_is_due(self) -> bool:
        """Whether `flush.messages` asks for a sync before what was appended is acknowledged."""
        return self.log.unflushed_count >= self.log.config.flush_messages

    def flush(self, flusher: Flusher) -> Awaitable[None]:
        """Return once everything appended so far is on the disk; StorageError if that failed."""
        return flusher.flush(self.log, self.log.log_end_offset)

    # The high watermark

    def update_follower(
        self, broker_id: BrokerId, fetch_offset: int, leader_epoch: LeaderEpoch, now_s: float
    ) -> None:
        """Note that a follower fetches from an offset, so it has everything below.

        ApiError, with nothing noted, if it is no replica, has another leader epoch, or fetches from
        outside of this log.
        """
        # The epoch is checked first: a follower of another leader may have other records below
        # this offset, and must not make ours count as replicated.
        error = self.fence(leader_epoch)
        if error is not _NO_ERROR:
            raise ApiError(error)
        follower = self._followers.get(broker_id)
        if follower is None:
            # It may know a newer assignment than this broker; without an epoch we cannot tell.
            unknown = leader_epoch != NO_LEADER_EPOCH
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if unknown else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        start_offset, end_offset = self.log.log_start_offset, self.log.log_end_offset
        if not start_offset <= fetch_offset <= end_offset:
            text = f"offset {fetch_offset} is not in [{start_offset}, {end_offset}]"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        follower.fetched(fetch_offset, end_offset, now_s)
        self.advance()

    def advance(self) -> None:
        """Move the high watermark to the lowest end of the in-sync replicas; wake waiters."""
        log = self.log
        if self.commits_at_once and log.config is self._writable_config:
            committed = log.log_end_offset
        else:
            committed = self._replicated_offset()
        if committed > self.high_watermark:
            self.high_watermark = committed  # as `set_high_watermark`, for every batch
            log.producers.high_watermark_moved(committed)
            if self._delayed is not None:
                self._delayed.complete(self.committed_offset)
            if self._watchers:
                self.notify()

    def _replicated_offset(self) -> Offset:
        """Return the lowest end offset of the in-sync replicas.

        With too few of them the high watermark does not move: they could lose records that were
        called committed (KAFKA-15583).
        """
        if not self._is_writable():
            return self.high_watermark
        end: int = self.log.log_end_offset
        for broker_id in self.role.isr:
            follower = self._followers.get(broker_id)
            if follower is not None and follower.end_offset < end:
                end = follower.end_offset
        return Offset(end)

    def set_high_watermark(self, high_watermark: Offset) -> None:
        """Set the high watermark; transactions whose markers it passes become stable.

        For a follower, and for the checkpoint at the start. A leader moves it with `advance`.
        """
        invariant(
            high_watermark <= self.log.log_end_offset,
            f"{self.key}: high watermark {high_watermark} behind the end of {self.log}",
        )
        # Clients were told that everything below the old one is committed.
        invariant(
            high_watermark >= self.high_watermark or not self.leads,
            f"{self.key}: high watermark {high_watermark} below {self.high_watermark} as leader",
        )
        self.high_watermark = high_watermark
        self.log.producers.high_watermark_moved(high_watermark)

    @property
    def last_stable_offset(self) -> Offset:
        """The first offset of an open transaction, or the high watermark.

        Never below the log's start: DeleteRecords may have removed the start of a transaction.
        """
        unstable = self.log.first_unstable_offset
        if unstable is None or unstable > self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log.log_start_offset)

    # Waiting for a commit

    @property
    def committed_offset(self) -> int:
        """Everything below may be acknowledged with acks=all: the high watermark.

        While a sync is waited for (`sync_began`), it is at most what is on this broker's disk.
        """
        if self._sync_count:
            return min(self.high_watermark, self.log.recovery_point)
        return self.high_watermark

    def delay(self, offset: int, done: Done, timeout_s: float | None = None) -> Delayed:
        """Call `done` when everything below an offset is committed, or with an error.

        Only for an offset of this log that is not committed yet: check `committed_offset` first.
        """
        invariant(self.leads, f"{self.key}: only a leader knows what is committed")
        invariant(offset <= self.log.log_end_offset, f"{self.key}: nobody has appended {offset}")
        # Without another append it would wait for ever: only a move completes operations.
        invariant(offset > self.committed_offset, f"{self.key}: {offset} is committed already")
        if self._delayed is None:
            self._delayed = DelayedOperations()
        return self._delayed.add(offset, done, timeout_s)

    def sync_began(self) -> None:
        """From now until `sync_ended`, commits also wait until the disk has the records."""
        self._sync_count += 1

    def sync_ended(self) -> None:
        """Complete the operations that only waited for the disk."""
        self._sync_count -= 1
        invariant(self._sync_count >= 0, f"{self.key}: a sync that never began has ended")
        if self._delayed is not None:
            self._delayed.complete(self.committed_offset)

    # Watching

    def notify(self) -> None:
        """Call every watcher: there may be more to read."""
        for watcher in tuple(self._watchers):
            watcher.moved(self)

    def watch(self, watcher: Watcher) -> None:
        """Call this watcher after every move, until `unwatch`."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Stop calling this watcher; does nothing if it does not watch."""
        self._watchers.pop(watcher, None)

    # Reading

    def read(
        self, offset: int, max_bytes: int, limit: ReadLimit, *, at_least_one: bool = True
    ) -> ReadResult:
        """Find the bytes from an offset up to a limit (`Log.read`)."""
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

    # The log

    @property
    def config(self) -> LogConfig:
        """The configs of the topic, with the broker's defaults."""
        return self.log.config

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that is served."""
        return self.log.log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets."""
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
        """Return the start of the segment after the one with this offset, or the log's end."""
        starts = [one.base_offset for one in self.log.segments if one.base_offset > offset]
        return min(starts, default=self.log.log_end_offset)

    def epoch_of(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch of an offset; at the log's end, that of the role."""
        at_end = offset == self.log.log_end_offset
        return self.role.leader_epoch if at_end else self.log.epochs.epoch_for(offset)

    def epoch_end(self, epoch: LeaderEpoch) -> EpochEnd:
        """Return where an epoch ends; the leader's own epoch ends at the log's end.

        An epoch without records ends where the leader's epoch began. That is the log's end, because
        the leader has written nothing either: otherwise the log would know a later epoch.
        """
        end, epochs = self.log.log_end_offset, self.log.epochs
        if epochs.latest < epoch < self.role.leader_epoch:
            wrote_last = epoch if epochs.latest == NO_LEADER_EPOCH else epochs.latest
            return EpochEnd(wrote_last, end)
        if epoch == self.role.leader_epoch:
            return EpochEnd(epoch, end)
        return epochs.end_offset_for(epoch, end)

    # Changes that an operator asks for

    def delete_records(self, offset: int) -> Offset:
        """Move the log's start up to an offset, and wake readers; return the start."""
        if not self.log.config.deletes:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        # A record above the high watermark may still be lost, and its offset used again.
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(offset)
        self.notify()
        return self.log.log_start_offset

    def update_config(self, config: LogConfig) -> None:
        """Use new topic configs; with another `min.insync.replicas` more may be committed."""
        self.log.update_config(config)
        if self.leads:
            is_enough = self._is_writable()
            self.advance()
            if self._delayed is not None and not is_enough:
                self._delayed.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    # Producers

    def producers(self) -> tuple[Producer, ...]:
        """List the producers of the log."""
        return tuple(self.log.producers)

    def marker_count(self, producer_id: int) -> int:
        """Count a producer's markers (`ProducerStates.marker_count`)."""
        return self.log.producers.marker_count(producer_id)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Tell whether the log has records of the open transaction of this producer epoch."""
        producer = self.log.producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_first_offset >= 0
            and producer.epoch == producer_epoch
        )

    def expect_again(self, header: BatchHeader) -> None:
        """Note that a batch was refused and will be sent again (`ProducerStates.expect`)."""
        self.log.producers.expect(header)


def _up_to_epoch(batches: Buffer, leader_epoch: LeaderEpoch) -> memoryview:
    """Drop the first batch with a later epoch than the fetch, and everything after it.

    The leader may have changed while it answered. Before it appends batches of a later epoch, this
    follower must truncate its log (KAFKA-18723).
    """
    view = memoryview(batches)
    for batch in iter_batches(view, allow_cut=True):
        if parse_header(view, batch.position).leader_epoch > leader_epoch:
            return view[: batch.position]
    return view
