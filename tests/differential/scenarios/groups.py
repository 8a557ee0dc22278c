"""Classic groups: joining, syncing, heartbeats, leaving, and what is refused in each state."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from differential.group_room import (
    FIRST_LEAVING_TOGETHER,
    FIRST_WITH_INSTANCES,
    Member,
    Room,
    changed,
    room,
)
from differential.peer import Peer
from differential.scenarios.coordinators import GROUP, make_topic
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupMember,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

INSTANCES_IN_SYNC = 3
"""The first version of SyncGroup and Heartbeat with group instances; commits have them from 7."""
PROTOCOL_IN_SYNC = 5


def joins(peer: Peer) -> Iterator[int]:
    """Go through the versions of JoinGroup; make sure first that there is a coordinator."""
    for version in peer.versions(JoinGroupRequest):
        make_topic(peer, GROUP)
        yield version


def alone(peer: Peer) -> None:
    """One member comes, works and goes: every version of everything."""
    for version in joins(peer):
        with room(peer, f"group-{version}") as group:
            member = group.member(version, "one", protocols=("range", "roundrobin"))
            group.describe(f"nothing, {version}")
            member.join("new")
            group.describe(f"joined, {version}")
            for sync in peer.versions(SyncGroupRequest):
                request = member.sync_request({member.member_id: b"all of it"})
                peer.ask(f"sync after {version}", request, sync)
            group.describe(f"synced, {version}")
            for beat in peer.versions(HeartbeatRequest):
                peer.ask(f"heartbeat after {version}", member.heartbeat_request(), beat)
            member.join("again")
            member.sync(f"again {version}")
            for leave in peer.versions(LeaveGroupRequest):
                peer.ask(f"leave after {version}", member.leave_request(), leave)
            group.describe(f"left, {version}")
            for delete in peer.versions(DeleteGroupsRequest):
                peer.ask(f"delete after {version}", DeleteGroupsRequest([group.name]), delete)


def refused_joins(peer: Peer) -> None:
    """Joins that never become members, to a group that is not there and to one that is."""
    for version in joins(peer):
        with room(peer, f"group-{version}") as group:
            stranger = group.member(version, "stranger")
            _ask_wrong_joins(peer, f"no group {version}", stranger)
            group.describe(f"after refusals, {version}")
            member = group.member(version, "one")
            member.join("new")
            member.sync(f"new {version}", {member.member_id: b"x"})
            _ask_wrong_joins(peer, f"a group {version}", stranger)
            member.join("still there")
            group.describe(f"in the end, {version}")


def _ask_wrong_joins(peer: Peer, label: str, member: Member) -> None:
    wrong: dict[str, dict[str, Any]] = {
        "nameless group": {"group_id": ""},
        "short session": {"session_timeout_ms": 5_999},
        "long session": {"session_timeout_ms": 1_800_001},
        "no session": {"session_timeout_ms": 0},
        "unknown member": {"member_id": "nobody"},
        "no protocols": {"protocols": []},
        "no type": {"protocol_type": ""},
        "neither": {"protocol_type": "", "protocols": []},
        "other type": {"protocol_type": "connect", "member_id": "nobody"},
        "other protocol": {
            "protocols": [JoinGroupRequestProtocol("other", b"")],
            "member_id": "nobody",
        },
    }
    if member.version >= FIRST_WITH_INSTANCES:
        wrong["unknown instance"] = {"group_instance_id": "i", "member_id": "nobody"}
    for what, changes in wrong.items():
        peer.ask(f"{label}: {what}", member.join_request(**changes), member.version)


def odd_joins(peer: Peer) -> None:
    """Joins that look wrong and are taken: what members say to each other is their affair."""
    for version in joins(peer):
        for number, (what, changes) in enumerate(_odd().items()):
            if version == 0 and "rebalance_timeout_ms" in changes:
                continue
            with room(peer, f"group-{version}-{number}") as group:
                member = group.member(version, "one")
                member.join(what)
                member.join(f"{what}, so", **changes)
                group.describe(f"{what} {version}")
                topic = OffsetDeleteRequestTopic("t", [OffsetDeleteRequestPartition(0)])
                peer.ask(f"{what} {version}", OffsetDeleteRequest(group.name, [topic]), 0)


def odd_instances(peer: Peer) -> None:
    """Names for instances that Kafka's own clients would not take."""
    for version in joins(peer):
        if version < FIRST_WITH_INSTANCES:
            continue
        for number, instance in enumerate(("", ".", "a b", "x" * 250, "\u00e4")):
            with room(peer, f"group-{version}-{number}") as group:
                member = group.member(version, f"member {number}", instance=instance)
                member.join("odd")


