"""JoinGroup: who may join, under which id, and whether the join begins a rebalance.

Since version 4 a new dynamic member first gets an id and joins again with it (KIP-394). So a client
that retries a join whose answer was lost does not leave a member that never speaks again. A static
member (KIP-345) is known by its instance id. When it joins without a member id, it replaces its
predecessor, which is fenced, and a stable group stays stable. The leader may always begin a
rebalance, because it alone watches the partitions of the topics. Another member begins one only by
joining with another subscription.
"""

from __future__ import annotations

from uuid import UUID

from moldau.coordination.groups.core import GroupCore
from moldau.coordination.groups.member import Member, WaitingJoin, protocols_of, timeouts_of
from moldau.coordination.groups.responses import join_error, sync_error
from moldau.coordination.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_MS
from moldau.coordination.groups.states import GroupState
from moldau.coordination.groups.turn import Turn
from moldau.coordination.outcome import Caller, Ticket
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.wire import TEXT_BYTES_MAX

_REASON_LENGTH_MAX = 255
"""Characters of a client's reason that are logged. Clients cut the reason there too (KIP-800)."""


def quoted(reason: str | None) -> str:
    """Return a client's reason for the log, shortened."""
    return f"client says: {reason[:_REASON_LENGTH_MAX]}" if reason else "client gives no reason"


