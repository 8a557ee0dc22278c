"""JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4, LeaveGroup 0-5, and what tools ask about groups.

Those are ListGroups 0-5, DescribeGroups 0-6, DeleteGroups 0-3.

Every group is decided on by its shard. What the shard cannot say, because it is elsewhere or still
loading, is said here, in the place that each API has for it. Tools may describe and delete a group
with an empty id, which offsets can be committed to; nobody can join it, as in Kafka.

A group that one request names twice is described once, where Kafka describes it twice; and deleted
once, as by Kafka.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence

from moldau.coordination.answers import Answer
from moldau.coordination.groups.listing import GroupDescription, GroupFilter
from moldau.coordination.groups.responses import (
    heartbeat_answer,
    join_error,
    leave_error,
    sync_error,
)
from moldau.coordination.groups.shard import GroupShard, ShownGroups
from moldau.coordination.outcome import Caller, Now, Outcome, Ticket
from moldau.coordination.runtime import Runtime
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from moldau.security.operations import (
    GROUP_OPERATIONS,
    AclOperation,
    AclResourceType,
    bit_field,
)
from moldau.server.network.answer_room import AnswerRoom
from moldau.server.network.dispatch import RequestContext
from moldau.server.network.gathering import gather, unchanged
from moldau.server.network.repeats import once
from moldau.server.network.slices import Sliced
from moldau.server.network.stepping import take_turns

_LISTED_SIZE, _DESCRIBED_SIZE, _MEMBER_SIZE = 40, 100, 20
"""Bytes in an answer, besides what is of any length."""

_PROTOCOLS_MAX = 1_000
"""Assignors that a member may know: more than any client has, and each is counted in its group."""

_LEAVING_AT_ONCE = 500
"""Members that leave in one turn."""

_LOOKS_PER_STEP = 100
"""Groups that are looked at for a list between two pauses."""


class GroupHandlers:
    """Answers members of groups, and those who look after groups."""

    def __init__(self, runtime: Runtime[GroupShard]) -> None:
        self._runtime = runtime

    # Members

    def join(self, request: JoinGroupRequest, context: RequestContext) -> Answer[JoinGroupResponse]:
        """Take part in the next generation of a group; answered when it begins."""
        caller = _caller(context)

        def failed(code: ErrorCode) -> JoinGroupResponse:
            return join_error(caller.version, code, request.member_id)

        if not request.group_id:
            return failed(ErrorCode.INVALID_GROUP_ID)
        if len(request.protocols) > _PROTOCOLS_MAX:
            return failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        return self._runtime.call(
            request.group_id,
            lambda shard, ticket, now: shard.join(request, caller, ticket, now),
            failed,
        )

    def sync(self, request: SyncGroupRequest, context: RequestContext) -> Answer[SyncGroupResponse]:
        """Hand in or fetch the assignment of a generation; answered when it is stored."""
        if not request.group_id:
            return sync_error(ErrorCode.INVALID_GROUP_ID)
        caller = _caller(context)
        return self._runtime.call(
            request.group_id,
            lambda shard, ticket, now: shard.sync(request, caller, ticket, now),
            sync_error,
        )

    def sync_at_once(self, request: SyncGroupRequest) -> bytes | None:
        """Return the assignment that a sync is answered with; None if `sync` has more to decide.

        Not for a request that the leader sends, or that does not say group and protocol.
        """
        return self._runtime.read_at_once(request.group_id, GroupShard.sync_at_once, request)

    def heartbeat(
        self, request: HeartbeatRequest, context: RequestContext
    ) -> Answer[HeartbeatResponse]:
        """Take a member's sign of life."""
        del context
        if not request.group_id:
            return heartbeat_answer(ErrorCode.INVALID_GROUP_ID)
        return self._runtime.call(
            request.group_id,
            lambda shard, ticket, now: shard.heartbeat(request, ticket, now),
            _heartbeat_failed,
        )

    def leave(
        self, request: LeaveGroupRequest, context: RequestContext
    ) -> (
        Answer[LeaveGroupResponse]
        | Sliced[LeaveGroupResponse | Coroutine[None, None, LeaveGroupResponse]]
    ):
        """Let members go; where they are many, some of them at a time."""
        if not request.group_id:
            return leave_error(ErrorCode.INVALID_GROUP_ID)
        caller = _caller(context)
        count = len(request.members)
        if count <= _LEAVING_AT_ONCE:
            return self._leave(request, caller)
        some = (
            LeaveGroupRequest(
                request.group_id, members=request.members[first : first + _LEAVING_AT_ONCE]
            )
            for first in range(0, count, _LEAVING_AT_ONCE)
        )
        return gather((self._leave(part, caller) for part in some), unchanged, _all_left)

    def _leave(self, request: LeaveGroupRequest, caller: Caller) -> Answer[LeaveGroupResponse]:
        return self._runtime.call(
            request.group_id,
            lambda shard, ticket, now: shard.leave(request, caller, ticket, now),
            leave_error,
        )

    # Tools

    async def list_groups(
        self, request: ListGroupsRequest, context: RequestContext
    ) -> ListGroupsResponse:
        """List the groups that this broker coordinates."""
        del context
        shown = await self._runtime.call_all(
            lambda shard, ticket, _: shard.all_groups(ticket), ShownGroups
        )
        wanted = await take_turns(GroupFilter.read(request.states_filter, request.types_filter))
        return await take_turns(_list(shown, wanted))

    def describe_groups(
        self, request: DescribeGroupsRequest, context: RequestContext
    ) -> Sliced[DescribeGroupsResponse | Coroutine[None, None, DescribeGroupsResponse]]:
        """Tell the state and the members of groups."""
        room = AnswerRoom()
        operations = request.include_authorized_operations
        wanted = yield from once(request.groups)
        return (
            yield from gather(
                (self._describe(group_id, context) for group_id in wanted),
                lambda found: _described(found, room, operations=operations),
                lambda groups: DescribeGroupsResponse(groups=groups),
            )
        )

    def _describe(self, group_id: str, context: RequestContext) -> Answer[GroupDescription]:
        def decide(shard: GroupShard, ticket: Ticket, now: Now) -> Outcome:
            del now
            return shard.describe_group(group_id, context.version, ticket)

        def failed(code: ErrorCode) -> GroupDescription:
            return GroupDescription(DescribedGroup(code, group_id=group_id))

        if not context.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
            return failed(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return self._runtime.call(group_id, decide, failed)

    def delete_groups(
        self, request: DeleteGroupsRequest, context: RequestContext
    ) -> Sliced[DeleteGroupsResponse | Coroutine[None, None, DeleteGroupsResponse]]:
        """Delete groups without members, with their offsets."""
        wanted = yield from once(request.groups_names)
        return (
            yield from gather(
                (self._delete(group_id, context) for group_id in wanted),
                unchanged,
                lambda results: DeleteGroupsResponse(results=results),
            )
        )

    def _delete(self, group_id: str, context: RequestContext) -> Answer[DeletableGroupResult]:
        if not context.allows(AclOperation.DELETE, AclResourceType.GROUP, group_id):
            return DeletableGroupResult(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return self._runtime.call(
            group_id,
            lambda shard, ticket, now: shard.delete_group(group_id, ticket, now),
            lambda code: DeletableGroupResult(group_id, code),
        )


def _caller(context: RequestContext) -> Caller:
    return Caller(context.version, context.client_id or "", f"/{context.session.peer.host}")


def _heartbeat_failed(code: ErrorCode) -> HeartbeatResponse:
    """Answer for a coordinator that cannot. Members of a group that is loading need not worry."""
    loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return heartbeat_answer(ErrorCode.NONE if loading else code)


def _all_left(answers: Sequence[LeaveGroupResponse]) -> LeaveGroupResponse:
    """Make one answer of those to parts of a request; an error of the whole stands alone."""
    for answer in answers:
        if answer.error_code:
            return leave_error(ErrorCode.of(answer.error_code))
    return LeaveGroupResponse(members=[member for answer in answers for member in answer.members])


def _list(shown: Sequence[ShownGroups], wanted: GroupFilter) -> Sliced[ListGroupsResponse]:
    """Make one list of the groups of all shards; a shard that is elsewhere by now has none."""
    for shard in shown:
        if shard.error not in {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}:
            return ListGroupsResponse(error_code=shard.error)
    response = ListGroupsResponse()
    room = AnswerRoom()
    looked_at = 0
    for shard in shown:
        for group in shard.groups:
            looked_at += 1
            if not looked_at % _LOOKS_PER_STEP:
                yield
            if not wanted.includes(group.state):
                continue
            listed = group.listed()
            try:
                room.take(_LISTED_SIZE + len(listed.group_id) + len(listed.protocol_type))
            except ApiError as error:
                return ListGroupsResponse(error_code=error.code)
            response.groups.append(listed)
    return response


def _described(
    found: GroupDescription, room: AnswerRoom, *, operations: bool
) -> Sliced[DescribedGroup]:
    """Describe a group's members, unless they are too much for the answer."""
    group, protocol, members = found
    try:
        room.take(_DESCRIBED_SIZE + len(group.group_id))
        for member in members:
            described = member.described(protocol)
            room.take(_member_size(described))
            group.members.append(described)
            yield
    except ApiError as error:
        return DescribedGroup(error.code, error.message, group_id=group.group_id)
    if operations and not group.error_code:
        group.authorized_operations = bit_field(GROUP_OPERATIONS)
    return group


def _member_size(member: DescribedGroupMember) -> int:
    """Return about how many bytes a member takes in an answer."""
    texts = len(member.member_id) + len(member.client_id) + len(member.client_host)
    texts += len(member.group_instance_id or "")
    return _MEMBER_SIZE + texts + len(member.member_metadata) + len(member.member_assignment)
