"""One classic group, as the coordinator's shard sees it: requests and timers in, outcomes out.

This is the whole interface of the group machine; the rules are in `core`, `joining`, `syncing` and
`leaving`. A group is pure: it reads no clock, no log and no socket. It gets the time and returns
outcomes. It does not know offsets, but decides who may commit, what may be deleted, what expires.

A group owns its state in memory. Its records are for the next coordinator. `replay` takes them into
the state only during a load, until `loaded` is called. Afterwards the group has written each record
itself, and its state may be newer than the record: a replay would undo joins that came since.
"""

from __future__ import annotations

from typing import Final

from moldau.base.clock import Random
from moldau.coordination.groups.core import Encode, GroupCore
from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.joining import Join
from moldau.coordination.groups.leaving import leave
from moldau.coordination.groups.listing import GROUP_TYPE, GroupDescription
from moldau.coordination.groups.member import Member
from moldau.coordination.groups.responses import (
    heartbeat_answer,
    join_error,
    leave_error,
    sync_error,
)
from moldau.coordination.groups.roster import Roster
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.snapshot import NO_STATE_TIMESTAMP, GroupSnapshot
from moldau.coordination.groups.states import GroupState
from moldau.coordination.groups.subscription import CONSUMER_PROTOCOL_TYPE
from moldau.coordination.groups.syncing import sync, sync_at_once
from moldau.coordination.groups.turn import GroupTimer, Turn
from moldau.coordination.outcome import Caller, Now, Outcome, StateRecord, Ticket
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DescribedGroup,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListedGroup,
    SyncGroupRequest,
)

_NO_ERROR: Final = ErrorCode.NONE
_DEAD: Final = GroupState.DEAD
_EMPTY: Final = GroupState.EMPTY
_COMPLETING: Final = GroupState.COMPLETING_REBALANCE
_STABLE: Final = GroupState.STABLE
"""As globals, for every commit: Python 3.11 looks a member of an enum up by a call."""


