"""LeaveGroup: one member, several, those an administrator puts out."""

import pytest

from kits.group_kit import Desk
from moldau.coordination.groups.responses import leave_without_group
from moldau.coordination.groups.states import GroupState
from moldau.coordination.outcome import Caller
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import LeaveGroupMember, LeaveGroupRequest


@pytest.fixture
def desk():
    return Desk()


def codes(waiter):
    return [one.error_code for one in waiter.answer.members]


@pytest.mark.parametrize("version", range(6))
def test_every_version_can_leave(desk, version):
    leader, follower = desk.stable(2)
    left = desk.leave(follower, version=version)
    assert left.error is ErrorCode.NONE
    assert codes(left) == ([] if version < 3 else [0])
    assert desk.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(6))
def test_a_stranger_cannot_leave(desk, version):
    desk.stable(1)
    left = desk.leave("nobody", version=version)
    if version < 3:
        assert left.error is ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert left.error is ErrorCode.NONE
        assert codes(left) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert desk.group.state is GroupState.STABLE


def test_several_members_leave_in_one_rebalance(desk):
    first, second, third = desk.stable(3)
    left = desk.leave(second, LeaveGroupMember("nobody"), LeaveGroupMember(third, None, "done"))
    assert codes(left) == [0, ErrorCode.UNKNOWN_MEMBER_ID, 0]
    assert (
        f"{second} left; client gives no reason, {third} left; client says: done"
        in (desk.notes[-1])
    )
    joined = desk.join(first)
    assert joined.answer.generation_id == 2
    assert len(joined.answer.members) == 1


def test_the_last_member_leaves_an_empty_group(desk):
    members = desk.stable(2)
    assert codes(desk.leave(*members)) == [0, 0]
    assert desk.group.is_empty
    assert desk.log[-1].members == ()
    assert desk.group.generation == 2


def test_when_the_leader_leaves_the_oldest_member_leads(desk):
    leader, second, third = desk.stable(3)
    desk.leave(leader)
    joined = [desk.join(third), desk.join(second)]
    assert {one.answer.leader for one in joined} == {second}


def test_who_leaves_while_the_others_wait_lets_them_go_on(desk):
    leader, second, third = desk.stable(3)
    waiting = [desk.join(leader), desk.join(second)]
    desk.leave(third)
    assert {one.answer.generation_id for one in waiting} == {2}


def test_who_leaves_while_it_waits_is_answered(desk):
    leader, follower = desk.stable(2)
    waiting = desk.join(leader)
    desk.leave(leader)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    joined = desk.join(follower)
    assert joined.answer.leader == follower


def test_who_leaves_while_it_waits_for_its_assignment_is_answered(desk):
    _, follower = desk.members(2)
    waiting = desk.sync(follower, 1)
    desk.leave(follower)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.group.state is GroupState.PREPARING_REBALANCE


def test_somebody_expected_may_leave_without_a_rebalance(desk):
    desk.stable(1)
    pending = desk.member_id()
    assert codes(desk.leave(pending)) == [0]
    assert desk.group.state is GroupState.STABLE
    assert desk.join(pending).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_somebody_expected_who_leaves_lets_a_rebalance_go_on(desk):
    (leader,) = desk.stable(1)
    pending = desk.member_id()
    waiting = desk.join(leader)
    desk.leave(pending)
    assert waiting.error is ErrorCode.NONE


def test_static_members_are_put_out_by_their_instance_id(desk):
    desk.join(instance="i1")
    desk.join(instance="i2")
    desk.advance(6)
    left = desk.leave(
        LeaveGroupMember("", "i1"),
        LeaveGroupMember("", "i3"),
        LeaveGroupMember("wrong", "i2"),
        LeaveGroupMember(""),
    )
    assert codes(left) == [
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert [one.group_instance_id for one in left.answer.members] == ["i1", "i3", "i2", None]
    assert [one.group_instance_id for one in desk.group.described().members] == ["i2"]


def test_a_static_member_may_leave_by_both_ids(desk):
    joined = desk.join(instance="i1")
    desk.advance(3)
    assert codes(desk.leave(LeaveGroupMember(joined.answer.member_id, "i1"))) == [0]
    assert desk.group.is_empty


def test_leaving_a_group_that_is_not_there_names_every_member():
    request = LeaveGroupRequest("g", members=[LeaveGroupMember("a"), LeaveGroupMember("b", "i")])
    answer = leave_without_group(request, Caller(3, "", ""))
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("a", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("b", "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    old = leave_without_group(LeaveGroupRequest("g", "a"), Caller(0, "", ""))
    assert old.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_line_about_many_that_left_names_some_and_counts_the_others(desk):
    members = desk.stable(12)
    assert codes(desk.leave(*members[1:], LeaveGroupMember("nobody"))) == [*[0] * 11, 25]
    assert desk.notes[-1].count(" left; ") == 10
    assert "and 1 more left" in desk.notes[-1]