def _odd() -> dict[str, dict[str, Any]]:
    def subscribed(data: bytes) -> dict[str, Any]:
        return {"protocols": [JoinGroupRequestProtocol("range", data)]}

    return {
        "same": {},
        "no subscription": subscribed(b""),
        "cut": subscribed(b"\0"),
        "negative version": subscribed(b"\xff\xff\0\0\0\0"),
        "many topics": subscribed(struct.pack(">hi", 0, 1 << 30)),
        "cut topic": subscribed(struct.pack(">hih", 0, 1, 99) + b"t"),
        "not text": subscribed(struct.pack(">hih", 0, 1, 2) + b"\xff\xfe" + b"\xff" * 4),
        "subscribed to t": subscribed(struct.pack(">hih", 0, 1, 1) + b"t" + b"\xff" * 4),
        "subscribed to u": subscribed(struct.pack(">hih", 3, 1, 1) + b"u" + b"\xff" * 4),
        "nameless protocol": {"protocols": [JoinGroupRequestProtocol("", b"")]},
        "one protocol twice": {
            "protocols": [
                JoinGroupRequestProtocol("range", b"1"),
                JoinGroupRequestProtocol("range", b"2"),
            ]
        },
        "connect": {"protocol_type": "connect"},
        "negative rebalance time": {"rebalance_timeout_ms": -7},
    }


def together(peer: Peer) -> None:
    """Two members: the second waits for the first, the follower for the leader's assignment."""
    for version in joins(peer):
        with room(peer, f"group-{version}") as group:
            one = group.member(version, "one", protocols=("a", "b", "c"))
            two = group.member(version, "two", protocols=("c", "b"))
            one.join("first")
            one.sync(f"first {version}", {one.member_id: b"everything"})
            two.send_join("second")
            one.wait_for(ErrorCode.REBALANCE_IN_PROGRESS)
            _look(f"rebalance {version}", one)
            one.send_join("second")
            one.joined("second")
            two.joined("second")
            _look(f"to be synced {version}", one, two)
            two.send_sync({})
            one.send_sync({one.member_id: b"half", two.member_id: b"rest", "nobody": b"none"})
            one.synced(f"second {version}")
            two.synced(f"second {version}")
            _look(f"stable {version}", one, two)
            one.leave(f"third {version}")
            two.wait_for(ErrorCode.REBALANCE_IN_PROGRESS)
            two.join("third")
            two.sync(f"third {version}", {})
            _look(f"alone {version}", two, one)
            two.leave(f"fourth {version}")
            _look(f"empty {version}", two)


def _look(label: str, *members: Member) -> None:
    """Everything that members and others may ask in a state without changing it."""
    group, peer = members[0].room, members[0].peer
    group.describe(label)
    for member in members:
        _ask_state(peer, f"{label}, {member.about}", member)
    peer.ask(f"delete {label}", DeleteGroupsRequest([group.name]), 2)


def _ask_state(peer: Peer, label: str, member: Member) -> None:
    changes: dict[str, dict[str, Any]] = {
        "its own": {},
        "stale": {"generation_id": member.generation - 1},
        "early": {"generation_id": member.generation + 1},
        "no generation": {"generation_id": -1},
        "unknown member": {"member_id": "nobody"},
        "no member": {"member_id": ""},
        "nameless group": {"group_id": ""},
        "no group": {"group_id": "there is no such group"},
    }
    for what, change in changes.items():
        for version in peer.versions(HeartbeatRequest):
            peer.ask(f"heartbeat {label}, {what}", member.heartbeat_request(**change), version)
        _ask_commit(peer, f"commit {label}, {what}", member, **change)
        if change:
            for version in peer.versions(SyncGroupRequest):
                peer.ask(f"sync {label}, {what}", member.sync_request({}, **change), version)


def _ask_commit(peer: Peer, label: str, member: Member, **changes: Any) -> None:
    """Commit to a topic that is not there: who may is found out first."""
    topic = OffsetCommitRequestTopic("nothing", partitions=[OffsetCommitRequestPartition(0, 1)])
    request = OffsetCommitRequest(
        member.room.name, member.generation, member.member_id, topics=[topic]
    )
    if "generation_id" in changes:
        changes["generation_id_or_member_epoch"] = changes.pop("generation_id")
    for version in (2, 9):
        if version in peer.versions(OffsetCommitRequest):
            peer.ask(label, changed(request, changes), version)


