"""One classic group, as the coordinator's shard sees it: requests and timers in, outcomes out.

This is the whole interface of the group machine; the rules stand in `core`, `joining`, `syncing`
and `leaving`. A group is pure: it reads no clock, no log and no socket, it is told the time and
returns what shall happen. It knows nothing of offsets, but answers the questions that those who
keep them have: who may commit, what may be deleted, what expires.

A group is the owner of its own state. Its records are there for the next coordinator: `replay`
takes them in only until `loaded` says that everything has been read.
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
"""What every commit asks for, as globals: Python 3.11 looks a member of an enum up by a call."""


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
        """Make a group without members; one made while the log is replayed is `loading`."""
        self._core = GroupCore(group_id, settings, random, encode, counters)
        self._is_loading = loading

    # Loading and ending

    @property
    def is_loading(self) -> bool:
        """Whether records of the group still count; afterwards they are its own."""
        return self._is_loading

    def replay(self, snapshot: GroupSnapshot) -> None:
        """Take what a record says, if the group is still being loaded."""
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
        """Begin to serve. Members that were read have no session before `begin_sessions`."""
        self._is_loading = False

    def begin_sessions(self, now: Now) -> Outcome:
        """Give members that were read a whole session to be heard of again.

        The group may have served for a while: whoever was heard of meanwhile has a session.
        """
        core, turn = self._core, Turn(now)
        for member in core.roster:
            if member.timer_due is None:
                core.heard_of(member, turn)
        if core.state is GroupState.STABLE and len(core.roster) > core.settings.max_size:
            core.prepare_rebalance("the group has more members than group.max.size allows", turn)
        return turn.outcome()

    def ended(self) -> None:
        """Stop: the group is deleted, or has another coordinator. Nothing happens any more."""
        self._core.state = GroupState.DEAD

    def start_over(self, now: Now) -> Outcome:
        """Put all members out, because a request or a timer of the group raised."""
        turn = Turn(now)
        self._core.start_over(turn)
        return turn.outcome()

    def tombstone(self) -> StateRecord:
        """Return the record that deletes the group."""
        return self._core.encode(self._core.group_id, None)

    # Requests

    def join(self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: Now) -> Outcome:
        """Take a JoinGroup. `responses.join_refusal` is to be asked before."""
        turn = Turn(now)
        if self._core.state is GroupState.DEAD:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            turn.reply(ticket, join_error(caller.version, code, request.member_id))
        else:
            Join(self._core, request, caller, ticket, turn).decide()
        return turn.outcome()

    def sync(self, request: SyncGroupRequest, ticket: Ticket, now: Now) -> Outcome:
        """Take a SyncGroup. `responses.sync_refusal` is to be asked before."""
        turn = Turn(now)
        if self._core.state is GroupState.DEAD:
            turn.reply(ticket, sync_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            sync(self._core, request, ticket, turn)
        return turn.outcome()

    def sync_at_once(self, request: SyncGroupRequest) -> bytes | None:
        """Take a SyncGroup of a stable group if there is nothing to do but to answer it."""
        return sync_at_once(self._core, request)

    def heartbeat(self, request: HeartbeatRequest, ticket: Ticket, now: Now) -> Outcome:
        """Take a Heartbeat. Nothing that waits for the log decides about its answer."""
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
        """Take a LeaveGroup."""
        turn = Turn(now)
        if self._core.state is GroupState.DEAD:
            turn.reply(ticket, leave_error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            leave(self._core, request, caller, ticket, turn)
        return turn.outcome()

    # Timers

    def timer_fired(self, key: GroupTimer, now: Now) -> Outcome:
        """Go on with what a timer of this group was set for."""
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

    # Questions of those who keep the offsets

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, *, transactional: bool
    ) -> ErrorCode:
        """Say whether offsets may be committed by this member, or by nobody in particular.

        A client that is no member commits with a generation below 0, to a group without members.
        Transactions of old clients name no member at all (KIP-447 came later), and are fenced by
        their producer; they may also end while the group rebalances.
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
        """Note that a member committed offsets, outside of a transaction: a sign of life."""
        core = self._core
        member = core.roster.get(member_id)
        if member is not None and core.state is not _COMPLETING:
            member.heard_of(now_s)

    def commits_again(
        self, member_id: str, instance_id: str | None, generation: int, now_s: float
    ) -> bool:
        """Do what `check_commit` and `committed` do, and tell whether there was no error.

        For those who come all day, most of whom are members of a generation that lasts.
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
        """Say whether the group may be deleted."""
        if self._core.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def check_offset_delete(self) -> ErrorCode:
        """Say whether offsets may be deleted at all; `is_subscribed_to` then asks for each topic.

        What other clients than consumers read is not known.
        """
        core = self._core
        if core.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if self.is_empty or core.protocol_type == CONSUMER_PROTOCOL_TYPE:
            return ErrorCode.NONE
        return ErrorCode.NON_EMPTY_GROUP

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether members read this topic, as far as that is known; if not, they may."""
        topics = self._core.subscribed_topics
        if topics is None:
            return self._core.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in topics

    def expiry_start_ms(self, commit_timestamp_ms: int) -> int | None:
        """Return when the retention of an offset committed then began; None while it is in use.

        An empty group's offsets age from the moment it became empty, or from their commits where
        that is not known. A stable group of consumers no longer needs those of topics it does not
        read (`is_subscribed_to`). Offsets of a group that never had members age by themselves
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
        """Whether the group has no members and prepares for none."""
        return self._core.state is GroupState.EMPTY

    @property
    def is_disposable(self) -> bool:
        """Whether the group may be forgotten once it has no offsets: nobody is about to join."""
        return self.is_empty and not self._core.roster.pending

    # Questions of tools

    @property
    def state(self) -> GroupState:
        """Where the group is between two generations."""
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
        """Describe the group. Only a stable one has a protocol and subscriptions to show."""
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
