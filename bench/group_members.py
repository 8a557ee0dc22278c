"""Members of consumer groups, as many as one event loop can play.

`run` measures what the broker itself takes to bring a whole group together. A timer must not be
part of that, and `group.initial.rebalance.delay.ms` is one: so the first member forms the group
alone, the others join and are held until it has joined again, and that is the last JoinGroup of
all. From then on nobody waits but for the broker: everybody's JoinGroup is answered, everybody
sends SyncGroup, the leader's brings the assignment, and the clock stops at the last answer.

One process plays all members, so what each of them does between the two answers is kept small
(`bench.rebalance`): requests are made before, since members and generation are known, and answers
read after.
"""

from __future__ import annotations

import asyncio
import statistics
import struct
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from bench.raw_connection import RawConnection, framed
from bench.rebalance import Lane, rebalance
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DescribeGroupsRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.registry import api_of, decode_response

PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
SESSION_TIMEOUT_MS = 60_000
"""Longer than any round, since nobody sends heartbeats."""
_REBALANCE_TIMEOUT_MS = 60_000
_JOIN, _SYNC, _LEAVE, _DESCRIBE, _FIND = 9, 5, 5, 5, 4
"""The newest versions that both brokers take, but for DescribeGroups, whose last tells no more."""
_PAUSE_S = 0.005
_READY_TIMEOUT_S = 30

NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""A coordinator says these until its partition is led and loaded."""


def run(address: str, topic: str, members: int, warm_up: int, rounds: int) -> dict[str, float]:
    """Bring groups of so many members together, one after the other; times in milliseconds."""
    return asyncio.run(_run(address, topic, members, warm_up, rounds))


async def _run(
    address: str, topic: str, members: int, warm_up: int, rounds: int
) -> dict[str, float]:
    connections = [await RawConnection.open(address) for _ in range(members)]
    times_ms = []
    for number in range(warm_up + rounds):
        group = f"bench-members-{number}"
        await wait_for_coordinator(connections[0], group)
        times_ms.append(await _round(connections, group, topic) * 1e3)
    for connection in connections:
        connection.close()
    measured = times_ms[warm_up:]
    return {"median": statistics.median(measured), "greatest": max(measured)}


async def _round(connections: list[RawConnection], group: str, topic: str) -> float:
    """Bring one group together and dissolve it; return the seconds of the last step."""
    everybody = [Member(connection, group, topic) for connection in connections]
    first, others = everybody[0], everybody[1:]
    await first.form_group()
    await asyncio.gather(*(member.introduce() for member in others))
    generation = first.generation + 1
    held = [member.lane(generation, []) for member in others]
    for lane in held:
        lane.send(lane.join)
    await _wait_until_held(connections[0], group, len(everybody))
    last = first.lane(generation, first.assign([member.member_id for member in everybody]))
    took = rebalance(last, held)
    for connection, lane in zip(connections, (last, *held), strict=True):
        connection.take_back()
        _check(lane, generation)
    await _dissolve(connections[0], group, everybody)
    return took


@dataclass(slots=True)
class Member:
    """One member of one group, which subscribes to one topic."""

    connection: RawConnection
    group: str
    topic: str
    member_id: str = ""
    generation: int = -1

    async def form_group(self) -> None:
        """Join a group in which there is nobody yet."""
        await self.introduce()
        await self.join_and_sync()

    async def introduce(self) -> None:
        """Ask for a member id (KIP-394), as every first JoinGroup does."""
        answer = await self._join()
        _expect(answer, ErrorCode.MEMBER_ID_REQUIRED)
        self.member_id = answer.member_id

    async def join_and_sync(self) -> None:
        """Join under the id that was given, and get an assignment; the leader makes all of them."""
        answer = await self._join()
        _expect(answer, ErrorCode.NONE)
        self.generation = answer.generation_id
        assignments = self.assign([member.member_id for member in answer.members])
        assigned = await self.connection.ask(
            self._sync_request(self.generation, assignments), _SYNC
        )
        _expect_assigned(assigned)

    def assign(self, member_ids: list[str]) -> list[SyncGroupRequestAssignment]:
        """Give every member a partition."""
        return [
            SyncGroupRequestAssignment(member_id, _assignment(self.topic, number))
            for number, member_id in enumerate(member_ids)
        ]

    def lane(self, generation: int, assignments: list[SyncGroupRequestAssignment]) -> Lane:
        """Get ready to join under the id that was given, and to sync in the generation to come."""
        sync = self._sync_request(generation, assignments)
        descriptor = self.connection.lend()
        return Lane(descriptor, framed(self._join_request(), _JOIN), framed(sync, _SYNC))

    async def _join(self) -> Any:
        return await self.connection.ask(self._join_request(), _JOIN)

    def _join_request(self) -> JoinGroupRequest:
        protocols = [JoinGroupRequestProtocol(PROTOCOL, _subscription(self.topic))]
        return JoinGroupRequest(
            self.group, SESSION_TIMEOUT_MS, _REBALANCE_TIMEOUT_MS, self.member_id, None,
            PROTOCOL_TYPE, protocols,
        )  # fmt: skip

    def _sync_request(
        self, generation: int, assignments: list[SyncGroupRequestAssignment]
    ) -> SyncGroupRequest:
        return SyncGroupRequest(
            self.group, generation, self.member_id, None, PROTOCOL_TYPE, PROTOCOL, assignments
        )


def _check(lane: Lane, generation: int) -> None:
    """Raise unless a member is in this generation and has something to do in it."""
    joined, assigned = lane.answers
    join = decode_response(api_of(JoinGroupRequest), _JOIN, memoryview(joined))
    _expect(join, ErrorCode.NONE)
    if join.generation_id != generation:
        raise RuntimeError(f"generation {join.generation_id} where {generation} was expected")
    _expect_assigned(decode_response(api_of(SyncGroupRequest), _SYNC, memoryview(assigned)))


async def find_coordinator(connection: RawConnection, group: str) -> str:
    """Have the topic of groups made, if there is none, and return who has this group."""

    async def ask() -> Any:
        found = await connection.ask(FindCoordinatorRequest(coordinator_keys=[group]), _FIND)
        return found.coordinators[0]

    coordinator = await _ask_until_ready(ask, group)
    return f"{coordinator.host}:{coordinator.port}"


async def wait_for_coordinator(connection: RawConnection, group: str) -> None:
    """Wait until the coordinator serves this group; a single broker has all of them."""
    await find_coordinator(connection, group)
    await wait_until_served(connection, group)


async def wait_until_served(coordinator: RawConnection, group: str) -> None:
    """Wait until the coordinator has loaded this group."""

    async def ask() -> Any:
        described = await coordinator.ask(DescribeGroupsRequest([group]), _DESCRIBE)
        return described.groups[0]

    await _ask_until_ready(ask, group)


async def _ask_until_ready(ask: Callable[[], Awaitable[Any]], group: str) -> Any:
    """Ask again while the answer is that a coordinator is not ready."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while True:
        answer = await ask()
        code = ErrorCode(answer.error_code)
        if code not in NOT_READY:
            return answer
        if time.monotonic() > deadline:
            raise RuntimeError(f"{group} has no coordinator after {_READY_TIMEOUT_S} s: {code!r}")
        await asyncio.sleep(_PAUSE_S)