def wrong_protocols(peer: Peer) -> None:
    """A member that has nothing in common with the others, and one that syncs for another."""
    for version in joins(peer):
        with room(peer, f"group-{version}") as group:
            one = group.member(version, "one", protocols=("a", "b"))
            one.join("first")
            one.sync(f"first {version}", {one.member_id: b"x"})
            for what, changes in {
                "protocol": {"protocols": [JoinGroupRequestProtocol("z", b"")]},
                "type": {"protocol_type": "connect"},
            }.items():
                other = group.member(version, f"other {what}")
                other.join("refused", **changes)
            for sync in peer.versions(SyncGroupRequest, PROTOCOL_IN_SYNC):
                for kind, name in (
                    ("consumer", "a"), ("connect", "a"), ("consumer", "b"), (None, "a"),
                    ("consumer", None),
                ):  # fmt: skip
                    asked = {"protocol_type": kind, "protocol_name": name}
                    request = one.sync_request({}, **asked)
                    peer.ask(f"{version} syncs as {kind}, {name}", request, sync)
            group.describe(f"at last {version}")


def bounced(peer: Peer) -> None:
    """A static member that comes back as another process: no rebalance, the old one is fenced."""
    for version in joins(peer):
        if version < FIRST_WITH_INSTANCES:
            continue
        with room(peer, f"group-{version}") as group:
            lead, before = _static_pair(group, version)
            after = group.member(version, "two", instance="second")
            after.join("back")
            after.sync(f"back {version}")
            group.describe(f"back {version}")
            for what, member in {"replaced": before, "new": after, "other": lead}.items():
                _ask_as_instance(peer, f"{what} {version}", member)
            again = group.member(version, "one", instance="first")
            again.join("leader back")
            again.sync(f"leader back {version}", {again.member_id: b"newly assigned"})
            _ask_as_instance(peer, f"leader {version}", again)
            _ask_as_instance(peer, f"leader replaced {version}", lead)
            before.join("fenced")
            group.describe(f"leader back {version}")


def _static_pair(group: Room, version: int, about: str = "") -> tuple[Member, Member]:
    """Two static members with an assignment; `about` tells them from others in the record."""
    one = group.member(version, f"one{about}", instance="first")
    two = group.member(version, f"two{about}", instance="second")
    one.join("first")
    one.sync(f"first {version}", {one.member_id: b"all"})
    two.send_join("second")
    one.wait_for(ErrorCode.REBALANCE_IN_PROGRESS)
    one.send_join("second")
    one.joined("second")
    two.joined("second")
    one.sync(f"second {version}", {one.member_id: b"half", two.member_id: b"rest"})
    two.sync(f"second {version}")
    return one, two


def _ask_as_instance(peer: Peer, label: str, member: Member) -> None:
    for what, changes in {
        "its own": {},
        "dynamic": {"group_instance_id": None},
        "other instance": {"group_instance_id": "nobody's"},
        "unknown member": {"member_id": "nobody"},
    }.items():
        for version in peer.versions(HeartbeatRequest, INSTANCES_IN_SYNC):
            peer.ask(f"heartbeat {label}, {what}", member.heartbeat_request(**changes), version)
        for version in peer.versions(SyncGroupRequest, INSTANCES_IN_SYNC):
            peer.ask(f"sync {label}, {what}", member.sync_request({}, **changes), version)
        as_instance = {"group_instance_id": member.instance} | changes
        _ask_commit_as_instance(peer, f"commit {label}, {what}", member, as_instance)


def _ask_commit_as_instance(peer: Peer, label: str, member: Member, fields: dict[str, Any]) -> None:
    topic = OffsetCommitRequestTopic("nothing", partitions=[OffsetCommitRequestPartition(0, 1)])
    request = OffsetCommitRequest(
        member.room.name, member.generation, member.member_id, topics=[topic]
    )
    for version in peer.versions(OffsetCommitRequest, 7, 9):
        peer.ask(label, changed(request, fields), version)


def static_changes(peer: Peer) -> None:
    """A static member that comes back with another subscription or protocol: that counts."""
    for version in joins(peer):
        if version < FIRST_WITH_INSTANCES:
            continue
        with room(peer, f"group-{version}") as group:
            one = group.member(version, "one", instance="first", protocols=("a", "b"))
            one.join("first")
            one.sync(f"first {version}", {one.member_id: b"all"})
            other = group.member(version, "changed", instance="first", protocols=("a", "b"))
            other.join("other subscription")
            other.sync(f"other subscription {version}", {other.member_id: b"all"})
            third = group.member(version, "third", instance="first", protocols=("b",))
            third.join("other protocol")
            _ask_as_instance(peer, f"before sync {version}", third)
            fourth = group.member(version, "fourth", instance="first", protocols=("b",))
            fourth.join("before sync")
            group.describe(f"at last {version}")


