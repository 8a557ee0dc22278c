"""One member of a classic group: its ids, its protocols, its waiting requests, its session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from moldau.coordination.groups.snapshot import NO_REBALANCE_TIMEOUT_MS, MemberSnapshot
from moldau.coordination.outcome import Caller, Ticket
from moldau.protocol.messages.groups import (
    DescribedGroupMember,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)

Protocols = tuple[tuple[str, bytes], ...]
"""The assignors that a member supports, in order of preference, each with its subscription."""


class WaitingJoin(NamedTuple):
    """A JoinGroup that is not answered yet."""

    ticket: Ticket
    version: int
    """The version of the request, and so of the response."""


class Member:
    """A member. Only the group's roster changes `waiting_join` and `protocols`: it counts them."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "deadline",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "timer_due",
        "waiting_join",
        "waiting_sync",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        caller: Caller,
        timeouts_ms: tuple[int, int],
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        """Set by the user and the same after a restart of the client: a static member (KIP-345)."""
        self.client_id = caller.client_id
        self.client_host = caller.client_host
        self.rebalance_timeout_ms, self.session_timeout_ms = timeouts_ms
        self.protocols = protocols
        self.assignment = b""
        self.is_new = False
        """It waits for the answer to its first join, and cannot send heartbeats meanwhile."""
        self.waiting_join: WaitingJoin | None = None
        self.waiting_sync: Ticket | None = None
        self.deadline = 0.0
        """When its session times out, on the monotonic clock."""
        self.timer_due: float | None = None
        """When its session timer fires, if one is set: at its deadline or earlier."""

    @classmethod
    def restored(cls, snapshot: MemberSnapshot, protocol: str) -> Member:
        """Make a member from a record, which has only the protocol that the group chose."""
        rebalance_timeout_ms = snapshot.rebalance_timeout_ms
        if rebalance_timeout_ms == NO_REBALANCE_TIMEOUT_MS:
            rebalance_timeout_ms = snapshot.session_timeout_ms
        member = cls(
            snapshot.member_id,
            snapshot.instance_id,
            Caller(0, snapshot.client_id, snapshot.client_host),
            (rebalance_timeout_ms, snapshot.session_timeout_ms),
            ((protocol, snapshot.subscription),),
        )
        member.assignment = snapshot.assignment
        return member

    def heard_of(self, now_s: float) -> None:
        """Extend the deadline, without a timer: one that fires early is set again."""
        deadline = now_s + self.session_timeout_ms / 1000
        if deadline > self.deadline:  # noqa: PLR1730 - `max` costs more, and this is for every commit
            self.deadline = deadline

    @property
    def must_heartbeat(self) -> bool:
        """Whether its session may time out. A member with a waiting request need not heartbeat."""
        return self.is_new or (self.waiting_join is None and self.waiting_sync is None)

    def subscription(self, protocol: str | None) -> bytes:
        """Return its subscription for a protocol; empty if it does not support that one."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: set[str]) -> str:
        """Return the candidate that it prefers. It supports at least one of them."""
        return next(name for name, _ in self.protocols if name in candidates)

    def snapshot(self, protocol: str | None, assignment: bytes) -> MemberSnapshot:
        """Return its part of the group's record."""
        return MemberSnapshot(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.subscription(protocol),
            assignment,
        )

    def described(self, protocol: str | None) -> DescribedGroupMember:
        """Return its part of a DescribeGroups response."""
        return DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            member_metadata=self.subscription(protocol),
            member_assignment=self.assignment,
        )


def timeouts_of(request: JoinGroupRequest, version: int) -> tuple[int, int]:
    """Return the rebalance timeout and the session timeout of a join.

    Version 0 has one timeout for both (KIP-62).
    """
    session_ms = request.session_timeout_ms
    return (session_ms if version == 0 else request.rebalance_timeout_ms), session_ms


def protocols_of(protocols: Iterable[JoinGroupRequestProtocol]) -> Protocols:
    """Return the protocols of a join. Of two protocols with one name the first counts."""
    offered: dict[str, bytes] = {}
    for protocol in protocols:
        offered.setdefault(protocol.name, protocol.metadata)
    return tuple(offered.items())
