"""A member of a consumer group: joins, assigns, heartbeats, commits, stalls, crashes, leaves.

It speaks the classic protocol by hand, so that it can be as clumsy as a client may be: silent for
longer than its session, gone without a word, back under its old instance id while its old self is
still about. What it is told goes to the group's history.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from moldau.sim.group_history import pieces
from moldau.sim.history import Violation
from moldau.sim.workload.client import ANSWER_TIMEOUT_S, RETRY_S, Link
from moldau.sim.workload.committer import Committer, commit_request
from moldau.sim.workload.coordinated import CoordinatorKind
from moldau.sim.workload.targets import Targets

PROTOCOL_TYPE = "consumer"
REBALANCE_TIMEOUT_MS = 1_500
"""Well below the time a client waits for an answer."""

REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
STRANGER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
"""The group knows no such member (any more): it has to begin anew."""
REFUSED_COMMIT = REJOIN | STRANGER


class Versions(NamedTuple):
    """Of the requests that a client of one age sends."""

    join: int
    sync: int
    heartbeat: int
    leave: int
    commit: int


OLD = Versions(join=2, sync=1, heartbeat=1, leave=1, commit=3)
WITH_IDS = Versions(join=4, sync=2, heartbeat=2, leave=2, commit=6)
STATIC = Versions(join=5, sync=3, heartbeat=3, leave=3, commit=7)
NEW = Versions(join=9, sync=5, heartbeat=4, leave=5, commit=9)
AGES = (OLD, WITH_IDS, STATIC, NEW)


class MemberPlan(NamedTuple):
    """What kind of member it is."""

    versions: Versions
    static: bool
    session_timeout_ms: int
    pause_s: float


class _Self(NamedTuple):
    """Who a client is in its group."""

    member_id: str
    generation: int


NOBODY = _Self("", -1)


class GroupMember(Committer):
    """One client that belongs to a group most of the time."""

    def __init__(self, targets: Targets, name: str, group: str, plan: MemberPlan) -> None:
        super().__init__(targets, name, group)
        self._plan = plan
        self._instance_id = name if plan.static else None
        self._history = targets.group(group)
        self._self = NOBODY
        self._former: _Self | None = None
        """Who it was before it came back under its instance id."""

    @property
    def finished(self) -> bool:
        return self.targets.stopped and self._history.settled()

    async def work(self, link: Link) -> None:
        await self.find(link, CoordinatorKind.GROUP, self._group)
        while not self.finished:
            if self._self.generation < 0:
                await self._join(link)
            else:
                await self._act(link)
                await asyncio.sleep(self.chance.expovariate(1 / self._plan.pause_s))

    async def _act(self, link: Link) -> None:
        """Do what members do; once the run is to end, only what keeps the group together."""
        dice = self.chance.random()
        if dice < 0.45 or self.targets.stopped:
            await self._heartbeat(link)
        elif dice < 0.8:
            await self._commit_as_member(link)
        elif dice < 0.9:
            await self.check_offsets(link, self._history)
        elif dice < 0.93:
            self.targets.seen["member stalled"] += 1
            await asyncio.sleep(self._plan.session_timeout_ms / 1000 * self.chance.uniform(0.5, 2))
            await self._commit_as_member(link)
        elif dice < (0.94 if self._plan.static else 0.96):
            await self._leave(link)
        elif dice < 0.98:
            self._crash()
        else:
            # As when a subscription changes: the same member joins again.
            self._self = self._self._replace(generation=-1)
            self._history.unsettled(self.name)

    def _crash(self) -> None:
        """Forget everything and say nothing, as a process does that is killed."""
        self.targets.seen["member crashed"] += 1
        if self._instance_id is not None and self._self.member_id:
            self._former = self._self
        self._self = NOBODY
        self._history.unsettled(self.name)

    # Becoming a member

    async def _join(self, link: Link) -> None:
        self._history.unsettled(self.name)
        asked = self._history.decided
        response = await link.call(
            self._join_request(), self._plan.versions.join, patience_s=ANSWER_TIMEOUT_S
        )
        error = ErrorCode.of(response.error_code)
        if error is ErrorCode.NONE:
            self._history.joined(asked, link.life, response.generation_id, response.protocol_name)
            await self._sync(link, response)
        elif error is ErrorCode.MEMBER_ID_REQUIRED:
            self._self = NOBODY._replace(member_id=response.member_id)
        else:
            await self._failed("a join", error)

    def _join_request(self) -> JoinGroupRequest:
        names = ["range", "roundrobin"]
        if self.chance.random() < 0.3:
            names.reverse()
        return JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._plan.session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._self.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name, b"subscription") for name in names],
        )

    async def _sync(self, link: Link, joined: JoinGroupResponse) -> None:
        assignments = {}
        is_leader = joined.leader == joined.member_id
        if is_leader and not joined.skip_assignment:
            assignments = pieces(
                f"{self.name} {self.targets.tick()}",
                joined.generation_id,
                [member.member_id for member in joined.members],
                self.targets.kept.partition_count,
            )
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=[SyncGroupRequestAssignment(*one) for one in assignments.items()],
        )
        self._self = NOBODY._replace(member_id=joined.member_id)
        asked = self._history.decided
        response = await link.call(request, self._plan.versions.sync, patience_s=ANSWER_TIMEOUT_S)
        if response.error_code:
            await self._failed("a sync", ErrorCode.of(response.error_code))
            return
        self._self = _Self(joined.member_id, joined.generation_id)
        self._history.assigned(asked, joined.generation_id, self.name, response.assignment)
        self.targets.seen["assigned"] += 1
        await self.check_offsets(link, self._history)
        if self._former is not None:
            await self._haunt(link, self._former)

    async def _failed(self, what: str, error: ErrorCode) -> None:
        """Take an error: come again, as the same member or as a new one."""
        if error in STRANGER or error in REJOIN:
            self._history.unsettled(self.name)
            self._self = NOBODY if error in STRANGER else self._self._replace(generation=-1)
        else:
            self.check_passes(what, error)
            await asyncio.sleep(RETRY_S)

    # Being one

    async def _heartbeat(self, link: Link) -> None:
        """Say that it is alive; that this was heard says nothing of its generation.

        A coordinator that is loading hears it from everybody, as Kafka's does.
        """
        me = self._self
        request = HeartbeatRequest(self._group, me.generation, me.member_id, self._instance_id)
        response = await link.call(request, self._plan.versions.heartbeat)
        if response.error_code:
            await self._failed("a heartbeat", ErrorCode.of(response.error_code))

    async def _commit_as_member(self, link: Link) -> None:
        error = await self._commit_as(link, self._self)
        if error is not ErrorCode.NONE:
            await self._failed("a commit", error)

    async def _commit_as(self, link: Link, who: _Self) -> ErrorCode:
        asked = self._history.decided
        index = self.chance.choice(sorted(self._history.offsets))
        offsets = self._history.offsets[index]
        commit = offsets.begin()
        request = commit_request(self._group, self.targets.kept, {index: commit})
        request.generation_id_or_member_epoch, request.member_id = who.generation, who.member_id
        request.group_instance_id = self._instance_id
        response = await link.call(request, self._plan.versions.commit)
        error = ErrorCode.of(response.topics[0].partitions[0].error_code)
        if error is ErrorCode.NONE:
            self._history.claimed("a commit", asked, who.generation)
            offsets.acknowledged(commit)
            self.targets.seen["offset committed"] += 1
        elif error in REFUSED_COMMIT:
            offsets.refused(commit)
            self.targets.seen["commit refused"] += 1
        return error

    async def _haunt(self, link: Link, former: _Self) -> None:
        """Come back as the process that this one has replaced: it must be told so."""
        error = await self._commit_as(link, former)
        if error is ErrorCode.NONE:
            raise Violation(f"I10: {self._group} took a commit of {former}, who was replaced")
        self.targets.seen["instance fenced"] += error is ErrorCode.FENCED_INSTANCE_ID
        self._former = None

    async def _leave(self, link: Link) -> None:
        me, self._self = self._self, NOBODY
        self._history.unsettled(self.name)
        request = LeaveGroupRequest(
            self._group,
            me.member_id,
            [LeaveGroupMember(me.member_id, self._instance_id)],
        )
        response = await link.call(request, self._plan.versions.leave)
        error = ErrorCode.of(
            response.error_code or (response.members[0].error_code if response.members else 0)
        )
        if error is not ErrorCode.NONE and error not in STRANGER:
            self.check_passes("a farewell", error)
        self.targets.seen["member left"] += 1
        await asyncio.sleep(self.chance.expovariate(1 / self._plan.pause_s))
