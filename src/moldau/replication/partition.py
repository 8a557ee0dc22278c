"""One partition on this broker, and the only way from handlers and coordinators to its log.

Its verbs decide who may append and read, how far, and when an append counts as committed:

    append_as_leader    refused unless this broker leads and, for acks=all, enough replicas are in
                        sync; then appended, and the high watermark moves
    append_as_follower, truncate_to, restart_at   bring a follower's log in line with its leader's
                        (`follower_log`)
    read                up to the high watermark, the last stable offset, or the log's end
    diverging           tells a follower where its log parts from the leader's
    update_follower     notes how far a follower is; moves the high watermark, proposes it for the
                        ISR
    note_level          notes that a follower had everything at a fetch that did not name the
                        partition
    shrink_isr, isr_answer   propose the ISR without those that lag, and take the answer
    become_leader, become_follower   take over what the cluster's metadata says
    delay               waits until an offset is committed (`delayed`)
    delay_deletion      waits until every live replica has deleted the records before an offset

What the verbs decide stands in `rules` and `truncation`, as pure functions; what a leader knows of
its replicas in `leader_state`. With one replica none of that exists: the high watermark is the end
of the log, at once, and an append costs one comparison more than the log's own.

All changes happen on the event loop's thread without an await between reading state and acting
on it. What manages files (retention, compaction, recovery, configs) has the log itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.base.checks import invariant
from moldau.base.errors import InvariantViolated, StorageError
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
from moldau.records.batch import BatchHeader
from moldau.replication import rules
from moldau.replication.delayed import Delayed, DelayedOperations, Done
from moldau.replication.follower_log import FollowerLog
from moldau.replication.followers import NO_BROKER_EPOCH, UNKNOWN_END
from moldau.replication.leader_state import IsrProposal, LeaderState, begins_anew
from moldau.replication.ports import ALONE, ReplicationPorts
from moldau.replication.readable_log import ReadLimit
from moldau.replication.role import NO_ROLE, Role
from moldau.replication.watched_log import Watcher
from moldau.storage.append_result import AppendResult
from moldau.storage.producers import Origin
from moldau.storage.topic_config import LogConfig

if TYPE_CHECKING:
    from moldau.storage.log import Log

__all__ = [
    "ACKS_ALL",
    "ACKS_LEADER",
    "ACKS_NONE",
    "NO_ROLE",
    "Partition",
    "ReadLimit",
    "Role",
    "Watcher",
]

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

_NO_ERROR: Final = ErrorCode.NONE
_CLIENT: Final = Origin.CLIENT
"""As globals, for every append: Python 3.11 looks a member of an enum up by a call."""


class Partition(FollowerLog):
    """A log, its role in the cluster, its high watermark, and those who wait for it to move."""

    __slots__ = (
        "_delayed",
        "_deletions",
        "_leading",
        "_ports",
        "_sync_count",
        "_writable_config",
        "commits_at_once",
    )

    def __init__(
        self,
        key: PartitionKey,
        topic_id: TopicId,
        log: Log,
        broker_id: BrokerId,
        ports: ReplicationPorts = ALONE,
    ) -> None:
        """Open a partition on this broker; it serves nobody before it has a role."""
        super().__init__(key, topic_id, log, broker_id)
        self.commits_at_once = False
        """Whether this leader is the only in-sync replica, and none is about to join it: an append
        waits for nobody then. A follower that has fetched ends that until it lags."""
        self._ports = ports
        self._writable_config: LogConfig | None = None
        """The config with which this leader was last found to have enough replicas in sync. Roles
        and configs are values, so that one comparison tells for each batch that it still is so."""
        self._leading: LeaderState | None = None
        """What is known of the other replicas, while this broker leads and there are others."""
        self._delayed: DelayedOperations | None = None
        """Made when the first operation waits: on one replica none ever does."""
        self._deletions: DelayedOperations | None = None
        """Deletions of records that other replicas have not followed yet; made as `_delayed`."""
        self._sync_count = 0

    # Roles

    def become_leader(self, role: Role, now_s: float) -> None:
        """Lead from now on, or go on leading with another epoch, other replicas or another ISR.

        The high watermark stays where it is: what a follower has heard of is committed. It moves
        when the in-sync followers have fetched from this leader. `now_s` is monotonic.
        """
        if role.partition_epoch < self.role.partition_epoch:
            return  # It was overtaken by a newer one.
        invariant(role.leader == self._broker_id, f"{self.key}: {role} has another leader")
        invariant(set(role.isr) <= set(role.replicas), f"{self.key}: {role} is in sync with others")
        leading = self._leading
        if len(role.replicas) == 1:
            self._leading = None
        elif leading is None or begins_anew(leading, role):
            end_offset = self.log.log_end_offset
            self._leading = LeaderState(self._broker_id, role, end_offset, now_s)
        else:
            self._take_isr(leading, role, now_s)
            self.expand_isr(now_s)
            return
        self._take_role(role)

    def become_follower(self, role: Role) -> None:
        """Follow another leader, or wait for one; fail what waits for a commit here."""
        if role.partition_epoch < self.role.partition_epoch:
            return
        invariant(role.leader != self._broker_id, f"{self.key}: {role} names this broker")
        self._leading = None
        self._take_role(role)

    def _take_role(self, role: Role) -> None:
        # With an older epoch this broker would serve a leadership that is over.
        old = self.role
        invariant(role.leader_epoch >= old.leader_epoch, f"{self.key}: {role} after {old}")
        self.role = role
        self._look_who_counts()
        self._writable_config = None
        is_enough = self._is_writable()
        self.advance()
        if self._delayed is not None:
            if not self.leads:
                # Another leader may have truncated the batches that wait. Their producers ask it.
                self._delayed.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif not is_enough:
                # The high watermark stands from now on. A client should know before its time-out.
                self._delayed.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self._look_at_deletions()
        if old.leader_epoch != role.leader_epoch or old.leader != role.leader:
            self.notify()  # readers with the old epoch are fenced

    def _look_who_counts(self) -> None:
        """Find out whether an append waits for another replica."""
        leading = self._leading
        self.commits_at_once = self.leads and (
            leading is None
            or rules.is_alone(leading, self.log.log_end_offset, self._ports.max_lag_s)
        )

    def retire(self, code: ErrorCode) -> None:
        """Serve nobody any more, and fail what waits with an error.

        The partition is gone from this broker, or its log directory has failed.
        """
        for waiting in (self._delayed, self._deletions):
            if waiting is not None:
                waiting.fail_all(code)
        self.notify()

    # Appending

    def check_writable(self, acks: int) -> None:
        """Raise the ApiError that a write with these acks gets now."""
        if self.log.config is self._writable_config and not self.log.offline:
            return
        fence = self.fence(NO_LEADER_EPOCH)
        if fence is not _NO_ERROR:
            raise ApiError(fence)
        if self.log.is_truncating:
            # Elected while its files are cut. It will be over soon, and producers try again.
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{self.key} is being truncated")
        if not self._is_writable() and acks == ACKS_ALL:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.key} has {len(self.role.isr)} in-sync replica(s), "
                f"min.insync.replicas is {self.log.config.min_insync_replicas}",
            )

    def _is_writable(self) -> bool:
        """Tell whether this broker leads with enough replicas in sync, and remember a yes."""
        config = self.log.config
        if config is not self._writable_config:
            role = self.role
            is_enough = (
                self.leads
                and not self.log.is_truncating
                and rules.has_enough_in_sync(
                    len(role.isr), len(role.replicas), config.min_insync_replicas
                )
            )
            self._writable_config = config if is_enough else None
        return self._writable_config is not None

    def append_as_leader(
        self, batch: Buffer, header: BatchHeader, acks: int, origin: Origin = _CLIENT
    ) -> AppendResult:
        """Append one batch that was examined; ApiError, with nothing appended, if it may not be.

        It is committed when the high watermark is past its last offset: at once where
        `commits_at_once`, else `delay` waits for it.
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
            # The log may have cut the marker off again and read its producers anew. Those do not
            # know how far the high watermark is, and would call ended transactions unstable.
            self.log.producers.high_watermark_moved(self.high_watermark)
            raise
        self.advance()
        return appended

    def append_checked(self, checked: bytes, timestamp: int) -> Offset:
        """Append a batch of one record, given as what its checksum covers, with acks=all.

        The short form of `append_as_leader`, for coordinators; returns the log's new end.
        """
        log = self.log
        if log.config is not self._writable_config or log.offline:
            self.check_writable(ACKS_ALL)
        log.append_checked(checked, timestamp, self.role.leader_epoch)
        self.advance()
        return log.log_end_offset

    def truncation_ended(self) -> None:
        """Take appends from now on if this broker was elected while its log was cut."""
        if self.leads:
            self.advance()

    # Followers and the ISR

    def update_follower(
        self,
        broker_id: BrokerId,
        fetch_offset: int,
        leader_epoch: LeaderEpoch,
        now_s: float,
        *,
        log_start_offset: int = UNKNOWN_END,
        broker_epoch: int = NO_BROKER_EPOCH,
    ) -> None:
        """Note that a follower fetches from an offset: it has everything below.

        For a fetch whose log does not part from this one: look at `diverging` first. ApiError, with
        nothing noted, if it is no replica, believes in another epoch, is from an earlier life of
        its broker, or asks for what this log does not have.
        """
        error = self.fence(leader_epoch)
        if error is not _NO_ERROR:
            raise ApiError(error)
        leading, live = self._leading, self._ports.live_brokers
        follower = None if leading is None else leading.followers.get(broker_id)
        if leading is None or follower is None:
            # It may know of a newer assignment than we do; without an epoch nobody can tell.
            unknown = leader_epoch != NO_LEADER_EPOCH
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if unknown else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        if rules.is_outlived(broker_epoch, live, broker_id):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        end_offset = self.log.log_end_offset
        self._check_in_log(fetch_offset)
        old_start_offset = follower.log_start_offset
        follower.fetched(fetch_offset, end_offset, now_s, log_start_offset, broker_epoch)
        leading.now_s = now_s
        self.commits_at_once = False  # It may join, and the high watermark waits for that.
        isr = rules.expanded_isr(leading, follower, self.high_watermark, live)
        if isr is not None:
            self._propose(leading, isr)
        self.advance()
        if log_start_offset != old_start_offset:
            self._look_at_deletions()

    def note_level(self, broker_id: BrokerId, at_s: float) -> None:
        """Note that a follower had everything at a time.

        The fetches of a session pass a quiet partition by. Its followers would seem to lag from
        the last fetch that named it, and leave the ISR with the first append after a while.
        """
        follower = None if self._leading is None else self._leading.followers.get(broker_id)
        if follower is not None and follower.has_fetched:
            follower.was_level(at_s)
            self.commits_at_once = False  # as after a fetch

    def shrink_isr(self, now_s: float) -> None:
        """Propose the ISR without those that lag; called every half `replica.lag.time.max.ms`."""
        leading = self._leading
        if leading is None or self.log.offline:
            return
        leading.now_s = now_s
        end_offset, max_lag_s = self.log.log_end_offset, self._ports.max_lag_s
        isr = rules.shrunk_isr(leading, end_offset, now_s, max_lag_s)
        if isr is not None:
            self._propose(leading, isr)
        self.expand_isr(now_s)
        self._look_who_counts()
        self.advance()  # One that was about to join may have lagged for too long by now.
        self._look_at_deletions()  # A broker that was waited for may be fenced by now.

    def expand_isr(self, now_s: float) -> None:
        """Propose a follower that is level and could not join when it fetched.

        Its broker was fenced then, or another proposal was pending. A follower of a quiet partition
        says nothing that would bring it up again: its fetch session tells only what has changed.
        """
        leading = self._leading
        if leading is None or leading.pending is not None or self.log.offline:
            return
        live, max_lag_s = self._ports.live_brokers, self._ports.max_lag_s
        for follower in leading.outside:
            if rules.is_caught_up(follower, self.log.log_end_offset, now_s, max_lag_s):
                isr = rules.expanded_isr(leading, follower, self.high_watermark, live)
                if isr is not None:
                    self._propose(leading, isr)
                    return

    def _propose(self, leading: LeaderState, isr: tuple[BrokerId, ...]) -> None:
        self._ports.isr_changes.propose(self, leading.propose(isr))

    @property
    def is_offline(self) -> bool:
        """Whether its log directory has failed."""
        return self.log.offline

    @property
    def pending_isr(self) -> IsrProposal | None:
        """The ISR that this leader has proposed and that has no answer yet."""
        return None if self._leading is None else self._leading.pending

    def isr_answer(
        self,
        proposal: IsrProposal,
        error: ErrorCode,
        *,
        leader_epoch: int = NO_LEADER_EPOCH,
        partition_epoch: int = -1,
        isr: tuple[BrokerId, ...] = (),
        recovering: bool = False,
    ) -> None:
        """Take the controller's answer to a proposal; one that was replaced meanwhile is passed by.

        Without an error the rest says what the controller has committed.
        """
        leading = self._leading
        if leading is None:
            return
        ports = self._ports
        effect = rules.effect_of_answer(leading, proposal, error, leader_epoch, partition_epoch)
        if effect is rules.AnswerEffect.COMMIT:
            is_changed = partition_epoch != leading.partition_epoch
            if not is_changed:
                leading.revert()  # Nothing had to be changed.
            old = self.role
            told = (partition_epoch, old.replicas, isr, recovering)
            self._take_isr(leading, Role(old.leader, old.leader_epoch, *told), leading.now_s)
            if is_changed:
                self.expand_isr(leading.now_s)
        elif effect is not rules.AnswerEffect.IGNORE:
            ports.counts.failures += 1
        if effect is rules.AnswerEffect.REVERT:
            leading.revert()
            if error is ErrorCode.INELIGIBLE_REPLICA:
                leading.forget_level(proposal.isr)
            self.advance()
        elif effect is rules.AnswerEffect.RESEND:
            ports.isr_changes.propose(self, proposal)

    def _take_isr(self, leading: LeaderState, role: Role, now_s: float) -> None:
        """Go on leading with what the controller has committed, as answered or as metadata."""
        if leading.pending is not None:
            self._ports.counts.changed(len(leading.isr), len(role.isr))
        leading.follow(role, now_s)
        self._take_role(role)

    @property
    def low_watermark(self) -> int:
        """The highest log start that every live replica has reached; -1 if one has told nothing.

        DeleteRecords is answered when it has reached the offset that was asked for.
        """
        lowest: int = self.log.log_start_offset
        if self._leading is not None:
            live = self._ports.live_brokers
            for one in self._leading.followers.values():
                if one.log_start_offset < lowest and live.is_eligible(one.broker_id):
                    lowest = one.log_start_offset
        return lowest

    # The high watermark

    def advance(self) -> None:
        """Move the high watermark to what every in-sync replica has, and tell those who wait."""
        log = self.log
        if self.commits_at_once and log.config is self._writable_config:
            committed = log.log_end_offset
        else:
            committed = self._replicated_offset()
            if self._end_watchers and self._told_end != log.log_end_offset:
                self.notify_followers()
        if committed > self.high_watermark:
            self.high_watermark = committed  # as `set_high_watermark`, for every batch
            log.producers.high_watermark_moved(committed)
            if self._delayed is not None:
                self._delayed.complete(self.committed_offset)
            if self._watchers:
                self.notify_readers()

    def _replicated_offset(self) -> Offset:
        leading = self._leading
        if leading is None:
            return self.log.log_end_offset if self._is_writable() else self.high_watermark
        return Offset(
            rules.next_high_watermark(
                leading,
                self.high_watermark,
                self.log.log_end_offset,
                self.log.config.min_insync_replicas,
                self._ports.live_brokers,
                self._ports.max_lag_s,
            )
        )

    @property
    def is_latest_offset_known(self) -> bool:
        """Whether this leader may say where the partition ends; if not, OFFSET_NOT_AVAILABLE."""
        leading = self._leading
        return leading is None or rules.is_latest_offset_known(leading, self.high_watermark)

    # Waiting for a commit

    @property
    def committed_offset(self) -> int:
        """Everything below may be acknowledged with acks=all.

        That is the high watermark. While a sync is waited for (`sync_began`), it is only what is
        also on this broker's disk.
        """
        if self._sync_count:
            return min(self.high_watermark, self.log.recovery_point)
        return self.high_watermark

    def delay(self, offset: int, done: Done, timeout_s: float | None = None) -> Delayed:
        """Call `done` when everything below an offset is committed, or is not waited for any more.

        For an offset of this log that is not committed yet: look at `committed_offset` first.
        """
        # Not `invariant`, which would format its messages for every batch.
        if not self.leads:
            raise InvariantViolated(f"{self.key}: only a leader knows what is committed")
        if offset > self.log.log_end_offset:
            raise InvariantViolated(f"{self.key}: nobody has appended {offset}")
        if offset <= self.committed_offset:
            raise InvariantViolated(f"{self.key}: {offset} is committed already")
        if self._delayed is None:
            self._delayed = DelayedOperations()
        return self._delayed.add(offset, done, timeout_s)

    @property
    def delayed_count(self) -> int:
        """How many operations wait for a commit. Another thread may ask."""
        return len(self._delayed or ())

    @property
    def delayed_deletion_count(self) -> int:
        """How many deletions wait for other replicas. Another thread may ask."""
        return len(self._deletions or ())

    def sync_began(self) -> None:
        """Hold back what waits for a commit until `sync_ended`, as far as the disk has it not."""
        self._sync_count += 1

    def sync_ended(self) -> None:
        """Let go what waited for the disk alone."""
        self._sync_count -= 1
        invariant(self._sync_count >= 0, f"{self.key}: a sync that never began has ended")
        if self._delayed is not None:
            self._delayed.complete(self.committed_offset)

    # Changes that an operator asks for

    def delete_records(self, offset: int) -> Offset:
        """Move the log's start up to an offset, and tell readers; return the start."""
        if not self.log.config.deletes:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        # Behind the high watermark a record may still be lost, and its offset given out again.
        if not 0 <= offset <= self.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self.log.delete_records_before(offset)
        self.notify()
        return self.log.log_start_offset

    def delay_deletion(self, offset: int, done: Done, timeout_s: float) -> Delayed:
        """Call `done` when every live replica has deleted the records before an offset, or fails.

        For an offset that this log starts at, or behind: look at `low_watermark` first.
        """
        invariant(self.leads, f"{self.key}: only a leader knows what others have deleted")
        invariant(offset > self.low_watermark, f"{self.key}: {offset} is reached already")
        if self._deletions is None:
            self._deletions = DelayedOperations()
        return self._deletions.add(offset, done, timeout_s)

    def _look_at_deletions(self) -> None:
        if not self._deletions:
            return
        if self.leads:
            self._deletions.complete(self.low_watermark)
        else:
            self._deletions.fail_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def update_config(self, config: LogConfig) -> None:
        """Follow new topic configs; with another `min.insync.replicas` more may be committed."""
        self.log.update_config(config)
        if self.leads:
            is_enough = self._is_writable()
            self.advance()
            if self._delayed is not None and not is_enough:
                self._delayed.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
