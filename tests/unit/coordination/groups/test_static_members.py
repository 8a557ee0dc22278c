"""Static members (KIP-345): they come back without a rebalance, and fence whoever was before."""

import pytest

from kits.group_kit import Desk, subscription
from moldau.coordination.groups.states import GroupState
from moldau.protocol.errors import ErrorCode

RANGE = ("range", subscription("orders"))
STICKY = ("sticky", subscription("orders"))


@pytest.fixture
def desk():
    return Desk()


def stable(desk, *instances, **join):
    """Form a stable group of static members; return their ids, the leader's first."""
    joins = [desk.join(instance=one, **join) for one in instances]
    desk.advance(6)
    ids = [one.answer.member_id for one in joins]
    parts = {member_id: member_id.encode() for member_id in ids}
    for member_id, instance in zip(ids, instances, strict=True):
        desk.sync(member_id, 1, parts, instance=instance)
    return ids


def test_a_static_member_joins_at_once_under_an_id_made_of_its_instance(desk):
    joined = desk.join(instance="i1")
    assert joined.answer is None
    desk.advance(3)
    assert joined.answer.member_id.startswith("i1-")
    assert joined.answer.members[0].group_instance_id == "i1"


def test_a_follower_that_comes_back_takes_its_place_without_a_rebalance(desk):
    leader, follower = stable(desk, "i1", "i2")
    back = desk.join(instance="i2", client_id="moved")
    assert back.error is ErrorCode.NONE
    new_id = back.answer.member_id
    assert new_id != follower
    assert (back.answer.generation_id, back.answer.leader) == (1, leader)
    assert desk.group.state is GroupState.STABLE
    assert desk.sync(new_id, 1, instance="i2").answer.assignment == follower.encode()
    assert desk.heartbeat(leader, 1, instance="i1") is ErrorCode.NONE
    assert {one.client_id for one in desk.log[-1].members} == {"app", "moved"}
    assert {one.member_id for one in desk.log[-1].members} == {leader, new_id}


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_leader_that_comes_back_does_not_assign_again(desk, version):
    leader, follower = stable(desk, "i1", "i2")
    back = desk.join(instance="i1", version=version)
    new_id = back.answer.member_id
    if version >= 9:
        assert back.answer.skip_assignment
        assert back.answer.leader == new_id
        assert {one.member_id for one in back.answer.members} == {new_id, follower}
    else:
        assert not back.answer.skip_assignment
        assert back.answer.leader == leader
        assert back.answer.members == []
    assert desk.group.state is GroupState.STABLE
    assert desk.log[-1].leader == new_id


def test_the_predecessor_is_fenced_everywhere(desk):
    _, old = stable(desk, "i1", "i2")
    desk.join(instance="i2")
    assert desk.join(old, instance="i2").error is ErrorCode.FENCED_INSTANCE_ID
    assert desk.sync(old, 1, instance="i2").error is ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat(old, 1, instance="i2") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.group.check_commit(old, "i2", 1, transactional=False) is (
        ErrorCode.FENCED_INSTANCE_ID
    )


def test_a_predecessor_that_waits_is_told_that_it_is_fenced(desk):
    leader, follower = stable(desk, "i1", "i2")
    waiting = desk.join(leader, instance="i1")
    back = desk.join(instance="i1")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert waiting.answer.member_id == leader
    desk.join(follower, instance="i2")
    assert back.answer.generation_id == 2
    assert back.answer.leader == back.answer.member_id


def test_a_return_before_the_assignment_begins_a_rebalance(desk):
    desk.join(instance="i1")
    joined = desk.join(instance="i2")
    desk.advance(6)
    waiting = desk.sync(joined.answer.member_id, 1, instance="i2")
    back = desk.join(instance="i2")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    assert back.answer is None
    assert desk.group.state is GroupState.PREPARING_REBALANCE


def test_a_return_that_changes_the_protocol_begins_a_rebalance(desk):
    leader, _ = stable(desk, "i1", "i2", protocols=(RANGE, STICKY))
    back = desk.join(instance="i2", protocols=(STICKY, ("own", b""), RANGE))
    assert back.error is ErrorCode.NONE, "a tie goes to the oldest member: still range"
    changed = desk.join(instance="i2", protocols=(STICKY,))
    assert changed.answer is None
    desk.join(leader, instance="i1", protocols=(RANGE, STICKY))
    assert changed.answer.protocol_name == "sticky"


def test_a_return_with_another_subscription_is_known_to_the_coordinator(desk):
    stable(desk, "i1", "i2")
    desk.join(instance="i2", protocols=(("range", subscription("clicks")),))
    assert desk.group.is_subscribed_to("clicks")
    assert desk.group.is_subscribed_to("orders")