async def _wait_until_held(connection: RawConnection, group: str, members: int) -> None:
    """Return once the broker knows all members, and so holds the JoinGroup of all but the first."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while True:
        described = await connection.ask(DescribeGroupsRequest([group]), _DESCRIBE)
        if len(described.groups[0].members) == members:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all members of {group} have joined: {described.groups[0]}")
        await asyncio.sleep(_PAUSE_S)


async def _dissolve(connection: RawConnection, group: str, members: list[Member]) -> None:
    leaving = [LeaveGroupMember(member.member_id) for member in members]
    _expect(await connection.ask(LeaveGroupRequest(group, "", leaving), _LEAVE), ErrorCode.NONE)


def _expect(answer: Any, wanted: ErrorCode) -> None:
    if answer.error_code != wanted:
        raise RuntimeError(f"{ErrorCode(answer.error_code)!r} where {wanted!r} was expected")


def _expect_assigned(answer: Any) -> None:
    _expect(answer, ErrorCode.NONE)
    if not answer.assignment:
        raise RuntimeError("a member was left without an assignment")


def _subscription(topic: str) -> bytes:
    """Return a subscription to one topic, in version 0 of the consumer protocol."""
    name = topic.encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">i", -1)


def _assignment(topic: str, partition: int) -> bytes:
    """Return an assignment of one partition, in version 0 of the consumer protocol."""
    name = topic.encode()
    return struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">iii", 1, partition, -1)
