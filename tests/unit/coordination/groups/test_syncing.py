"""SyncGroup and Heartbeat: assignments reach exactly the members of their generation."""

import pytest

from kits.group_kit import Desk
from moldau.coordination.groups.states import GroupState
from moldau.protocol.errors import ErrorCode


@pytest.fixture
def desk():
    return Desk()


@pytest.mark.parametrize("version", range(6))
def test_every_version_is_assigned(desk, version):
    leader, follower = desk.members(2)
    waiting = desk.sync(follower, 1, version=version)
    assert waiting.answer is None
    led = desk.sync(leader, 1, {leader: b"a", follower: b"b"}, version=version)
    assert (led.answer.assignment, waiting.answer.assignment) == (b"a", b"b")
    assert desk.group.state is GroupState.STABLE
    if version >= 5:
        assert (led.answer.protocol_type, led.answer.protocol_name) == ("consumer", "range")


def test_a_member_that_comes_late_gets_its_assignment(desk):
    leader, follower = desk.members(2)
    desk.sync(leader, 1, {follower: b"b"})
    assert desk.sync(follower, 1).answer.assignment == b"b"


def test_members_the_leader_forgot_get_nothing_and_strangers_are_ignored(desk):
    leader, follower = desk.members(2)
    waiting = desk.sync(follower, 1)
    led = desk.sync(leader, 1, {"stranger": b"x"})
    assert (led.answer.assignment, waiting.answer.assignment) == (b"", b"")
    assert [one.assignment for one in desk.log[-1].members] == [b"", b""]


def test_the_assignment_is_written_as_the_group_record(desk):
    leader, follower = desk.members(2)
    desk.sync(leader, 1, {leader: b"a", follower: b"b"})
    (snapshot,) = desk.log
    assert (snapshot.protocol_type, snapshot.generation, snapshot.protocol, snapshot.leader) == (
        "consumer",
        1,
        "range",
        leader,
    )
    first, second = snapshot.members
    assert (first.member_id, first.instance_id, first.client_id, first.client_host) == (
        leader,
        None,
        "app",
        "/127.0.0.1",
    )
    assert (first.assignment, second.assignment) == (b"a", b"b")
    assert first.subscription == second.subscription != b""


def test_only_members_of_the_generation_are_assigned(desk):
    leader, follower = desk.members(2)
    assert desk.sync("nobody", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.sync(follower, 0).error is ErrorCode.ILLEGAL_GENERATION
    assert desk.sync(leader, 2).error is ErrorCode.ILLEGAL_GENERATION
    assert desk.sync(leader, 1, instance="i").error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocol": "sticky"},
        {"protocol_type": "connect"},
        {"protocol": None},
        {"protocol_type": None},
    ],
)
def test_a_member_must_follow_the_protocol_of_its_generation(desk, wrong):
    _, follower = desk.members(2)
    assert desk.sync(follower, 1, **wrong).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_has_nothing_to_assign(desk):
    assert desk.sync("m", 0).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_during_a_rebalance_asks_to_join_again(desk):
    leader, follower = desk.stable(2)
    desk.join(leader)
    assert desk.sync(follower, 1).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_that_is_repeated_replaces_the_earlier_one(desk):
    leader, follower = desk.members(2)
    first, second = desk.sync(follower, 1), desk.sync(follower, 1)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.sync(leader, 1, {follower: b"b"})
    assert second.answer.assignment == b"b"


def test_those_who_join_but_never_sync_are_put_out(desk):
    leader, silent = desk.members(2, session_ms=10_000, rebalance_ms=20_000)
    desk.sync(leader, 1, {leader: b"a", silent: b"b"})
    desk.advance(9)
    desk.heartbeat(silent, 1)
    desk.heartbeat(leader, 1)
    desk.advance(9)
    assert desk.heartbeat(silent, 1) is desk.heartbeat(leader, 1) is ErrorCode.NONE
    desk.advance(2)
    assert desk.heartbeat(silent, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.join(leader).answer.generation_id == 2


def test_a_leader_that_never_syncs_does_not_hold_the_others(desk):
    leader, follower = desk.members(2, session_ms=30_000, rebalance_ms=20_000)
    waiting = desk.sync(follower, 1)
    desk.advance(20)
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    joined = desk.join(follower)
    assert joined.answer.leader == follower


def test_the_sync_phase_has_no_timer_once_all_have_asked(desk):
    leader, follower = desk.members(2)
    assert any(key.kind == "sync" for key in desk.timers)
    key = next(key for key in desk.timers if key.kind == "sync")
    desk.sync(leader, 1, {})
    desk.sync(follower, 1)
    assert key not in desk.timers
    assert desk.group.timer_fired(key, desk.now).timers == ()


def test_a_dead_group_sends_everybody_away(desk):
    (member,) = desk.stable(1)
    key = next(key for key in desk.timers if key.kind == "session")
    desk.group.ended()
    assert desk.sync(member, 1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.heartbeat(member, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.leave(member).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.group.timer_fired(key, desk.now).replies == ()


# Heartbeats


def test_heartbeats_of_strangers_and_of_other_generations_are_refused(desk):
    assert desk.heartbeat("m", 0) is ErrorCode.UNKNOWN_MEMBER_ID
    leader, _ = desk.stable(2)
    assert desk.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(leader, 0) is ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert desk.heartbeat(leader, 1, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_are_fine_while_assignments_are_made(desk):
    leader, _ = desk.members(2)
    assert desk.heartbeat(leader, 1) is ErrorCode.NONE


def test_a_heartbeat_waits_for_no_commit(desk):
    (member,) = desk.members(1)
    desk.commits_at_once = False
    desk.sync(member, 1, {})
    assert desk.heartbeat(member, 1) is ErrorCode.NONE