class Join:
    """The decision on one JoinGroup request."""

    __slots__ = ("_caller", "_core", "_request", "_turn", "_waiting")

    def __init__(
        self, core: GroupCore, request: JoinGroupRequest, caller: Caller, ticket: Ticket, turn: Turn
    ) -> None:
        self._core = core
        self._request = request
        self._caller = caller
        self._waiting = WaitingJoin(ticket, caller.version)
        self._turn = turn

    def decide(self) -> None:
        """Answer the request, or let it wait for the next generation."""
        member_id = self._request.member_id
        if not self._has_room():
            self._put_out()
        elif not self._protocols_fit():
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            self._join_new()
        elif member_id in self._core.roster.pending and self._request.group_instance_id is None:
            self._add(member_id)
        else:
            self._join_again()

    # May it join?

    def _has_room(self) -> bool:
        """Whether group.max.size allows the join.

        In the join phase, members that have joined again count, not those of the last generation.
        The limit may have been lowered; then the last ones to join are refused.
        """
        core = self._core
        member = core.roster.get(self._request.member_id)
        if core.state is GroupState.EMPTY:
            return True
        if core.state is GroupState.PREPARING_REBALANCE:
            is_in = member is not None and member.waiting_join is not None
            return is_in or core.roster.waiting_count < core.settings.max_size
        return member is not None or len(core.roster) < core.settings.max_size

    def _put_out(self) -> None:
        core, turn = self._core, self._turn
        self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        member = core.roster.get(self._request.member_id)
        if member is not None:
            core.drop(member, turn)
        elif self._request.member_id in core.roster.pending:
            core.forget_pending(self._request.member_id, turn)
        else:
            return
        if core.state is GroupState.PREPARING_REBALANCE:
            core.members_changed("the group is full", turn)

    def _protocols_fit(self) -> bool:
        core, request = self._core, self._request
        names = [protocol.name for protocol in request.protocols]
        if core.state is GroupState.EMPTY:
            return bool(request.protocol_type and names)
        return request.protocol_type == core.protocol_type and core.roster.all_support_one_of(names)

    # A member without an id

    def _join_new(self) -> None:
        core, request = self._core, self._request
        instance_id = request.group_instance_id
        member_id = self._new_member_id(
            self._caller.client_id if instance_id is None else instance_id
        )
        if instance_id is not None:
            predecessor = core.roster.of_instance(instance_id)
            if predecessor is None:
                self._add(member_id)
            else:
                self._replace(predecessor, member_id)
        elif self._caller.version >= 4:
            core.expect_pending(member_id, request.session_timeout_ms, self._turn)
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(member_id)

    def _new_member_id(self, prefix: str) -> str:
        """Make an id. A prefix that is too long is cut."""
        suffix = f"-{UUID(bytes=self._core.random.randbytes(16), version=4)}"
        kept = prefix.encode()[: TEXT_BYTES_MAX - len(suffix)].decode(errors="ignore")
        return kept + suffix

    def _add(self, member_id: str) -> None:
        core, turn = self._core, self._turn
        member = self._make_member(member_id)
        member.is_new = True
        if not len(core.roster):
            core.protocol_type = self._request.protocol_type
        if core.initial_delay is not None:
            core.initial_delay.member_came = True
        core.roster.add(member)
        core.roster.wait_to_join(member, self._waiting)
        core.expect(member, NEW_MEMBER_JOIN_TIMEOUT_MS, turn)
        core.members_changed(f"new member {member_id}; {quoted(self._request.reason)}", turn)

    def _make_member(self, member_id: str) -> Member:
        request = self._request
        return Member(
            member_id,
            request.group_instance_id,
            self._caller,
            timeouts_of(request, self._caller.version),
            protocols_of(request.protocols),
        )

    # A known member

    def _join_again(self) -> None:
        core, request = self._core, self._request
        code = core.check_member(request.member_id, request.group_instance_id)
        member = core.roster.get(request.member_id)
        if member is None or code is not ErrorCode.NONE:
            self._refuse(code, request.member_id)
        elif self._begins_rebalance(member):
            self._update(member)
        else:
            # A retry: its answer was lost. The generation it belongs to is still current.
            self._turn.reply(self._waiting.ticket, core.joined(member, self._caller.version))

    def _begins_rebalance(self, member: Member) -> bool:
        core = self._core
        if core.state is GroupState.PREPARING_REBALANCE:
            return True
        if core.state is GroupState.STABLE and member.member_id == core.roster.leader:
            return True
        return member.protocols != protocols_of(self._request.protocols)

    def _update(self, member: Member) -> None:
        core, request, turn = self._core, self._request, self._turn
        core.roster.change_protocols(member, protocols_of(request.protocols))
        timeouts = timeouts_of(request, self._caller.version)
        member.rebalance_timeout_ms, member.session_timeout_ms = timeouts
        core.supersede(core.roster.wait_to_join(member, self._waiting), turn)
        core.members_changed(
            f"member {member.member_id} joins again; {quoted(request.reason)}", turn
        )

    # A static member that comes back

    def _replace(self, old: Member, member_id: str) -> None:
        core, turn = self._core, self._turn
        led_before = core.roster.leader
        self._fence(old)
        new = self._make_member(member_id)
        new.assignment = old.assignment
        core.take_place(old, new, turn)
        core.roster.wait_to_join(new, self._waiting)
        if core.state is GroupState.STABLE and core.roster.choose_protocol() == core.protocol:
            self._store(old, new, led_before)
        else:
            core.members_changed(
                f"static member {member_id} takes the place of {old.member_id}; "
                f"{quoted(self._request.reason)}",
                turn,
            )

    def _fence(self, old: Member) -> None:
        """Fail the waiting requests of a predecessor."""
        code = ErrorCode.FENCED_INSTANCE_ID
        waiting = self._core.roster.stop_waiting(old)
        if waiting is not None:
            self._turn.reply(waiting.ticket, join_error(waiting.version, code, old.member_id))
        if old.waiting_sync is not None:
            self._turn.reply(old.waiting_sync, sync_error(code))
            old.waiting_sync = None

    def _store(self, old: Member, new: Member, led_before: str | None) -> None:
        """Write the new member id of the instance. The generation does not change.

        The join is answered after the commit. Otherwise a new coordinator could know the old member
        id only, and fence the process that is running.
        """
        core = self._core
        core.find_subscribed_topics()
        assignments = {member.member_id: member.assignment for member in core.roster}
        generation = core.generation

        def committed(turn: Turn) -> None:
            is_same = core.state is GroupState.STABLE and core.generation == generation
            # If not, a rebalance has begun meanwhile, and its end answers the join.
            if is_same and new.waiting_join is self._waiting:
                core.roster.stop_waiting(new)
                turn.reply(self._waiting.ticket, self._returned(new, led_before))
                core.heard_of(new, turn)

        def refused(code: ErrorCode, turn: Turn) -> None:
            core.roster.stop_waiting(new)
            core.take_place(new, old, turn)
            core.find_subscribed_topics()
            turn.reply(self._waiting.ticket, join_error(self._caller.version, code))

        record = core.encode(core.group_id, core.snapshot(assignments))
        self._turn.write(record, committed, refused)

    def _returned(self, new: Member, led_before: str | None) -> JoinGroupResponse:
        """Answer a static member that is back in a stable generation.

        From version 9 on, a leader learns that it leads and need not assign (KIP-814). Below, it
        must not learn that it leads: it would send an assignment for a generation that has one.
        """
        response = self._core.joined(new, self._caller.version)
        if self._caller.version >= 9:
            response.skip_assignment = new.member_id == self._core.roster.leader
        else:
            response.leader = led_before or ""
            response.members = []
        return response

    def _refuse(self, code: ErrorCode, member_id: str) -> None:
        self._turn.reply(self._waiting.ticket, join_error(self._caller.version, code, member_id))
