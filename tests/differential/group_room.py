"""Members of a group, each on a connection of its own, because a join and a sync may wait.

What they are answered is written down by their peer in an order that does not depend on the
broker: coordinators list members as they happen to keep them.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from process.raw_client import RawClient

from .peer import Peer
from .plain import RANDOM_PART

FIRST_WITH_REQUIRED_ID = 4
FIRST_WITH_INSTANCES = 5
"""Of JoinGroup; the other requests have their own."""
FIRST_LEAVING_TOGETHER = 3

SESSION_MS = 30_000
"""Longer than a scenario: nobody is dropped for silence unless a scenario wants it."""


class Room:
    """One group of one broker, and those who are in it."""

    def __init__(self, peer: Peer, name: str) -> None:
        self.peer = peer
        self.name = name
        self._members: list[Member] = []

    def member(self, version: int, about: str, **more: Any) -> Member:
        """Let somebody come in who speaks one version of JoinGroup."""
        self._members.append(Member(self, version, about, **more))
        return self._members[-1]

    def in_state(self, state: str) -> bool:
        """Tell whether the group is described so; Kafka's tools may see a change a moment late."""
        return bool(self._described().group_state == state)

    def _described(self) -> Any:
        (found,) = self.peer.call(DescribeGroupsRequest([self.name]), 0).groups
        return found

    def close(self) -> None:
        for each in self._members:
            each.client.socket.close()

    def number(self, member_id: str) -> int:
        """Tell which of the members a peer has heard of this is; one that is new comes last."""
        known = list(self.peer.names.members)
        found = RANDOM_PART.search(member_id)
        return known.index(found[0]) if found and found[0] in known else len(known)

    def describe(self, label: str) -> None:
        """Write down how the group is described and listed, in every version."""
        peer = self.peer
        for version in peer.versions(DescribeGroupsRequest):
            answer = peer.call(DescribeGroupsRequest([self.name]), version)
            answer.groups[0].members.sort(key=lambda one: self.number(one.member_id))
            peer.note_answer(f"describe {label} v{version}", answer)
        for version in peer.versions(ListGroupsRequest):
            answer = peer.call(ListGroupsRequest(), version)
            answer.groups = [one for one in answer.groups if one.group_id == self.name]
            peer.note_answer(f"list {label} v{version}", answer)


class Member:
    """One who joins. What it sends can be changed field by field."""

    def __init__(
        self,
        room: Room,
        version: int,
        about: str,
        *,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        rebalance_ms: int = SESSION_MS,
    ) -> None:
        self.room = room
        self.peer = room.peer
        self.version = version
        self.about = about
        self.instance = instance
        self.protocols = protocols
        self.rebalance_ms = rebalance_ms
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = protocols[0]
        self.client = RawClient((self.peer.broker.host, self.peer.broker.port))

    # Joining

    def join_request(self, **changes: Any) -> JoinGroupRequest:
        offered = [JoinGroupRequestProtocol(one, subscribed(self.about)) for one in self.protocols]
        request = JoinGroupRequest(
            self.room.name,
            SESSION_MS,
            self.rebalance_ms,
            self.member_id,
            self.instance,
            "consumer",
            offered,
        )
        return changed(request, changes)

    def join(self, label: str, **changes: Any) -> Any:
        """Join and write the answer down; one that asks for an id to be shown gets that too."""
        self.send_join(label, **changes)
        return self.joined(label)

    def send_join(self, label: str, **changes: Any) -> None:
        """Join without waiting. A new member is first told its id where that is the rule."""
        if (
            self.version >= FIRST_WITH_REQUIRED_ID
            and not self.member_id
            and self.instance is None
            and not changes
        ):
            answer = self.client.call(self.join_request(), self.version)
            self.peer.note_answer(f"{label}: {self.about} asks for an id v{self.version}", answer)
            self.member_id = answer.member_id
        self.client.send(self.join_request(**changes), self.version)

    def joined(self, label: str) -> Any:
        """Wait for the answer to a join that was sent."""
        answer = self.client.receive(self.join_request(), self.version)
        if answer.error_code == ErrorCode.NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name
        answer.members.sort(key=lambda one: self.room.number(one.member_id))
        self.peer.note_answer(f"{label}: {self.about} joins v{self.version}", answer)
        return answer

    # What follows

    def sync_request(self, assignments: dict[str, bytes], **changes: Any) -> SyncGroupRequest:
        request = SyncGroupRequest(
            self.room.name,
            self.generation,
            self.member_id,
            self.instance,
            "consumer",
            self.protocol,
            assignments=[SyncGroupRequestAssignment(*one) for one in assignments.items()],
        )
        return changed(request, changes)

    def heartbeat_request(self, **changes: Any) -> HeartbeatRequest:
        request = HeartbeatRequest(self.room.name, self.generation, self.member_id, self.instance)
        return changed(request, changes)

    def leave_request(self) -> LeaveGroupRequest:
        member = LeaveGroupMember(self.member_id, self.instance)
        return LeaveGroupRequest(self.room.name, self.member_id, [member])

    def sync(self, label: str, assignments: dict[str, bytes] | None = None) -> None:
        """Sync once, in the newest version."""
        self.send_sync(assignments or {})
        self.synced(label)

    def send_sync(self, assignments: dict[str, bytes]) -> None:
        version = self.peer.newest(SyncGroupRequest)
        self.client.send(self.sync_request(assignments), version)

    def synced(self, label: str) -> None:
        version = self.peer.newest(SyncGroupRequest)
        answer = self.client.receive(self.sync_request({}), version)
        self.peer.note_answer(f"{label}: {self.about} syncs", answer)

    def beat(self) -> ErrorCode:
        """Send a heartbeat and return what it says, unwritten."""
        version = self.peer.newest(HeartbeatRequest)
        return ErrorCode(self.client.call(self.heartbeat_request(), version).error_code)

    def wait_for(self, code: ErrorCode) -> None:
        """Send heartbeats until they say that something has happened."""
        self.peer.until(lambda: self.beat() == code, f"{self.about} hears {code.name}")

    def leave(self, label: str) -> None:
        version = self.peer.newest(LeaveGroupRequest)
        answer = self.client.call(self.leave_request(), version)
        self.peer.note_answer(f"{label}: {self.about} leaves", answer)


def subscribed(*topics: str) -> bytes:
    """A consumer's subscription, as every version of it begins; version 0 ends with user data."""
    names = b"".join(struct.pack(">h", len(one.encode())) + one.encode() for one in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def changed(request: Any, changes: dict[str, Any]) -> Any:
    """Set fields of a request."""
    for name, value in changes.items():
        setattr(request, name, value)
    return request


@contextlib.contextmanager
def room(peer: Peer, about: str) -> Iterator[Room]:
    """Open a group, and close the connections of all its members in the end."""
    opened = Room(peer, peer.name(about))
    try:
        yield opened
    finally:
        opened.close()
