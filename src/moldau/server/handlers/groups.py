"""JoinGroup 0-9, SyncGroup 0-5, Heartbeat 0-4, LeaveGroup 0-5, and what tools ask about groups.

Those are ListGroups 0-5, DescribeGroups 0-6, DeleteGroups 0-3.

Every group is decided on by its shard. What the shard cannot say, because it is elsewhere or still
loading, is said here, in the place that each API has for it. Tools may describe and delete a group
with an empty id, which offsets can be committed to; nobody can join it, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.coordination.answers import Answer, combined
from moldau.coordination.groups.responses import (
    heartbeat_answer,
    join_error,
    leave_error,
    sync_error,
)
from moldau.coordination.groups.shard import GroupShard
from moldau.coordination.outcome import Caller, Now, Outcome, Ticket
from moldau.coordination.runtime import Runtime
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
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
from moldau.security.operations import GROUP_OPERATIONS, bit_field
from moldau.server.dispatch import RequestContext


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
    ) -> Answer[LeaveGroupResponse]:
        """Let members go."""
        if not request.group_id:
            return leave_error(ErrorCode.INVALID_GROUP_ID)
        caller = _caller(context)
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

        def decide(shard: GroupShard, ticket: Ticket, now: Now) -> Outcome:
            del now
            return shard.list_groups(request.states_filter, request.types_filter, ticket)

        return _all_listed(
            await self._runtime.call_all(decide, lambda code: ListGroupsResponse(error_code=code))
        )

    def describe_groups(
        self, request: DescribeGroupsRequest, context: RequestContext
    ) -> Answer[DescribeGroupsResponse]:
        """Tell the state and the members of groups."""
        answers = [self._describe(group_id, context.version) for group_id in request.groups]

        def describe_all(groups: Sequence[DescribedGroup]) -> DescribeGroupsResponse:
            if request.include_authorized_operations:
                for group in groups:
                    if not group.error_code:
                        group.authorized_operations = bit_field(GROUP_OPERATIONS)
            return DescribeGroupsResponse(groups=[*groups])

        return combined(answers, describe_all)

    def _describe(self, group_id: str, version: int) -> Answer[DescribedGroup]:
        def decide(shard: GroupShard, ticket: Ticket, now: Now) -> Outcome:
            del now
            return shard.describe_group(group_id, version, ticket)

        def failed(code: ErrorCode) -> DescribedGroup:
            return DescribedGroup(code, group_id=group_id)

        return self._runtime.call(group_id, decide, failed)

    def delete_groups(
        self, request: DeleteGroupsRequest, context: RequestContext
    ) -> Answer[DeleteGroupsResponse]:
        """Delete groups without members, with their offsets."""
        del context
        answers = [self._delete(group_id) for group_id in dict.fromkeys(request.groups_names)]
        return combined(answers, lambda results: DeleteGroupsResponse(results=[*results]))

    def _delete(self, group_id: str) -> Answer[DeletableGroupResult]:
        return self._runtime.call(
            group_id,
            lambda shard, ticket, now: shard.delete_group(group_id, ticket, now),
            lambda code: DeletableGroupResult(group_id, code),
        )


def _caller(context: RequestContext) -> Caller:
    return Caller(context.version, context.client_id or "", f"/{context.connection.peer_host}")


def _heartbeat_failed(code: ErrorCode) -> HeartbeatResponse:
    """Answer for a coordinator that cannot. Members of a group that is loading need not worry."""
    loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return heartbeat_answer(ErrorCode.NONE if loading else code)


def _all_listed(answers: Sequence[ListGroupsResponse]) -> ListGroupsResponse:
    """Make one list of those of all shards; a shard that is elsewhere by now has none."""
    for answer in answers:
        if answer.error_code not in {ErrorCode.NONE, ErrorCode.NOT_COORDINATOR}:
            return ListGroupsResponse(error_code=answer.error_code)
    return ListGroupsResponse(groups=[group for answer in answers for group in answer.groups])