class Group:
    """A group whose members assign partitions among themselves."""

    __slots__ = ("_core", "_is_loading")

    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        random: Random,
        encode: Encode,
        counters: GroupCounters,
        *,
        loading: bool = False,
    ) -> None:
        """Make a group without members; `loading` during a load of its shard."""
        self._core = GroupCore(group_id, settings, random, encode, counters)
        self._is_loading = loading

    # Loading and ending

    @property
    def is_loading(self) -> bool:
        """Whether the group is being loaded: only then `replay` changes it."""
        return self._is_loading

    def replay(self, snapshot: GroupSnapshot) -> None:
        """Take the content of a record into the state, if the group is being loaded."""
        if self._is_loading:
            self._restore(snapshot)

    def _restore(self, snapshot: GroupSnapshot) -> None:
        core = self._core
        core.roster = Roster()
        for member in snapshot.members:
            core.roster.add(Member.restored(member, snapshot.protocol or ""))
        if snapshot.leader is not None and core.roster.get(snapshot.leader) is not None:
            core.roster.leader = snapshot.leader
        core.state = GroupState.STABLE if snapshot.members else GroupState.EMPTY
        core.state_timestamp = snapshot.state_timestamp
        core.generation = snapshot.generation
        core.protocol_type = snapshot.protocol_type or None
        core.protocol = snapshot.protocol
        core.find_subscribed_topics()

    def loaded(self) -> None:
        """Begin to serve. Loaded members have no session timers before `begin_sessions`."""
        self._is_loading = False

    def begin_sessions(self, now: Now) -> Outcome:
        """Give each loaded member a whole session timeout to send a heartbeat.

        The group may have served requests already: members that were heard of have a session.
        """
        core, turn = self._core, Turn(now)
        for member in core.roster:
            if member.timer_due is None:
                core.heard_of(member, turn)
        if core.state is GroupState.STABLE and len(core.roster) > core.settings.max_size:
            core.prepare_rebalance("the group has more members than group.max.size allows", turn)
        return turn.outcome()

    def ended(self) -> None:
        """Stop for ever: the group is deleted, or has another coordinator.

        Callbacks that wait for a commit may still hold the group. They find it dead.
        """
        self._core.state = GroupState.DEAD

    def start_over(self, now: Now) -> Outcome:
        """Remove all members, because a request or a timer of the group raised."""
        turn = Turn(now)
        self._core.start_over(turn)
        return turn.outcome()

    def tombstone(self) -> StateRecord:
        """Return the record that deletes the group."""
        return self._core.encode(self._core.group_id, None)

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Now) -> Outcome:
        """Handle a JoinGroup. Call `responses.join_refusal` first."""
        turn = Turn(now)
        if self._core.state is GroupState.DEAD:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            turn.reply(ticket, join_error(caller.version, code, request.member_id))
        else:
            Join(self._core, request, caller, ticket, turn).decide()
        return turn.outcome()

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now: Now) -> Outcome:
        """Handle a SyncGroup. Call `responses.sync_refusal` first."""
        turn = Turn(now)
        if self._core.state is GroupState.DEAD:
            turn.reply(ticket, sync_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            sync(self._core, request, ticket, turn)
        return turn.outcome()

    def sync_at_once(self, request: SyncGroupRequest) -> bytes | None:
        """Return the assignment for a SyncGroup of a stable group; None if it needs `sync`."""
        return sync_at_once(self._core, request)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Now) -> Outcome:
        """Handle a Heartbeat. Its answer depends on no record, so it waits for no commit."""
        turn = Turn(now)
        code = self._check_heartbeat(request)
        member = self._core.roster.get(request.member_id)
        if member is not None and code in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
            self._core.heard_of(member, turn)
        turn.reply(ticket, heartbeat_answer(code))
        return turn.outcome(at_once=True)

    def _check_heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        core = self._core
        if core.state is GroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        code = core.check_member(request.member_id, request.group_instance_id)
        if code is not ErrorCode.NONE:
            return code
        if request.generation_id != core.generation:
            return ErrorCode.ILLEGAL_GENERATION
        if core.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, now: Now
    ) -> Outcome:
        """Handle a LeaveGroup."""
        turn = Turn(now)
        if self._core.state is GroupState.DEAD:
            turn.reply(ticket, leave_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            leave(self._core, request, caller, ticket, turn)
        return turn.outcome()

    # Timers

    def timer_fired(self, key: GroupTimer, now: Now) -> Outcome:
        """Do the work that a timer of this group was set for."""
        turn = Turn(now)
        if self._core.state is not GroupState.DEAD:
            match key.kind:
                case "session":
                    self._core.session_elapsed(key.member_id, turn)
                case "join":
                    self._core.join_phase_elapsed(turn)
                case _:
                    self._core.sync_phase_elapsed(turn)
        return turn.outcome()

    # Rules about offsets

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> ErrorCode:
        """Return an error unless this client may commit offsets.

        The generation is compared so that a member that was removed cannot overwrite the offsets of
        the member that took over its partitions. A client that is no member commits with a negative
        generation, to a group without members. Transactions of clients before KIP-447 name no
        member; their producer epoch fences them. A transaction may also commit offsets while the
        group completes a rebalance.
        """
        core = self._core
        state = core.state
        if state is _DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if state is _EMPTY and generation < 0:
            return _NO_ERROR
        if generation >= 0 or member_id or instance_id is not None:
            code = core.check_member(member_id, instance_id)
            if code is _NO_ERROR and generation != core.generation:
                code = ErrorCode.ILLEGAL_GENERATION
        else:
            code = _NO_ERROR if transactional else ErrorCode.UNKNOWN_MEMBER_ID
        if code is _NO_ERROR and state is _COMPLETING and not transactional:
            code = ErrorCode.REBALANCE_IN_PROGRESS
        return code

    def committed(self, member_id: str, now_s: float) -> None:
        """Extend the session of a member that committed offsets outside of a transaction."""
        core = self._core
        member = core.roster.get(member_id)
        if member is not None and core.state is not _COMPLETING:
            member.heard_of(now_s)

    def commits_again(
        self, member_id: str, instance_id: str | None, generation: int, now_s: float
    ) -> bool:
        """Do what `check_commit` and `committed` do; return True if there was no error.

        For the fast path of commits: nearly always the group is stable and the generation current.
        """
        core = self._core
        if instance_id is None and core.state is _STABLE and generation == core.generation:
            member = core.roster.get(member_id)
            if member is not None:
                member.heard_of(now_s)
                return True
        code = self.check_commit(member_id, instance_id, generation, transactional=False)
        if code is not _NO_ERROR:
            return False
        self.committed(member_id, now_s)
        return True

    def check_delete(self) -> ErrorCode:
        """Return an error unless the group may be deleted."""
        if self._core.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def check_offset_delete(self) -> ErrorCode:
        """Return an error unless offsets may be deleted; `is_subscribed_to` decides for each topic.

        The topics that clients other than consumers read are not known.
        """
        core = self._core
        if core.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.is_empty or core.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read this topic. If their topics are unknown, they may read each."""
        topics = self._core.subscribed_topics
        if topics is None:
            return self._core.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics

    def expiry_start_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return the start of the retention of an offset with this commit time; None while in use.

        Offsets of an empty group age from the moment it became empty, or from their commit if that
        is not known. Those of a stable group of consumers age from their commit; `is_subscribed_to`
        protects the topics it reads. Those of a group that never had members age from their commit
        (KIP-211).
        """
        core = self._core
        if core.protocol_type is None:
            return commit_timestamp_ms
        if core.state is GroupState.EMPTY:
            is_known = core.state_timestamp != NO_STATE_TIMESTAMP
            return core.state_timestamp if is_known else commit_timestamp_ms
        if core.state is GroupState.STABLE and core.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, and none is joining."""
        return self._core.state is GroupState.EMPTY

    @property
    def is_disposable(self) -> bool:
        """Whether the group may be forgotten once it has no offsets: no id is pending either."""
        return self.is_empty and not self._core.roster.pending

    # For tools

    @property
    def state(self) -> GroupState:
        """The state of the group."""
        return self._core.state

    @property
    def generation(self) -> int:
        """The number of the present generation."""
        return self._core.generation

    def described(self) -> DescribedGroup:
        """Describe the group with all of its members."""
        group, protocol, members = self.description()
        group.members = [member.described(protocol) for member in members]
        return group

    def description(self) -> GroupDescription:
        """Describe the group. Only a stable group shows a protocol and subscriptions."""
        core = self._core
        protocol = core.protocol if core.state is GroupState.STABLE else None
        group = DescribedGroup(
            group_id=core.group_id,
            group_state=core.state.value,
            protocol_type=core.protocol_type or "",
            protocol_data=protocol or "",
        )
        return GroupDescription(group, protocol, tuple(core.roster))

    def listed(self) -> ListedGroup:
        """Return the group's line in a list of groups."""
        core = self._core
        return ListedGroup(
            group_id=core.group_id,
            protocol_type=core.protocol_type or "",
            group_state=core.state.value,
            group_type=GROUP_TYPE,
        )
