"""LeaveGroup: members that leave, or that an administrator removes."""

from __future__ import annotations

from typing import Final

from moldau.base.texts import shorten
from moldau.coordination.groups.core import GroupCore
from moldau.coordination.groups.joining import quoted
from moldau.coordination.groups.responses import leave_error, leaving_members, left, left_member
from moldau.coordination.groups.states import GroupState
from moldau.coordination.groups.turn import Turn
from moldau.coordination.outcome import Caller, Ticket
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import LeaveGroupMember, LeaveGroupRequest

_MEMBERS_NAMED: Final = 10
"""Members that a log line names; the others are counted."""


def leave(
    core: GroupCore, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, turn: Turn
) -> None:
    """Remove members, with a result for each; then rebalance once for all of them."""
    members_before = len(core.roster)
    results = []
    reasons = []
    left_count = 0
    for leaving in leaving_members(request, caller.version):
        code = _leave(core, leaving, turn)
        results.append(left_member(leaving, code))
        if code is ErrorCode.NONE:
            left_count += 1
            if left_count <= _MEMBERS_NAMED:
                name = shorten(leaving.member_id or leaving.group_instance_id or "")
                reasons.append(f"{name} left; {quoted(leaving.reason)}")
    # A pending id has no partitions. If only such ids left, a running generation stays.
    if left_count and (
        len(core.roster) < members_before or core.state is GroupState.PREPARING_REBALANCE
    ):
        if left_count > _MEMBERS_NAMED:
            reasons.append(f"and {left_count - _MEMBERS_NAMED} more left")
        core.members_changed(", ".join(reasons), turn)
    turn.promise(ticket, left(caller.version, results), leave_error)


def _leave(core: GroupCore, leaving: LeaveGroupMember, turn: Turn) -> ErrorCode:
    member_id, instance_id = leaving.member_id, leaving.group_instance_id
    if not member_id and instance_id is not None:
        # An administrator names only the instance id.
        member = core.roster.of_instance(instance_id)
        code = ErrorCode.NONE
    elif member_id in core.roster.pending:
        core.forget_pending(member_id, turn)
        return ErrorCode.NONE
    else:
        member = core.roster.get(member_id)
        code = core.check_member(member_id, instance_id)
    if code is not ErrorCode.NONE:
        return code
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    core.drop(member, turn)
    return ErrorCode.NONE
