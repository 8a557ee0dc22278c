"""Messages of the classic group protocol, where clients assign partitions among themselves.

Kafka Connect and Schema Registry use it too, so subscriptions and assignments are opaque bytes.
"""

from __future__ import annotations

from moldau.protocol.fields import (
    array,
    boolean,
    bytes_,
    int16,
    int32,
    message,
    string,
    struct,
)


@struct
class JoinGroupRequestProtocol:
    """One assignor a member knows, and its subscription in that form."""

    name: str = string()
    metadata: bytes = bytes_()


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """Join a group or take part in its next generation.

    Version 1 separates the rebalance timeout (KIP-62), 4 makes the member come back with the id
    it was given (KIP-394), 5 adds static members (KIP-345), 8 the reason (KIP-800).
    """

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)  # -1: as the session timeout
    member_id: str = string()  # empty at the first attempt
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None)


@struct
class JoinGroupResponseMember:
    """One member, as the leader needs it."""

    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = bytes_()


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The generation joined; only its leader is told all members.

    Version 7 adds the protocol type (KIP-559), 9 lets a returning static leader skip assignment
    (KIP-814).
    """

    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


@struct
class SyncGroupRequestAssignment:
    """One member's assignment."""

    member_id: str = string()
    assignment: bytes = bytes_()


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """Fetch one's assignment; the leader hands in everybody's."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The member's assignment, as its leader wrote it."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = bytes_()


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Say that a member is alive, and learn whether the group rebalances."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """Only an error code; REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()


@struct
class LeaveGroupMember:
    """One member that leaves."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """Leave a group; from version 3 several members at once (KIP-345)."""

    group_id: str = string()
    member_id: str = string("0-2")
    members: list[LeaveGroupMember] = array(LeaveGroupMember, "3+")


@struct
class LeaveGroupMemberResponse:
    """What became of one member."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """What became of the request and, from version 3, of each member."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[LeaveGroupMemberResponse] = array(LeaveGroupMemberResponse, "3+")


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Ask for the state and members of classic groups."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean("3+")


@struct
class DescribedGroupMember:
    """One member of a group."""

    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


@struct
class DescribedGroup:
    """One group."""

    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    # one bit for each operation; the default says that nobody asked
    authorized_operations: int = int32("3+", default=-(2**31))


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """State and members of each group.

    Version 3 adds authorised operations (KIP-430), 4 static members (KIP-345), 6 a message, and
    an error instead of the state Dead for unknown groups (KIP-1043).
    """

    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """List groups, filtered by state (4+, KIP-518) and type (5+, KIP-848)."""

    states_filter: list[str] = array(string, "4+")
    types_filter: list[str] = array(string, "5+")


@struct
class ListedGroup:
    """One group."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+")
    group_type: str = string("5+")


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """The groups this broker coordinates."""

    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsRequest:
    """Delete empty groups with their offsets (KIP-229)."""

    groups_names: list[str] = array(string)


@struct
class DeletableGroupResult:
    """What became of one group."""

    group_id: str = string()
    error_code: int = int16()
    error_message: str | None = string("3+", nullable="3+", default=None)


@message(key=42, versions="0-3", flexible="2+")
class DeleteGroupsResponse:
    """What became of each group; from version 3 with a message."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
