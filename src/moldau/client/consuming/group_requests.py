"""The requests a member of a group makes, from the steps it takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.client.assignors.consumer_protocol import PROTOCOL_TYPE
from moldau.client.consumer_settings import ConsumerSettings
from moldau.client.consuming.steps import Join, MemberIdentity, Synchronise
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

OLDEST_STATIC_JOIN = 5
"""The version of JoinGroup since which members may be static (KIP-345)."""

OLDEST_JOIN = 1
"""The version of JoinGroup since which a rebalance has a time of its own (KIP-62)."""

REASON_SIZE_MAX = 255
"""What the coordinator keeps of a reason (KIP-800)."""


def join_request(
    group_id: str,
    settings: ConsumerSettings,
    step: Join,
    protocols: Sequence[tuple[str, bytes]],
) -> JoinGroupRequest:
    """Ask to be in the next generation, with a subscription for every assignor."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=step.identity.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[JoinGroupRequestProtocol(name, metadata) for name, metadata in protocols],
        reason=step.reason[:REASON_SIZE_MAX],
    )


def sync_request(group_id: str, instance_id: str | None, step: Synchronise) -> SyncGroupRequest:
    """Ask for one's assignment."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=step.identity.generation,
        member_id=step.identity.member_id,
        group_instance_id=instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=step.protocol_name,
        assignments=[SyncGroupRequestAssignment(*one) for one in step.assignments.items()],
    )


def heartbeat_request(
    group_id: str, instance_id: str | None, identity: MemberIdentity
) -> HeartbeatRequest:
    """Say that one lives."""
    return HeartbeatRequest(group_id, identity.generation, identity.member_id, instance_id)


def leave_request(
    group_id: str, instance_id: str | None, identity: MemberIdentity, reason: str
) -> LeaveGroupRequest:
    """Leave; from the third version on members leave in numbers, this one alone."""
    return LeaveGroupRequest(
        group_id=group_id,
        member_id=identity.member_id,
        members=[LeaveGroupMember(identity.member_id, instance_id, reason[:REASON_SIZE_MAX])],
    )


def leave_error(answer: LeaveGroupResponse) -> ErrorCode:
    """Return what went wrong with leaving."""
    codes = [answer.error_code, *(member.error_code for member in answer.members)]
    return next((ErrorCode.of(code) for code in codes if code), ErrorCode.NONE)
