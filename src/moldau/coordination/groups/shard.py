"""The shard of one partition of __consumer_offsets: the groups of the partition and their offsets.

The shard finds the group of a request. Where a rule needs both groups and offsets (who may commit,
what may be deleted, what expires), it asks both. The rules of groups are in `group`, those of
offsets in `offset_requests` and `expiry`.

A group exists while it has a member, an offset or a record. A group that has only offsets never had
members, and is forgotten with its last offset. When the first member joins, the group is written at
once: tools then list the same groups before and after a restart.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.base.checks import invariant
from moldau.base.clock import Random
from moldau.base.errors import InvariantViolated
from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.expiry import expiry
from moldau.coordination.groups.group import Group
from moldau.coordination.groups.listing import GroupDescription
from moldau.coordination.groups.offset_fetching import take_offsets
from moldau.coordination.groups.offset_keys import PARTITION_SIZE, KeyPrefixes
from moldau.coordination.groups.offset_requests import (
    OffsetCommits,
    commit_refused,
    delete_offsets,
    transactional_commit_refused,
)
from moldau.coordination.groups.offsets import OffsetStore
from moldau.coordination.groups.records import (
    CURRENT_FORM,
    GroupKey,
    OffsetKey,
    RecordForm,
    check_offset,
    decode_group,
    decode_key,
    group_record,
    offset_tombstone,
)
from moldau.coordination.groups.repeated_commit import CommitAgain
from moldau.coordination.groups.responses import (
    describe_without_group,
    heartbeat_answer,
    join_error,
    join_refusal,
    join_without_group,
    leave_without_group,
    sync_error,
    sync_refusal,
)
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.slices import Slices
from moldau.coordination.groups.snapshot import GroupSnapshot
from moldau.coordination.groups.states import GroupState
from moldau.coordination.groups.turn import GroupTimer
from moldau.coordination.outcome import (
    NOTHING,
    Caller,
    HandlerFailed,
    Now,
    Outcome,
    ProducerIdentity,
    Reply,
    Sealed,
    StateRecord,
    Ticket,
    Timer,
    TimerCancelled,
)
from moldau.coordination.refusals import coordinator_error
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DeletableGroupResult,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequestGroup,
)
from moldau.protocol.messages.transactions import TxnOffsetCommitRequest

EXPIRY_TIMER: Final = "offset expiry"
SESSIONS_TIMER: Final = "sessions"

GROUPS_PER_TURN: Final = 100
"""Groups whose sessions begin in one turn after a load. With ten members each that takes a few
milliseconds."""

_NO_ERROR: Final = ErrorCode.NONE
"""As a global: Python 3.11 looks a member of an enum up by a call."""
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_SAYS_GROUP_IS_MISSING: Final = 9
"""The version of OffsetCommit that has an error for a missing group (KIP-848)."""
_SAYS_GROUP_IS_MISSING_IN_TRANSACTION: Final = 6
"""The same for TxnOffsetCommit (KIP-1319)."""


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """The settings of a broker's shards; the defaults are Kafka's."""

    groups: GroupSettings = field(default_factory=GroupSettings)
    form: RecordForm = CURRENT_FORM
    metadata_length_max: int = 4_096
    """offset.metadata.max.bytes"""
    retention_ms: int = 7 * 24 * 3_600_000
    """offsets.retention.minutes"""
    retention_check_interval_ms: int = 600_000
    """offsets.retention.check.interval.ms"""


class TopicDeletion(NamedTuple):
    """The timer of a deleted topic that still has offsets."""

    name: str
    topic_id: bytes


class GroupDeletion(NamedTuple):
    """The timer of a group that is being deleted and still has offsets."""

    group_id: str
    ticket: Ticket


class ShownGroups(NamedTuple):
    """All groups of a shard, or an error."""

    error: ErrorCode
    groups: Sequence[Group] = ()


class GroupShard:
    """The groups of one partition."""

    def __init__(
        self, settings: ShardSettings, random: Random, counters: GroupCounters | None = None
    ) -> None:
        self._settings = settings
        self._random = random
        self._counters = counters or GroupCounters()
        self._groups: dict[str, Group] = {}
        self._offsets = OffsetStore()
        self._prefixes = KeyPrefixes()
        self._commits = OffsetCommits(settings.form, settings.metadata_length_max)
        self._is_loading = True
        self._without_sessions: deque[Group] = deque()
        """Loaded groups whose members have no sessions yet."""
        self._sweep: Slices | None = None
        self._sweep_interval_s = settings.retention_check_interval_ms / 1000
        self._deletions: dict[TopicDeletion, Slices] = {}
        """Deleted topics, and the offsets that are still to be forgotten."""

    # The state and its log

    def replay(self, record: StateRecord, producer: ProducerIdentity | None) -> None:
        """Take one record into the state; nearly all are plain commits of a known group."""
        data, value = record
        place = self._prefixes.get(data[:-PARTITION_SIZE])
        if place is None or value is None or producer is not None:
            self._replay_any(data, value, producer)
            return
        check_offset(value)
        group, topic = place
        partition = int.from_bytes(data[-PARTITION_SIZE:], signed=True)
        self._offsets.commit(group, topic, partition, value)
        if group not in self._groups:
            self._groups[group] = self._make_group(group)

    def _replay_any(
        self, data: bytes, value: bytes | None, producer: ProducerIdentity | None
    ) -> None:
        key = decode_key(data)
        if isinstance(key, OffsetKey):
            self._prefixes.learn(data, key)
            producer_id = None if producer is None else producer.producer_id
            self._offsets.replay(key, value, producer_id)
            if value is not None and key.group not in self._groups:
                self._groups[key.group] = self._make_group(key.group)
        else:
            self._replay_group(key, value)

    def _replay_group(self, key: GroupKey, value: bytes | None) -> None:
        if value is not None:
            # A group that serves has written the record itself, and may have changed since.
            snapshot = decode_group(value) if self._is_loading else None
            group = self._groups.get(key.group)
            if group is None:
                group = self._groups[key.group] = self._make_group(key.group)
            if snapshot is not None:
                group.replay(snapshot)
        elif (gone := self._groups.pop(key.group, None)) is not None:
            gone.ended()
            if self._offsets.holds(key.group):
                self._groups[key.group] = self._make_group(key.group)

    def _make_group(self, group_id: str) -> Group:
        return Group(
            group_id,
            self._settings.groups,
            self._random,
            self._encode,
            self._counters,
            loading=self._is_loading,
        )

    def _encode(self, group_id: str, snapshot: GroupSnapshot | None) -> StateRecord:
        return group_record(self._settings.form, group_id, snapshot)

    def transaction_ended(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Apply the offsets of a committed transaction; drop those of an aborted one."""
        self._offsets.end_transaction(producer.producer_id, committed=committed)

    def loaded(self, now: Now) -> Outcome:
        """Begin to serve; the sessions of members begin later, some groups in each turn."""
        del now
        self._is_loading = False
        for group in self._groups.values():
            group.loaded()
        self._without_sessions.extend(self._groups.values())
        return Outcome(timers=(self._next_sweep(), Timer(SESSIONS_TIMER, 0)))

    def _begin_sessions(self, now: Now) -> Outcome:
        timers: list[Timer | TimerCancelled] = []
        effects: list[object] = []
        groups = self._without_sessions
        for _ in range(min(GROUPS_PER_TURN, len(groups))):
            outcome = groups.popleft().begin_sessions(now)
            invariant(not outcome.records, "sessions that begin change nothing")
            timers.extend(outcome.timers)
            effects.extend(outcome.effects)
        if groups:
            timers.append(Timer(SESSIONS_TIMER, 0))
        return Outcome(timers=timers, effects=effects)

    def resigned(self) -> None:
        """Stop serving."""
        for group in self._groups.values():
            group.ended()
        self._groups.clear()
        self._without_sessions.clear()
        self._sweep = None
        self._deletions.clear()

    def timer_fired(self, key: Hashable, now: Now) -> Outcome:
        """Do the work that a timer was set for."""
        match key:
            case GroupTimer():
                return self._group_timer_fired(key, now)
            case TopicDeletion():
                return self._forget_topic(key)
            case GroupDeletion():
                return self.delete_group(key.group_id, key.ticket, now)
            case _ if key == SESSIONS_TIMER:
                return self._begin_sessions(now)
            case _ if key == EXPIRY_TIMER:
                return self._expire(now)
        raise InvariantViolated(f"an unknown timer: {key!r}")

    # Membership: a group that raises may be half changed; other groups are not

    def _contained(self, group: Group, error: Exception, now: Now) -> Exception:
        """Let a group that raised start over; return the exception to raise in its place."""
        if isinstance(error, InvariantViolated):
            return error
        try:
            return HandlerFailed(error, group.start_over(now))
        except Exception as another:  # noqa: BLE001 - only a load can repair the group
            return InvariantViolated(f"a group cannot start over: {another!r}")

    def _group_timer_fired(self, key: GroupTimer, now: Now) -> Outcome:
        group = self._groups.get(key.group_id)
        if group is None:
            return NOTHING
        try:
            return group.timer_fired(key, now)
        except Exception as error:
            raise self._contained(group, error, now) from error

    def join(self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Now) -> Outcome:
        """Add a member to its group; the first member creates the group."""
        refusal = join_refusal(request, caller, self._settings.groups)
        if refusal is not None:
            return _answer(ticket, refusal)
        group = self._groups.get(request.group_id)
        if group is not None:
            try:
                return group.join(request, caller, ticket, now)
            except Exception as error:
                raise self._contained(group, error, now) from error
        if request.member_id:
            return _answer(ticket, join_without_group(request, caller))
        return self._join_new_group(request, caller, ticket, now)

    def _join_new_group(
        self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Now
    ) -> Outcome:
        group_id = request.group_id
        group = self._make_group(group_id)
        outcome = group.join(request, caller, ticket, now)
        if group.is_disposable:
            return outcome  # the join was refused, so the group is dropped
        invariant(not outcome.records, "a group that was just made has no generation to write")
        record = self._encode(group_id, GroupSnapshot("", 0, None, None, now.wall_ms))
        self._groups[group_id] = group

        def refused(code: ErrorCode, now: Now) -> Outcome:
            del now
            self._groups.pop(group_id).ended()
            return _answer(ticket, join_error(caller.version, coordinator_error(code)))

        return outcome._replace(records=(record,), refused=refused)

    def sync(self, request: SyncGroupRequest, caller: Caller, ticket: Ticket, now: Now) -> Outcome:
        """Answer a member with its assignment, now or when it is committed."""
        refusal = sync_refusal(request, caller)
        if refusal is not None:
            return _answer(ticket, refusal)
        group = self._groups.get(request.group_id)
        if group is None:
            return _answer(ticket, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        try:
            return group.sync(request, ticket, now)
        except Exception as error:
            raise self._contained(group, error, now) from error

    def sync_at_once(self, request: SyncGroupRequest) -> bytes | None:
        """Return a member's assignment if its group is stable; None if it needs `sync`."""
        group = self._groups.get(request.group_id)
        return None if group is None else group.sync_at_once(request)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Now) -> Outcome:
        """Extend a member's session."""
        group = self._groups.get(request.group_id)
        if group is None:
            return _answer(ticket, heartbeat_answer(ErrorCode.UNKNOWN_MEMBER_ID))
        return group.heartbeat(request, ticket, now)

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, now: Now
    ) -> Outcome:
        """Remove members."""
        group = self._groups.get(request.group_id)
        if group is None:
            return _answer(ticket, leave_without_group(request, caller))
        try:
            return group.leave(request, caller, ticket, now)
        except Exception as error:
            raise self._contained(group, error, now) from error

    # Offsets

    def commit(
        self, request: OffsetCommitRequest, version: int, ticket: Ticket, now: Now
    ) -> Outcome:
        """Commit offsets, if the client may do so."""
        error = self._check_commit(
            request,
            ErrorCode.GROUP_ID_NOT_FOUND
            if version >= _SAYS_GROUP_IS_MISSING
            else ErrorCode.ILLEGAL_GENERATION,
            transactional=False,
        )
        if error is not ErrorCode.NONE:
            return _answer(ticket, commit_refused(request, error))
        group = self._groups.get(request.group_id)
        if group is not None:
            group.committed(request.member_id, now.monotonic)
        records, response = self._commits.plain(request, now)
        self._counters.offset_commits += len(records)
        return Outcome(
            records,
            (Reply(ticket, response),),
            refused=lambda code, _: _answer(ticket, commit_refused(request, _commit_error(code))),
        )

    def commit_again(self, asked: CommitAgain, wall_ms: int, monotonic: float) -> Sealed | None:
        """Decide on a commit of the fast path, as `commit` would.

        Returns None if the request needs `commit`. Then only a session may be extended, as `commit`
        does too.
        """
        commit, offset, leader_epoch = asked
        group = self._groups.get(commit.group_id)
        if group is None or self._settings.form is not CURRENT_FORM:
            return None
        member_id, generation = commit.member_id, commit.generation
        if not group.commits_again(member_id, commit.instance_id, generation, monotonic):
            return None
        return commit.sealed(offset, leader_epoch, wall_ms)

    def committed_again(self, asked: CommitAgain, value: bytes) -> None:
        """Take the record of `commit_again` into the state, after the append."""
        commit, _, _ = asked
        self._counters.offset_commits += 1
        self._offsets.commit(commit.group_id, commit.topic, commit.partition, value)

    def commit_in_transaction(
        self, request: TxnOffsetCommitRequest, version: int, ticket: Ticket, now: Now
    ) -> Outcome:
        """Write offsets that count once their transaction commits, if the client may commit.

        The caller has verified that the transaction is open and belongs to the producer.
        """
        error = self._check_commit(
            request,
            ErrorCode.GROUP_ID_NOT_FOUND
            if version >= _SAYS_GROUP_IS_MISSING_IN_TRANSACTION
            else ErrorCode.ILLEGAL_GENERATION,
            transactional=True,
        )
        if error is not ErrorCode.NONE:
            return _answer(ticket, transactional_commit_refused(request, error))
        if not self._has_room(request):
            too_large = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
            return _answer(ticket, transactional_commit_refused(request, too_large))
        records, response = self._commits.transactional(request, now)
        self._counters.offset_commits += len(records)
        return Outcome(
            records,
            (Reply(ticket, response),),
            producer=ProducerIdentity(request.producer_id, request.producer_epoch),
            refused=lambda code, _: _answer(
                ticket, transactional_commit_refused(request, _commit_error(code))
            ),
        )

    def _has_room(self, request: TxnOffsetCommitRequest) -> bool:
        return self._offsets.has_room(
            request.producer_id,
            request.group_id,
            [
                (topic.name, [partition.partition_index for partition in topic.partitions])
                for topic in request.topics
            ],
        )

    def _check_commit(
        self,
        request: OffsetCommitRequest | TxnOffsetCommitRequest,
        missing: ErrorCode,
        *,
        transactional: bool,
    ) -> ErrorCode:
        """Return an error unless the client may commit. One that is no member needs no group."""
        generation = request.generation_id_or_member_epoch
        group = self._groups.get(request.group_id)
        if group is None:
            return missing if generation >= 0 else ErrorCode.NONE
        return group.check_commit(
            request.member_id, request.group_instance_id, generation, transactional=transactional
        )

    def fetch(
        self, request: OffsetFetchRequestGroup, ticket: Ticket, *, require_stable: bool
    ) -> Outcome:
        """Read offsets, for any client. A missing group has none. Replies GroupOffsets."""
        return _answer(ticket, take_offsets(self._offsets, request, require_stable=require_stable))

    def delete_offsets(self, request: OffsetDeleteRequest, ticket: Ticket) -> Outcome:
        """Delete offsets of topics that the group does not subscribe to."""
        group = self._groups.get(request.group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_offset_delete()
        if group is None or error is not ErrorCode.NONE:
            return _answer(ticket, OffsetDeleteResponse(error))
        records, response = delete_offsets(self._offsets, group, request)
        return Outcome(records, (Reply(ticket, response),))

    def topics_deleted(self, topics: Mapping[str, bytes], now: Now) -> Outcome:
        """Delete the offsets of deleted topics, given by name and id, in later turns."""
        del now
        return Outcome(
            timers=[
                Timer(TopicDeletion(name, topic_id), 0)
                for name, topic_id in topics.items()
                if self._offsets.has_topic(name)
            ]
        )

    def _forget_topic(self, deletion: TopicDeletion) -> Outcome:
        """Write the next slice of tombstones for a deleted topic."""
        slices = self._deletions.get(deletion)
        if slices is None:
            slices = Slices(_tombstones(self._offsets.keys_of_topic(*deletion)))
        records, is_last = slices.next_slice()
        if is_last:
            self._deletions.pop(deletion, None)
        else:
            self._deletions[deletion] = slices

        def refused(code: ErrorCode, now: Now) -> Outcome:
            """Start again later: the log refuses records now."""
            del code, now
            self._deletions.pop(deletion, None)
            return Outcome(timers=(Timer(deletion, self._sweep_interval_s),))

        timers = () if is_last else (Timer(deletion, 0),)
        return Outcome(records, timers=timers, refused=refused)

    # Administration

    def all_groups(self, ticket: Ticket) -> Outcome:
        """Show every group, for ListGroups. Replies ShownGroups.

        There may be hundreds of thousands. So the caller goes through them, with pauses.
        """
        return _answer(ticket, ShownGroups(ErrorCode.NONE, tuple(self._groups.values())))

    def describe_group(self, group_id: str, version: int, ticket: Ticket) -> Outcome:
        """Describe one group. Replies GroupDescription."""
        group = self._groups.get(group_id)
        if group is None:
            missing = describe_without_group(group_id, version)
            return _answer(ticket, GroupDescription(missing))
        return _answer(ticket, group.description())

    def delete_group(self, group_id: str, ticket: Ticket, now: Now) -> Outcome:
        """Delete a group without members and its offsets, in several batches if there are many.

        Each batch has its own turn. If a member joins in between, the rest stays and the answer is
        an error. The group's tombstone is in the last batch: until then a restart finds the group.
        """
        del now
        group = self._groups.get(group_id)
        error = ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.check_delete()
        if group is None or error is not ErrorCode.NONE:
            return _answer(ticket, DeletableGroupResult(group_id, error))
        keys = self._offsets.keys(group_id)
        records, is_last = Slices(_tombstones(keys)).next_slice()
        if is_last:
            records.append(group.tombstone())
            return Outcome(records, (Reply(ticket, DeletableGroupResult(group_id)),))
        return Outcome(
            records,
            timers=(Timer(GroupDeletion(group_id, ticket), 0),),
            refused=lambda code, _: _answer(
                ticket, DeletableGroupResult(group_id, coordinator_error(code))
            ),
        )

    # Metrics, which another thread may read while the state changes

    def count_groups(self) -> Counter[GroupState]:
        """Count groups by their state."""
        return Counter(group.state for group in tuple(self._groups.values()))

    @property
    def offsets(self) -> OffsetStore:
        """What groups have committed, to be read alone."""
        return self._offsets

    # Expiry

    def _expire(self, now: Now) -> Outcome:
        """Continue a sweep for expired offsets and groups, or begin one."""
        if self._sweep is None:
            retention_ms = self._settings.retention_ms
            self._sweep = expiry(self._groups, self._offsets, retention_ms, now.wall_ms)
        records, is_last = self._sweep.next_slice()
        if is_last:
            self._sweep = None
        timer = self._next_sweep() if is_last else Timer(EXPIRY_TIMER, 0)
        return Outcome(records, timers=(timer,), refused=self._give_up_sweep)

    def _give_up_sweep(self, code: ErrorCode, now: Now) -> Outcome:
        """Try again after the interval: the log refuses records now."""
        del code, now
        self._sweep = None
        return Outcome(timers=(self._next_sweep(),))

    def _next_sweep(self) -> Timer:
        return Timer(EXPIRY_TIMER, self._sweep_interval_s)


def _tombstones(keys: Iterable[OffsetKey | None]) -> Iterator[StateRecord | None]:
    """Make tombstones one at a time: the state may change between two of them."""
    for key in keys:
        yield None if key is None else offset_tombstone(key)


def _answer(ticket: Ticket, response: object) -> Outcome:
    return Outcome(replies=(Reply(ticket, response),))


def _commit_error(code: ErrorCode) -> ErrorCode:
    """Return the error of a commit that the log refused; clients have one for a large commit."""
    return ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code in _TOO_LARGE else coordinator_error(code)
