"""LeaveGroup: members that go by themselves, or are put out by an administrator."""

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
"""Members that a line of the log names; of the others it gives the number."""


def leave(
    core: GroupCore, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, turn: Turn
) -> None:
    """Let members go, each as far as it is one, then rebalance once for all of them."""
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
    # Somebody who was only expected takes nothing along: a running generation goes on.
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
        # An administrator knows the instance id only.
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