def left(peer: Peer) -> None:
    """Several members leave at once, some of whom are not there."""
    for version in peer.versions(LeaveGroupRequest):
        make_topic(peer, GROUP)
        newest = peer.newest(JoinGroupRequest)
        with room(peer, f"group-{version}") as group:
            for what, request in _wrong_leaves(group.name).items():
                peer.ask(f"no group: {what}", request, version)
            one, _ = _static_pair(group, newest, f" before {version}")
            for what, request in _wrong_leaves(group.name).items():
                peer.ask(f"a group: {what}", request, version)
            if version < FIRST_LEAVING_TOGETHER:
                continue
            for what, leaving in {
                "fenced": [LeaveGroupMember("nobody", "first")],
                "wrong instance": [LeaveGroupMember(one.member_id, "second")],
                "by instance": [LeaveGroupMember("", "second"), LeaveGroupMember("x", None)],
                "twice": [LeaveGroupMember(one.member_id, None)] * 2,
            }.items():
                peer.ask(what, LeaveGroupRequest(group.name, members=leaving), version)
            group.describe(f"after {version}")


def _wrong_leaves(group: str) -> dict[str, LeaveGroupRequest]:
    return {
        "nobody": LeaveGroupRequest(group, "nobody", [LeaveGroupMember("nobody")]),
        "nameless": LeaveGroupRequest(group, "", [LeaveGroupMember("")]),
        "unknown instance": LeaveGroupRequest(group, "x", [LeaveGroupMember("", "unknown")]),
        "none": LeaveGroupRequest(group, "x", []),
        "nameless group": LeaveGroupRequest("", "nobody", [LeaveGroupMember("nobody")]),
    }


def dropped(peer: Peer) -> None:
    """Who does not come back in time is dropped, and so is who does not sync.

    The time is long enough to look at the group before it is over, also on a busy machine.
    """
    for version in joins(peer):
        if version != peer.newest(JoinGroupRequest):
            continue
        with room(peer, f"group-{version}") as group:
            one = group.member(version, "one", rebalance_ms=2_000)
            two = group.member(version, "two", rebalance_ms=2_000)
            one.join("first")
            one.sync("first", {one.member_id: b"all"})
            two.send_join("second")
            two.joined("second")
            _look("one is dropped", two, one)
            two.wait_for(ErrorCode.UNKNOWN_MEMBER_ID)
            _look("two is dropped", two)


def pending(peer: Peer) -> None:
    """A member that was told its id and has not come back is in no generation yet."""
    for version in joins(peer):
        if version < 4:
            continue
        with room(peer, f"group-{version}") as group:
            one = group.member(version, "one")
            answer = one.client.call(one.join_request(), version)
            peer.note_answer(f"told its id v{version}", answer)
            one.member_id = answer.member_id
            peer.until(lambda here=group: here.in_state("Empty"), "the group is there")
            _look(f"pending {version}", one)
            other = group.member(version, "two")
            other.join("beside")
            other.sync(f"beside {version}", {other.member_id: b"all"})
            _look(f"beside {version}", one)
            for leave in peer.versions(LeaveGroupRequest):
                peer.ask(f"leave {version}", one.leave_request(), leave)
            one.join("came too late")


def administered(peer: Peer) -> None:
    for version in peer.versions(DescribeGroupsRequest):
        make_topic(peer, GROUP)
        for names in ([], [""], ["nobody", "nobody"], ["nobody", ""]):
            answer = peer.call(DescribeGroupsRequest(names), version)
            answer.groups.sort(key=lambda one: one.group_id)
            peer.note_answer(f"{names} v{version}", answer)
    for version in peer.versions(DeleteGroupsRequest):
        for names in ([""], ["nobody", ""]):
            answer = peer.call(DeleteGroupsRequest(names), version)
            answer.results.sort(key=lambda one: one.group_id)
            peer.note_answer(f"delete {names} v{version}", answer)


SCENARIOS = (
    alone, refused_joins, odd_joins, odd_instances, together, wrong_protocols, bounced,
    static_changes, left, dropped, pending, administered,
)  # fmt: skip
