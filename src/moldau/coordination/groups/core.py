"""The core of a classic group: its members, its generations, and the rebalance between two of them.

    Empty --join--> PreparingRebalance --all came, or time is up--> CompletingRebalance
      ^                 |    ^                                         |         |
      +--nobody came----+    +--a member comes, goes, changes----------+   the leader's
                             |                                            assignment is
                             +------------------- Stable <-----------------  committed

In PreparingRebalance members join, and their requests wait. At the end of this phase every member
learns the new generation, and the leader learns all members. The leader sends an assignment
(`syncing`), which is committed before any member gets its part. Nothing decided for one generation
may reach another: a step that waited for the log checks state and generation again.

A heartbeat does not set a timer: it moves the member's deadline. A session timer that fires before
the deadline is set again for the rest.

The core knows no requests. `joining`, `syncing` and `leaving` decide on them and call the core.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from moldau.base.checks import invariant
from moldau.base.clock import Random
from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.member import Member, WaitingJoin
from moldau.coordination.groups.responses import join_error, protocol_name, sync_error
from moldau.coordination.groups.roster import Roster
from moldau.coordination.groups.settings import PENDING_MEMBERS_MAX, GroupSettings
from moldau.coordination.groups.snapshot import NO_STATE_TIMESTAMP, GroupSnapshot
from moldau.coordination.groups.states import FOLLOWERS, GroupState
from moldau.coordination.groups.subscription import (
    CONSUMER_PROTOCOL_TYPE,
    all_subscribed_topics,
)
from moldau.coordination.groups.turn import GroupTimer, Turn
from moldau.coordination.outcome import StateRecord, Ticket
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)

GENERATION_MAX: Final = 2**31 - 1
"""The largest int32."""

Encode = Callable[[str, GroupSnapshot | None], StateRecord]
"""Makes the record of the group with this id; without a snapshot, its tombstone."""

_NO_ERROR: Final = ErrorCode.NONE
"""As a global: Python 3.11 looks a member of an enum up by a call."""


def next_generation(generation: int) -> int:
    """Return the next generation; after the largest number it is 1, since none may be negative."""
    return generation + 1 if generation < GENERATION_MAX else 1


class InitialDelay:
    """The delay before the first rebalance of an empty group; each new member extends it.

    Without it, the first of many members that start together would get all partitions, and lose
    most of them to the second member a moment later (KIP-134).
    """

    __slots__ = ("delay_ms", "member_came", "remaining_ms")

    def __init__(self, delay_ms: int, rebalance_timeout_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = max(rebalance_timeout_ms - delay_ms, 0)
        """The part of the rebalance timeout that is left for extensions."""
        self.member_came = False

    def extend(self, delay_ms: int) -> bool:
        """Extend the delay if a member joined and there is time left; tell whether it did."""
        if not self.member_came or self.remaining_ms == 0:
            return False
        self.member_came = False
        elapsed_ms = self.delay_ms
        self.delay_ms = min(delay_ms, self.remaining_ms)
        self.remaining_ms = max(self.remaining_ms - elapsed_ms, 0)
        return True


class GroupCore:
    """State, generation and members of one group."""

    __slots__ = (
        "counters",
        "encode",
        "generation",
        "group_id",
        "initial_delay",
        "protocol",
        "protocol_type",
        "random",
        "roster",
        "settings",
        "state",
        "state_timestamp",
        "storing_assignment",
        "subscribed_topics",
        "unsynced",
    )

    def __init__(
        self,
        group_id: str,
        settings: GroupSettings,
        random: Random,
        encode: Encode,
        counters: GroupCounters,
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.random = random
        self.encode = encode
        self.counters = counters
        self.state = GroupState.EMPTY
        self.state_timestamp = NO_STATE_TIMESTAMP
        self.generation = 0
        """Counts the rebalances; the first members make it 1."""
        self.protocol_type: str | None = None
        """The kind of clients in the group ("consumer"); None if it never had members."""
        self.protocol: str | None = None
        """The assignor of this generation."""
        self.subscribed_topics: frozenset[str] | None = None
        """The topics that this generation reads; None if they are not known."""
        self.roster = Roster()
        self.initial_delay: InitialDelay | None = None
        """Set while an empty group prepares its first rebalance."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not asked for their assignment."""
        self.storing_assignment = False
        """Whether the assignment of this generation is appended and not committed yet."""

    def move_to(self, state: GroupState, turn: Turn) -> None:
        """Enter a state that may follow the present one."""
        invariant(state in FOLLOWERS[self.state], f"{self.group_id}: {self.state} to {state}")
        self.state = state
        self.state_timestamp = turn.now.wall_ms

    def _note(self, text: str, turn: Turn) -> None:
        turn.note(self.group_id, text)

    # Identity

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return an error unless this is a member.

        Of two processes with one instance id the newer one is the member (KIP-345).
        """
        if instance_id is not None:
            member = self.roster.of_instance(instance_id)
            if member is not None and member.member_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        else:
            member = self.roster.get(member_id)
        return ErrorCode.UNKNOWN_MEMBER_ID if member is None else _NO_ERROR

    # Sessions

    def expect(self, member: Member, timeout_ms: int, turn: Turn) -> None:
        """Give a member a deadline; without a sign of life until then it is removed.

        The timer is set for one session timeout at most. New members have a longer deadline; when
        a rebalance answers many of them and their sessions begin, no timer has to be set again.
        """
        now_s = turn.now.monotonic
        member.deadline = now_s + timeout_ms / 1000
        if member.timer_due is None or member.timer_due > member.deadline:
            first_look_ms = min(timeout_ms, member.session_timeout_ms)
            member.timer_due = now_s + first_look_ms / 1000
            turn.arm(self._session_timer(member.member_id), first_look_ms)

    def heard_of(self, member: Member, turn: Turn) -> None:
        """Restart a member's session."""
        self.expect(member, member.session_timeout_ms, turn)

    def expect_pending(self, member_id: str, session_timeout_ms: int, turn: Turn) -> None:
        """Wait for a member to join with the id that it was given (KIP-394).

        If too many ids are pending, the oldest is forgotten. A member that joins with it gets
        UNKNOWN_MEMBER_ID and asks for another id.
        """
        pending = self.roster.pending
        if len(pending) >= PENDING_MEMBERS_MAX:
            self.forget_pending(next(iter(pending)), turn)
        pending[member_id] = None
        turn.arm(self._session_timer(member_id), session_timeout_ms)

    def forget_pending(self, member_id: str, turn: Turn) -> None:
        """Forget a pending id."""
        self.roster.pending.pop(member_id, None)
        turn.cancel(self._session_timer(member_id))

    def session_elapsed(self, member_id: str, turn: Turn) -> None:
        """Handle the session timer of a member, or of a pending id."""
        member = self.roster.get(member_id)
        if member is not None:
            self._member_silent(member, turn)
        elif member_id in self.roster.pending:
            del self.roster.pending[member_id]
            self._complete_if_everybody_joined(turn)

    def _member_silent(self, member: Member, turn: Turn) -> None:
        member.timer_due = None
        left_s = member.deadline - turn.now.monotonic
        if left_s > 0:
            member.timer_due = member.deadline
            turn.arm(self._session_timer(member.member_id), left_s * 1000)
        elif member.must_heartbeat:
            self.drop(member, turn)
            reason = f"member {member.member_id} was not heard of in time"
            if self.state is GroupState.PREPARING_REBALANCE:
                self._complete_if_everybody_joined(turn)
            else:
                self.prepare_rebalance(reason, turn)

    def drop(self, member: Member, turn: Turn) -> None:
        """Remove a member. Its waiting requests get UNKNOWN_MEMBER_ID, so that it joins again."""
        self._send_away(member, self.roster.stop_waiting(member), turn)
        self.roster.remove(member)
        self.unsynced.discard(member.member_id)

    def _send_away(self, member: Member, waiting: WaitingJoin | None, turn: Turn) -> None:
        if waiting is not None:
            answer = join_error(waiting.version, ErrorCode.UNKNOWN_MEMBER_ID)
            turn.reply(waiting.ticket, answer)
        if member.waiting_sync is not None:
            turn.reply(member.waiting_sync, sync_error(ErrorCode.UNKNOWN_MEMBER_ID))
        turn.cancel(self._session_timer(member.member_id))

    def start_over(self, turn: Turn) -> None:
        """Continue without members, after a bug that may have left them half changed.

        Each member gets UNKNOWN_MEMBER_ID and joins again. Only the list of members is trusted, to
        answer their requests. The generation rises, so that no answer of the old one counts.

        No record is written: writing it may be what raised. After a restart the members of the last
        record are back, and time out.
        """
        for member in self.roster:
            self._send_away(member, member.waiting_join, turn)
        for member_id in self.roster.pending:
            turn.cancel(self._session_timer(member_id))
        turn.cancel(self._join_timer)
        turn.cancel(self._sync_timer)
        self.roster = Roster()
        self.unsynced = set()
        self.initial_delay = None
        self.storing_assignment = False
        self.protocol = None
        self.find_subscribed_topics()
        self.generation = next_generation(self.generation)
        # Not by `move_to`: after a bug any state may be the one before.
        self.state, self.state_timestamp = GroupState.EMPTY, turn.now.wall_ms
        self._note("all members are put out after a bug; they join again", turn)

    def take_place(self, old: Member, new: Member, turn: Turn) -> None:
        """Replace a static member by a newer process: same instance id, another member id."""
        self.roster.replace(old, new)
        if old.member_id in self.unsynced:
            self.unsynced.remove(old.member_id)
            self.unsynced.add(new.member_id)
        turn.cancel(self._session_timer(old.member_id))
        new.timer_due = None
        self.heard_of(new, turn)

    def _session_timer(self, member_id: str) -> GroupTimer:
        return GroupTimer("session", self.group_id, member_id)

    # The join phase

    def prepare_rebalance(self, reason: str, turn: Turn) -> None:
        """Begin a rebalance: wait for the members of the next generation."""
        # Before the state changes: members that wait for the assignment of this generation never
        # get one. If its record is on its way to the log, `syncing` ignores the commit.
        if self.state is GroupState.COMPLETING_REBALANCE:
            self.abandon_assignment(ErrorCode.REBALANCE_IN_PROGRESS, turn)
        self.unsynced.clear()
        turn.cancel(self._sync_timer)
        is_first = self.state is GroupState.EMPTY
        self.move_to(GroupState.PREPARING_REBALANCE, turn)
        self._note(f"preparing to rebalance, generation {self.generation} ends: {reason}", turn)
        if is_first:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self.initial_delay = InitialDelay(delay_ms, self.roster.rebalance_timeout_ms)
            turn.arm(self._join_timer, delay_ms)
        elif not self._complete_if_everybody_joined(turn):
            turn.arm(self._join_timer, self.roster.rebalance_timeout_ms)

    def members_changed(self, reason: str, turn: Turn) -> None:
        """Begin a rebalance after a change of the members, or end the join phase if all are in."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            self.prepare_rebalance(reason, turn)
        else:
            self._complete_if_everybody_joined(turn)

    def _complete_if_everybody_joined(self, turn: Turn) -> bool:
        """End the join phase if no member is missing and no initial delay is running."""
        is_due = (
            self.state is GroupState.PREPARING_REBALANCE
            and self.initial_delay is None
            and self.roster.everybody_joined
        )
        if is_due:
            self._complete_join(turn)
        return is_due

    def supersede(self, waiting: WaitingJoin | None, turn: Turn) -> None:
        """Answer a join that its member has repeated. The client has given up on it."""
        if waiting is not None:
            answer = join_error(waiting.version, ErrorCode.REBALANCE_IN_PROGRESS)
            turn.reply(waiting.ticket, answer)

    def join_phase_elapsed(self, turn: Turn) -> None:
        """End the join phase because its time is up, unless the initial delay is extended."""
        if self.state is not GroupState.PREPARING_REBALANCE:
            return
        delay = self.initial_delay
        if delay is not None and delay.extend(self.settings.initial_rebalance_delay_ms):
            turn.arm(self._join_timer, delay.delay_ms)
        else:
            self._complete_join(turn)

    def _complete_join(self, turn: Turn) -> None:
        turn.cancel(self._join_timer)
        late = [one for one in self.roster if one.waiting_join is None and one.instance_id is None]
        for member in late:
            self.drop(member, turn)
        if len(self.roster) and not self.roster.elect_joined():
            # Only static members are left, and none has joined. A static member is removed by its
            # session timeout, not by this one.
            self._note("nobody joined, the rebalance waits", turn)
            turn.arm(self._join_timer, self.roster.rebalance_timeout_ms)
            return
        self.initial_delay = None
        self.generation = next_generation(self.generation)
        if len(self.roster):
            self._begin_generation(turn)
        else:
            self._become_empty(turn)

    def _begin_generation(self, turn: Turn) -> None:
        self.protocol = self.roster.choose_protocol()
        self.find_subscribed_topics()
        self.move_to(GroupState.COMPLETING_REBALANCE, turn)
        self._note(f"generation {self.generation} begins with {len(self.roster)} members", turn)
        for member in self.roster:
            member.is_new = False
            waiting = self.roster.stop_waiting(member)
            if waiting is not None:
                turn.reply(waiting.ticket, self.joined(member, waiting.version))
            self.heard_of(member, turn)
            self.unsynced.add(member.member_id)
        turn.arm(self._sync_timer, self.roster.rebalance_timeout_ms)

    def _become_empty(self, turn: Turn) -> None:
        """Become a group without members.

        It does no harm if the log refuses the record: after a restart the last generation would be
        back, and its members would time out.
        """
        self.protocol = None
        self.find_subscribed_topics()
        self.move_to(GroupState.EMPTY, turn)
        self._note(f"empty since generation {self.generation}", turn)
        turn.write(self.encode(self.group_id, self.snapshot({})))

    def find_subscribed_topics(self) -> None:
        """Find the topics that the members read; unknown if they are no consumers."""
        self.subscribed_topics = (
            all_subscribed_topics(member.subscription(self.protocol) for member in self.roster)
            if self.protocol_type == CONSUMER_PROTOCOL_TYPE
            else None
        )

    def joined(self, member: Member, version: int) -> JoinGroupResponse:
        """Return the JoinGroup response of this generation; the leader's names all members."""
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=protocol_name(self.protocol, version),
            leader=self.roster.leader or "",
            member_id=member.member_id,
            members=self.members_for_leader() if member.member_id == self.roster.leader else [],
        )

    def members_for_leader(self) -> list[JoinGroupResponseMember]:
        """Return all members with their subscriptions."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.subscription(self.protocol),
            )
            for member in self.roster
        ]

    # The sync phase

    def synced(self, member: Member, turn: Turn) -> None:
        """Note that a member asked for its assignment."""
        self.unsynced.discard(member.member_id)
        if not self.unsynced:
            turn.cancel(self._sync_timer)

    def assign(self, assignments: Mapping[str, bytes], turn: Turn) -> None:
        """Give each member its part of the assignment. Only when the assignment is committed."""
        for member in self.roster:
            member.assignment = assignments.get(member.member_id, b"")
            if (ticket := member.waiting_sync) is not None:
                self._answer_sync(member, ticket, self.assigned(member), turn)
        self.storing_assignment = False
        self.move_to(GroupState.STABLE, turn)
        self.counters.rebalances += 1

    def abandon_assignment(self, code: ErrorCode, turn: Turn) -> None:
        """Fail the syncs that wait for the assignment of this generation."""
        self.storing_assignment = False
        for member in self.roster:
            member.assignment = b""
            if (ticket := member.waiting_sync) is not None:
                self._answer_sync(member, ticket, sync_error(code), turn)

    def assigned(self, member: Member) -> SyncGroupResponse:
        """Return the SyncGroup response with a member's assignment."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            assignment=member.assignment,
        )

    def _answer_sync(
        self, member: Member, ticket: Ticket, response: SyncGroupResponse, turn: Turn
    ) -> None:
        turn.reply(ticket, response)
        member.waiting_sync = None
        self.heard_of(member, turn)

    def sync_phase_elapsed(self, turn: Turn) -> None:
        """Remove members that joined but never asked for their assignment.

        They may send heartbeats, so their session never times out. The other members cannot wait.
        """
        if not self.unsynced:
            return
        silent = [member for member in self.roster if member.member_id in self.unsynced]
        for member in silent:
            self.drop(member, turn)
        names = ", ".join(member.member_id for member in silent)
        self.prepare_rebalance(f"{names} did not ask for an assignment in time", turn)

    @property
    def _join_timer(self) -> GroupTimer:
        return GroupTimer("join", self.group_id)

    @property
    def _sync_timer(self) -> GroupTimer:
        return GroupTimer("sync", self.group_id)

    # The record

    def snapshot(self, assignments: Mapping[str, bytes]) -> GroupSnapshot:
        """Return the content of the group's record, with these assignments."""
        # A restart makes every group with members stable. Members that are still joining would
        # then be told that they have an assignment.
        invariant(
            not len(self.roster)
            or self.state in {GroupState.COMPLETING_REBALANCE, GroupState.STABLE},
            f"{self.group_id}: written with members while {self.state}",
        )
        return GroupSnapshot(
            self.protocol_type or "",
            self.generation,
            self.protocol,
            self.roster.leader,
            self.state_timestamp,
            tuple(
                member.snapshot(self.protocol, assignments.get(member.member_id, b""))
                for member in self.roster
            ),
        )
