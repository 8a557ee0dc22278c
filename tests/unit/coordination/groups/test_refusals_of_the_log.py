"""A group whose records are refused, or committed late: nobody sees what is not in the log."""

import pytest

from kits.group_kit import Desk
from moldau.coordination.groups.states import GroupState
from moldau.protocol.errors import ErrorCode


@pytest.fixture
def desk():
    return Desk()


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_reaches_nobody(desk, refusal, told):
    leader, follower = desk.members(2)
    waiting = desk.sync(follower, 1)
    desk.refuses = refusal
    led = desk.sync(leader, 1, {leader: b"a", follower: b"b"})
    assert waiting.error is led.error is told
    assert led.answer.assignment == waiting.answer.assignment == b""
    assert desk.group.state is GroupState.PREPARING_REBALANCE
    desk.refuses = None
    joined = [desk.join(leader), desk.join(follower)]
    assert {one.answer.generation_id for one in joined} == {2}
    assert desk.sync(leader, 2, {leader: b"c"}).answer.assignment == b"c"


def test_an_assignment_is_seen_once_it_is_committed(desk):
    leader, follower = desk.members(2)
    desk.commits_at_once = False
    led = desk.sync(leader, 1, {leader: b"a", follower: b"b"})
    waiting = desk.sync(follower, 1)
    assert led.answer is waiting.answer is None
    assert desk.group.check_commit(leader, None, 1, transactional=False) is (
        ErrorCode.REBALANCE_IN_PROGRESS
    )
    desk.commit()
    assert (led.answer.assignment, waiting.answer.assignment) == (b"a", b"b")


def test_a_leader_that_repeats_its_sync_does_not_store_a_second_assignment(desk):
    (leader,) = desk.members(1)
    desk.commits_at_once = False
    desk.sync(leader, 1, {leader: b"a"})
    again = desk.sync(leader, 1, {leader: b"b"})
    desk.commit()
    assert again.answer.assignment == b"a"
    assert [one.members[0].assignment for one in desk.log] == [b"a"]


def test_a_rebalance_meanwhile_overtakes_an_assignment(desk):
    leader, follower = desk.members(2)
    waiting = desk.sync(follower, 1)
    desk.commits_at_once = False
    led = desk.sync(leader, 1, {leader: b"a", follower: b"b"})
    desk.join(follower, protocols=(("range", b"new"),))
    desk.commits_at_once = True
    desk.commit()
    assert desk.group.state is GroupState.PREPARING_REBALANCE
    assert waiting.error is led.error is ErrorCode.REBALANCE_IN_PROGRESS
    joined = desk.join(leader)
    assert joined.answer.generation_id == 2
    assert desk.sync(leader, 2, {leader: b"c"}).answer.assignment == b"c"


def test_an_assignment_that_is_committed_late_is_not_that_of_the_next_generation(desk):
    leader, follower = desk.members(2)
    desk.commits_at_once = False
    desk.sync(leader, 1, {leader: b"a", follower: b"b"})
    joined = [desk.join(follower, protocols=(("range", b"new"),)), desk.join(leader)]
    desk.commit()
    assert {one.answer.generation_id for one in joined} == {2}
    assert desk.group.state is GroupState.COMPLETING_REBALANCE


def test_a_group_that_cannot_write_that_it_is_empty_is_empty_all_the_same(desk):
    desk.stable(1)
    desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.advance(10)
    assert desk.group.is_empty
    assert not desk.timers
    desk.refuses = None
    joined = desk.join(desk.member_id())
    desk.advance(3)
    assert joined.answer.generation_id == 3


@pytest.mark.parametrize("version", [2, 3])
def test_the_last_to_leave_is_told_that_it_could_not_be_written(desk, version):
    (member,) = desk.stable(1)
    desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    left = desk.leave(member, version=version)
    assert left.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.group.is_empty
    assert not desk.timers


def test_those_who_waited_are_answered_also_when_the_record_is_refused(desk):
    (member,) = desk.stable(1)
    pending = desk.member_id()
    waiting = desk.join(member)
    desk.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    left = desk.leave(pending, member)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert left.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_nothing_comes_late_to_a_group_that_has_ended(desk):
    (leader,) = desk.members(1)
    desk.commits_at_once = False
    led = desk.sync(leader, 1, {leader: b"a"})
    desk.group.ended()
    desk.commit()
    assert led.answer is None
    assert desk.group.state is GroupState.DEAD
