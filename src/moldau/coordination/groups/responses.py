"""The responses of the classic group protocol, in the form of each version of an API.

Also the responses that need no group: to invalid requests, and to requests for an unknown group.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.base.texts import shorten
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.states import GroupState
from moldau.coordination.outcome import Caller
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DescribedGroup,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupMemberResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

# Requests that need no group


def join_refusal(
    request: JoinGroupRequest, caller: Caller, settings: GroupSettings
) -> JoinGroupResponse | None:
    """Return the refusal of an invalid join, before a group is made for it; None if it is valid."""
    if (
        settings.min_session_timeout_ms
        <= request.session_timeout_ms
        <= (settings.max_session_timeout_ms)
    ):
        return None
    return join_error(caller.version, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)


def sync_refusal(request: SyncGroupRequest, caller: Caller) -> SyncGroupResponse | None:
    """Return the refusal of a sync that names no protocol (KIP-559); None if it is valid."""
    if caller.version < 5 or None not in {request.protocol_type, request.protocol_name}:
        return None
    return sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def join_without_group(request: JoinGroupRequest, caller: Caller) -> JoinGroupResponse:
    """Return the answer to a member of a group that does not exist."""
    return join_error(caller.version, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)


def leave_without_group(request: LeaveGroupRequest, caller: Caller) -> LeaveGroupResponse:
    """Return the answer to members that leave a group that does not exist."""
    return left(
        caller.version,
        [
            left_member(one, ErrorCode.UNKNOWN_MEMBER_ID)
            for one in leaving_members(request, caller.version)
        ],
    )


def describe_without_group(group_id: str, version: int) -> DescribedGroup:
    """Describe a group that does not exist: Dead, and since version 6 an error (KIP-1043)."""
    described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    if version >= 6:
        described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        described.error_message = f"Group {shorten(group_id)} not found."
    return described


# Errors


def join_error(version: int, code: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    """Answer a join with an error."""
    return JoinGroupResponse(
        error_code=code,
        protocol_name=protocol_name(None, version),
        member_id=member_id,
    )


def sync_error(code: ErrorCode) -> SyncGroupResponse:
    """Answer a sync with an error."""
    return SyncGroupResponse(error_code=code)


def heartbeat_answer(code: ErrorCode) -> HeartbeatResponse:
    """Answer a heartbeat."""
    return HeartbeatResponse(error_code=code)


def leave_error(code: ErrorCode) -> LeaveGroupResponse:
    """Answer a leave that failed as a whole."""
    return LeaveGroupResponse(error_code=code)


# Leaving: one member up to version 2, several since (KIP-345)


def leaving_members(request: LeaveGroupRequest, version: int) -> Sequence[LeaveGroupMember]:
    """Return the members that leave."""
    if version >= 3:
        return request.members
    return [LeaveGroupMember(member_id=request.member_id)]


def left_member(leaving: LeaveGroupMember, code: ErrorCode) -> LeaveGroupMemberResponse:
    """Return the result for one member."""
    return LeaveGroupMemberResponse(
        member_id=leaving.member_id,
        group_instance_id=leaving.group_instance_id,
        error_code=code,
    )


def left(version: int, members: list[LeaveGroupMemberResponse]) -> LeaveGroupResponse:
    """Return the response with the results of all members."""
    if version >= 3:
        return LeaveGroupResponse(members=members)
    return LeaveGroupResponse(error_code=members[0].error_code)


def protocol_name(name: str | None, version: int) -> str | None:
    """Return a protocol's name for a JoinGroup response; null is allowed since version 7."""
    return name if name is not None or version >= 7 else ""
