"""Admin calls for groups: list, describe, delete, remove members. Coordinators answer them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moldau.client.administration.face import Calls
from moldau.client.administration.group_descriptions import (
    GroupDescription,
    GroupListing,
    classic_group,
    consumer_group,
    listed_group,
)
from moldau.client.errors import (
    BrokerError,
    GroupIdNotFound,
    UnknownMember,
    UnsupportedVersion,
    broker_error,
)
from moldau.engine.asking import Answered
from moldau.engine.cluster import CoordinatorKind
from moldau.engine.partitions import several
from moldau.engine.results import Results, Tally
from moldau.engine.retry import raise_for
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from moldau.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    ListGroupsRequest,
)

LIST_BY_STATE = 4
LIST_BY_TYPE = 5
UNKNOWN_IS_AN_ERROR = 6
"""The version of DescribeGroups since which an unknown group is no dead one (KIP-1043)."""
LEAVE_TOGETHER = 3
"""The version of LeaveGroup since which several members can be named, by instance too (KIP-345)."""

REMOVED_BY_ADMIN = "removed by an administrator"


class GroupCalls(Calls):
    """Admin calls for groups."""

    # Looking

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout_ms: float | None = None,
    ) -> list[GroupListing]:
        """List groups: `[one.group_id for one in await admin.list_groups(states=["Empty"])]`.

        Asks every broker. States are `Stable`, `Empty`, ...; types `classic`, `consumer`, ...
        """
        request = ListGroupsRequest(several(states, "states"), several(types, "types"))
        least = LIST_BY_TYPE if request.types_filter else 0
        if request.states_filter:
            least = max(least, LIST_BY_STATE)

        async def ask(broker_id: int) -> list[GroupListing]:
            answer = await self._asking.ask(broker_id, request, least=least)
            raise_for(answer.error_code)
            return [listed_group(one) for one in answer.groups]

        found = await self._asking.each_broker(ask, self._asking.deadline(timeout_ms))
        # A group whose coordinator moves meanwhile may be told of twice.
        by_id = {group.group_id: group for groups in found.values() for group in groups}
        return [by_id[group_id] for group_id in sorted(by_id)]

    async def describe_group(
        self, group_id: str, *, timeout_ms: float | None = None
    ) -> GroupDescription:
        """Describe a group: `(await admin.describe_group("g")).members`.

        Raises GroupIdNotFound if it does not exist.
        """
        return (await self.describe_groups([group_id], timeout_ms=timeout_ms))[group_id]

    async def describe_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, GroupDescription]:
        """Describe groups of any type: `(await admin.describe_groups(ids)).ok`."""
        deadline = self._asking.deadline(timeout_ms)

        async def attempt(tally: Tally[str, GroupDescription]) -> None:
            async def ask(coordinator: int, asked: list[str]) -> None:
                classic = await self._describe_consumer_groups(coordinator, asked, tally)
                if classic:
                    await self._describe_classic_groups(coordinator, classic, tally)

            await self._asking.of_coordinators(tally, CoordinatorKind.GROUP, ask, deadline)

        return await self._asking.settle(several(group_ids, "group_ids"), attempt, deadline)

    async def _describe_consumer_groups(
        self, coordinator: int, group_ids: list[str], tally: Tally[str, GroupDescription]
    ) -> list[str]:
        """Describe those groups that are of KIP-848, and return the others."""
        try:
            answer = await self._asking.ask(coordinator, ConsumerGroupDescribeRequest(group_ids))
        except UnsupportedVersion:
            return group_ids
        others = []
        for told in answer.groups:
            if told.error_code == ErrorCode.NONE:
                tally.done(told.group_id, consumer_group(told, coordinator))
            elif told.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                others.append(told.group_id)
            else:
                tally.fail(told.group_id, broker_error(told.error_code, told.error_message))
        return others

    async def _describe_classic_groups(
        self, coordinator: int, group_ids: list[str], tally: Tally[str, GroupDescription]
    ) -> None:
        answer = await self._asking.answered(coordinator, DescribeGroupsRequest(group_ids))
        for told in answer.response.groups:
            if told.error_code != ErrorCode.NONE:
                tally.fail(told.group_id, _group_error(told))
            elif answer.version < UNKNOWN_IS_AN_ERROR and told.group_state == "Dead":
                tally.refuse(told.group_id, _no_such(told.group_id))
            else:
                tally.done(told.group_id, classic_group(told, coordinator))

    # Deleting

    async def delete_group(self, group_id: str, *, timeout_ms: float | None = None) -> None:
        """Delete a group with its offsets: `await admin.delete_group("g")`.

        Raises NonEmptyGroup if it has members.
        """
        (await self.delete_groups([group_id], timeout_ms=timeout_ms))[group_id]

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: float | None = None
    ) -> Results[str, None]:
        """Delete groups without members, with their offsets: `await admin.delete_groups(ids)`."""
        deadline = self._asking.deadline(timeout_ms)

        async def attempt(tally: Tally[str, None]) -> None:
            async def ask(coordinator: int, asked: list[str]) -> None:
                answer = await self._asking.ask(coordinator, DeleteGroupsRequest(asked))
                for told in answer.results:
                    gone = told.error_code == ErrorCode.GROUP_ID_NOT_FOUND
                    if told.error_code == ErrorCode.NONE:
                        tally.done(told.group_id, None)
                    elif gone and told.group_id in tally.uncertain:
                        tally.done(told.group_id, None)  # by the attempt whose answer was lost
                    else:
                        tally.fail(told.group_id, _group_error(told))

            await self._asking.of_coordinators(tally, CoordinatorKind.GROUP, ask, deadline)

        return await self._asking.settle(several(group_ids, "group_ids"), attempt, deadline)

    # Members

    async def remove_members(
        self,
        group_id: str,
        *,
        instance_ids: Iterable[str] = (),
        member_ids: Iterable[str] = (),
        reason: str = REMOVED_BY_ADMIN,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Remove members of a group: `await admin.remove_members("g", instance_ids=["a"])`.

        Name static members by instance id and others by member id; the results have the same keys.
        A member that is still running joins again.
        """
        deadline = self._asking.deadline(timeout_ms)
        leaving = {
            one: LeaveGroupMember("", one, reason) for one in several(instance_ids, "instance_ids")
        }
        leaving |= {
            one: LeaveGroupMember(one, None, reason) for one in several(member_ids, "member_ids")
        }

        async def attempt(tally: Tally[str, None]) -> None:
            asked = [leaving[one] for one in tally.waiting]

            async def leave(coordinator: int) -> Answered:
                request = LeaveGroupRequest(group_id, members=asked)
                answer = await self._asking.answered(coordinator, request, least=LEAVE_TOGETHER)
                raise_for(answer.response.error_code)
                return answer

            answer = await self._asking.at_coordinator(
                CoordinatorKind.GROUP, group_id, leave, deadline
            )
            for told in answer.response.members:
                one = told.group_instance_id or told.member_id
                if told.error_code == ErrorCode.NONE:
                    tally.done(one, None)
                elif told.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    tally.refuse(one, UnknownMember(f"group {group_id!r} has no member {one!r}"))
                else:
                    tally.fail(one, broker_error(told.error_code))

        return await self._asking.settle(leaving, attempt, deadline)

    async def remove_all_members(
        self,
        group_id: str,
        *,
        reason: str = REMOVED_BY_ADMIN,
        timeout_ms: float | None = None,
    ) -> Results[str, None]:
        """Remove all current members of a group: `await admin.remove_all_members("g")`."""
        group = await self.describe_group(group_id, timeout_ms=timeout_ms)
        return await self.remove_members(
            group_id,
            instance_ids=[one.instance_id for one in group.members if one.instance_id is not None],
            member_ids=[one.member_id for one in group.members if one.instance_id is None],
            reason=reason,
            timeout_ms=timeout_ms,
        )


def _no_such(group_id: str) -> BrokerError:
    return GroupIdNotFound(f"there is no group {group_id!r}")


def _group_error(told: DescribedGroup | Any) -> BrokerError:
    if told.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return _no_such(told.group_id)
    return broker_error(told.error_code, told.error_message)