def test_a_static_member_that_is_away_has_its_session_to_come_back(desk):
    leader, follower = stable(desk, "i1", "i2", session_ms=10_000, rebalance_ms=8_000)
    desk.advance(5)
    desk.heartbeat(follower, 1, instance="i2")
    joined = desk.join(leader, instance="i1", session_ms=10_000, rebalance_ms=8_000)
    desk.advance(8)
    assert {one.member_id for one in joined.answer.members} == {leader, follower}
    assert desk.heartbeat(leader, 2, instance="i1") is ErrorCode.NONE


def test_a_rebalance_waits_if_all_static_members_are_away(desk):
    leader, follower = stable(desk, "i1", "i2", session_ms=20_000, rebalance_ms=8_000)
    pending = desk.member_id(rebalance_ms=8_000)
    desk.join(pending, rebalance_ms=8_000)
    desk.leave(pending)
    desk.advance(8)
    assert desk.group.state is GroupState.PREPARING_REBALANCE
    assert "nobody joined" in desk.notes[-1]
    back = desk.join(follower, instance="i2", rebalance_ms=8_000)
    desk.advance(8)
    assert back.answer.leader == follower
    assert {one.member_id for one in back.answer.members} == {leader, follower}


def test_a_static_member_that_stays_away_is_put_out(desk):
    leader, _ = stable(desk, "i1", "i2", session_ms=10_000)
    desk.advance(9)
    desk.heartbeat(leader, 1, instance="i1")
    desk.advance(1)
    assert desk.join(leader, instance="i1").answer.generation_id == 2
    assert len(desk.group.described().members) == 1


def test_one_that_returns_before_it_synced_may_sync_under_its_new_id(desk):
    joins = [desk.join(instance="i1"), desk.join(instance="i2")]
    desk.advance(6)
    leader, follower = (one.answer.member_id for one in joins)
    desk.sync(leader, 1, {leader: b"a", follower: b"b"}, instance="i1")
    new_id = desk.join(instance="i2").answer.member_id
    assert desk.sync(new_id, 1, instance="i2").answer.assignment == b"b"
    assert not any(key.kind == "sync" for key in desk.timers)


def test_static_members_are_known_after_a_restart(desk):
    leader, follower = stable(desk, "i1", "i2")
    desk.restart()
    back = desk.join(instance="i2")
    assert back.answer.leader == leader
    assert desk.heartbeat(follower, 1, instance="i2") is ErrorCode.FENCED_INSTANCE_ID


# While the record of a return is under way


def test_a_return_is_answered_once_its_record_is_committed(desk):
    stable(desk, "i1", "i2")
    desk.commits_at_once = False
    back = desk.join(instance="i2")
    assert back.answer is None
    desk.commit()
    assert back.error is ErrorCode.NONE


def test_a_rebalance_meanwhile_takes_the_returning_member_along(desk):
    leader, _ = stable(desk, "i1", "i2")
    desk.commits_at_once = False
    back = desk.join(instance="i2")
    rejoined = desk.join(leader, instance="i1")
    desk.commit()
    assert back.answer.generation_id == rejoined.answer.generation_id == 2


def test_a_return_that_is_committed_during_a_rebalance_waits_for_its_end(desk):
    leader, _, third = stable(desk, "i1", "i2", "i3")
    desk.commits_at_once = False
    back = desk.join(instance="i2")
    desk.join(leader, instance="i1")
    desk.commit()
    assert back.answer is None
    desk.commits_at_once = True
    desk.join(third, instance="i3")
    assert back.answer.generation_id == 2


def test_a_second_return_meanwhile_fences_the_first(desk):
    stable(desk, "i1", "i2")
    desk.commits_at_once = False
    first, second = desk.join(instance="i2"), desk.join(instance="i2")
    desk.commit()
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    assert second.error is ErrorCode.NONE
    assert desk.heartbeat(second.answer.member_id, 1, instance="i2") is ErrorCode.NONE


def test_a_refused_return_leaves_the_predecessor_in_place(desk):
    leader, follower = stable(desk, "i1", "i2")
    before = desk.group.described()
    desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    back = desk.join(instance="i1", protocols=(("range", subscription("clicks")),))
    assert back.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.heartbeat(leader, 1, instance="i1") is ErrorCode.NONE
    assert not desk.group.is_subscribed_to("clicks")
    described = desk.group.described()
    assert sorted(described.members, key=str) == sorted(before.members, key=str)
    assert desk.join(follower, instance="i2").answer.leader == leader
    desk.advance(10)
    assert desk.group.is_empty, "its session goes on"
