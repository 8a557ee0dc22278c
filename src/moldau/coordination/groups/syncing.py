"""SyncGroup: members fetch their assignment; the leader sends the assignment of all members.

The assignment is committed before any member gets its part, so a new coordinator knows what the
members know. If the log refuses the record, no member gets a part, and the group rebalances.
"""

from __future__ import annotations

from moldau.coordination.groups.core import GroupCore
from moldau.coordination.groups.member import Member
from moldau.coordination.groups.responses import sync_error
from moldau.coordination.groups.states import GroupState
from moldau.coordination.groups.turn import Turn
from moldau.coordination.outcome import Ticket
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import SyncGroupRequest


def sync(core: GroupCore, request: SyncGroupRequest, ticket: Ticket, turn: Turn) -> None:
    """Answer a sync, or let it wait for the assignment."""
    code = _check(core, request)
    member = core.roster.get(request.member_id)
    if member is None or code is not ErrorCode.NONE:
        turn.reply(ticket, sync_error(code))
        return
    core.synced(member, turn)
    if core.state is GroupState.STABLE:
        turn.reply(ticket, core.assigned(member))
        return
    _wait(member, ticket, turn)
    if member.member_id == core.roster.leader and not core.storing_assignment:
        _store(core, request, turn)


def sync_at_once(core: GroupCore, request: SyncGroupRequest) -> bytes | None:
    """Return a member's assignment; None, with nothing done, if the request needs `sync`.

    The last member of a generation to sync needs `sync`, which cancels the timer of the phase.
    """
    is_plain = (
        core.state is GroupState.STABLE
        and request.protocol_type == core.protocol_type
        and request.protocol_name == core.protocol
        and _check(core, request) is ErrorCode.NONE
    )
    member = core.roster.get(request.member_id)
    if member is None or not is_plain or core.unsynced == {member.member_id}:
        return None
    core.unsynced.discard(member.member_id)
    return member.assignment


def _check(core: GroupCore, request: SyncGroupRequest) -> ErrorCode:
    code = core.check_member(request.member_id, request.group_instance_id)
    if code is not ErrorCode.NONE:
        return code
    if request.generation_id != core.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differ(request.protocol_type, core.protocol_type) or _differ(
        request.protocol_name, core.protocol
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if core.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _differ(said: str | None, known: str | None) -> bool:
    """Whether a request names another protocol than the group has; before version 5, none does."""
    return said is not None and known is not None and said != known


def _wait(member: Member, ticket: Ticket, turn: Turn) -> None:
    """Let a sync wait. If the member had one waiting, that is answered: the client gave it up."""
    earlier, member.waiting_sync = member.waiting_sync, ticket
    if earlier is not None:
        turn.reply(earlier, sync_error(ErrorCode.REBALANCE_IN_PROGRESS))


def _store(core: GroupCore, request: SyncGroupRequest, turn: Turn) -> None:
    assignments = {one.member_id: one.assignment for one in request.assignments}
    record = core.encode(core.group_id, core.snapshot(assignments))
    generation = core.generation
    core.storing_assignment = True

    def committed(turn: Turn) -> None:
        # If not, a rebalance began before the commit, and this assignment is of the past: its
        # members were told REBALANCE_IN_PROGRESS.
        if core.state is GroupState.COMPLETING_REBALANCE and core.generation == generation:
            core.assign(assignments, turn)

    def refused(code: ErrorCode, turn: Turn) -> None:
        core.abandon_assignment(code, turn)
        core.prepare_rebalance(f"the assignment could not be stored: {code.name}", turn)

    turn.write(record, committed, refused)
