"""Generations: the initial delay, sessions, what a rebalance waits for, whom it leaves behind."""

import pytest

from kits.group_kit import Desk
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.states import GroupState
from moldau.protocol.errors import ErrorCode


@pytest.fixture
def desk():
    return Desk()


# The initial delay


def test_the_first_rebalance_waits_for_more_members(desk):
    joined = desk.join(desk.member_id())
    desk.advance(2.999)
    assert joined.answer is None
    desk.advance(0.001)
    assert joined.error is ErrorCode.NONE


def test_the_initial_delay_is_extended_while_members_come(desk):
    joined = [desk.join(desk.member_id())]
    for _ in range(4):
        desk.advance(2)
        joined.append(desk.join(desk.member_id()))
    # Looked at after 3, 6 and 9 seconds: somebody had come each time, but not in the last three.
    desk.advance(3.999)
    assert joined[0].answer is None
    desk.advance(0.001)
    assert {one.answer.generation_id for one in joined} == {1}


def test_the_initial_delay_ends_with_the_rebalance_timeout(desk):
    first = desk.join(desk.member_id(), rebalance_ms=10_000)
    for second in range(10):
        assert first.answer is None, second
        desk.join(desk.member_id(), rebalance_ms=10_000)
        desk.advance(1)
    assert first.error is ErrorCode.NONE
    assert len(first.answer.members) == 11


def test_a_delay_longer_than_the_rebalance_timeout_is_not_extended(desk):
    first = desk.join(desk.member_id(), rebalance_ms=1000)
    second = desk.join(desk.member_id(), rebalance_ms=1000)
    desk.advance(3)
    assert first.error is second.error is ErrorCode.NONE


def test_without_a_delay_the_first_generation_begins_at_once():
    desk = Desk(GroupSettings(initial_rebalance_delay_ms=0))
    joined = desk.join(desk.member_id())
    desk.advance(0)
    assert joined.answer.generation_id == 1


def test_somebody_expected_who_does_not_come_does_not_end_the_initial_delay(desk):
    desk.member_id(session_ms=6_000)
    desk.advance(4)
    joined = desk.join(desk.member_id())
    desk.advance(2.5)  # the id that was given out first has expired
    assert joined.answer is None
    desk.advance(0.5)
    assert joined.answer.generation_id == 1


def test_a_member_whose_session_ends_does_not_end_the_initial_delay():
    desk = Desk(GroupSettings(initial_rebalance_delay_ms=400_000))
    gone = desk.join(desk.member_id(), rebalance_ms=1_000_000)
    desk.advance(150)
    joined = desk.join(desk.member_id(), rebalance_ms=1_000_000)
    desk.advance(200)  # five minutes are over for the first
    assert gone.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert joined.answer is None


def test_a_group_whose_members_leave_during_the_delay_is_empty_after_it(desk):
    member_id = desk.member_id()
    joined = desk.join(member_id)
    assert desk.leave(member_id).error is ErrorCode.NONE
    assert joined.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.group.state is GroupState.PREPARING_REBALANCE
    desk.advance(3)
    assert desk.group.is_empty
    assert desk.log[-1].members == ()


def test_a_member_may_come_after_all_left_during_the_delay(desk):
    first = desk.member_id()
    desk.join(first)
    desk.leave(first)
    joined = desk.join(desk.member_id())
    desk.advance(6)
    assert joined.error is ErrorCode.NONE
    assert joined.answer.leader == joined.answer.member_id


# Sessions


def test_a_silent_member_is_put_out_and_the_rest_rebalances(desk):
    leader, silent = desk.stable(2, session_ms=10_000)
    desk.advance(9)
    assert desk.heartbeat(leader, 1) is ErrorCode.NONE
    desk.advance(1)
    assert desk.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(silent, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    joined = desk.join(leader)
    assert joined.answer.generation_id == 2
    assert [one.member_id for one in joined.answer.members] == [leader]


def test_heartbeats_keep_a_member_without_setting_timers(desk):
    (member,) = desk.stable(1, session_ms=10_000)
    for _ in range(6):
        desk.advance(1)
        timers_before = dict(desk.timers)
        assert desk.heartbeat(member, 1) is ErrorCode.NONE
        assert desk.timers == timers_before
    desk.advance(9.99)
    assert desk.heartbeat(member, 1) is ErrorCode.NONE
    desk.advance(10)
    assert desk.group.is_empty


def test_a_generation_of_new_members_begins_without_setting_timers_for_them(desk):
    joined = [desk.join(desk.member_id(), session_ms=10_000) for _ in range(3)]
    set_before = {key: due for key, due in desk.timers.items() if key.kind == "session"}
    desk.advance(6)
    assert all(one.answer is not None for one in joined)
    assert {key: due for key, due in desk.timers.items() if key.kind == "session"} == set_before
    desk.advance(9.9)
    assert desk.heartbeat(joined[0].answer.member_id, 1) is ErrorCode.NONE
    desk.advance(0.1)
    assert desk.heartbeat(joined[1].answer.member_id, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_keep_a_member_too(desk):
    (member,) = desk.stable(1, session_ms=10_000)
    desk.advance(9)
    desk.group.committed(member, desk.now.monotonic)
    desk.group.committed("nobody", desk.now.monotonic)
    desk.advance(9.9)
    assert desk.heartbeat(member, 1) is ErrorCode.NONE


def test_a_commit_says_nothing_while_assignments_are_made(desk):
    (member,) = desk.members(1, session_ms=10_000)
    desk.advance(9)
    desk.group.committed(member, desk.now.monotonic)
    desk.advance(1)
    assert desk.group.is_empty


def test_a_member_that_waits_for_a_rebalance_need_not_heartbeat(desk):
    leader, follower = desk.stable(2, session_ms=6_000, rebalance_ms=60_000)
    waiting = desk.join(leader, session_ms=6_000)
    for _ in range(10):
        desk.advance(5)
        assert desk.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert waiting.answer is None
    desk.join(follower, session_ms=6_000)
    assert waiting.answer.generation_id == 2
    desk.advance(6)
    assert desk.group.is_empty, "both sessions began anew when they were answered"


def test_a_member_that_waits_for_its_assignment_need_not_heartbeat(desk):
    leader, follower = desk.members(2, session_ms=6_000, rebalance_ms=60_000)
    waiting = desk.sync(follower, 1)
    for _ in range(6):
        desk.advance(5)
        assert desk.heartbeat(leader, 1) is ErrorCode.NONE
    desk.sync(leader, 1, {follower: b"all"})
    assert waiting.answer.assignment == b"all"


def test_a_new_member_gives_up_after_five_minutes_of_waiting(desk):
    leader, _ = desk.stable(2, session_ms=1_000_000, rebalance_ms=1_000_000)
    waiting = desk.join(desk.member_id())
    desk.advance(299.9)
    assert waiting.answer is None
    desk.advance(0.1)
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert waiting.answer.member_id == ""
    assert desk.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_silent_member_does_not_hold_up_a_rebalance_beyond_its_session(desk):
    leader, _ = desk.stable(2, session_ms=10_000, rebalance_ms=60_000)
    joined = desk.join(leader)
    desk.advance(10)
    assert [one.member_id for one in joined.answer.members] == [leader]


def test_the_last_silent_member_leaves_an_empty_group(desk):
    desk.stable(1)
    desk.advance(10)
    assert desk.group.is_empty
    assert desk.group.is_disposable
    empty = desk.log[-1]
    assert (empty.generation, empty.protocol_type) == (2, "consumer")
    assert (empty.protocol, empty.leader, empty.members) == (None, None, ())
    assert empty.state_timestamp == desk.now.wall_ms


def test_a_session_timer_of_somebody_who_left_does_nothing(desk):
    leader, follower = desk.stable(2)
    key = next(key for key in desk.timers if key.member_id == follower)
    desk.leave(follower)
    assert key not in desk.timers
    assert desk.group.timer_fired(key, desk.now).replies == ()
    assert desk.join(leader).error is ErrorCode.NONE


# The join phase


def test_those_who_do_not_join_in_time_are_left_behind(desk):
    leader, follower = desk.stable(2, session_ms=10_000, rebalance_ms=12_000)
    joined = desk.join(leader, rebalance_ms=12_000)
    desk.advance(6)
    assert desk.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.advance(6)
    assert joined.answer.generation_id == 2
    assert desk.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_join_in_time_is_replaced(desk):
    leader, follower = desk.stable(2, rebalance_ms=8_000)
    joined = desk.join(follower, protocols=(("range", b"other"),), rebalance_ms=8_000)
    desk.advance(8)
    assert joined.answer.leader == follower
    assert desk.heartbeat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_longest_rebalance_timeout_counts(desk):
    ids = [desk.member_id(), desk.member_id()]
    for member_id, rebalance_ms in zip(ids, (5_000, 9_000), strict=True):
        desk.join(member_id, rebalance_ms=rebalance_ms)
    desk.advance(6)
    desk.sync_all(ids)
    joined = desk.join(ids[0], rebalance_ms=5_000)
    desk.advance(8.9)
    assert joined.answer is None
    desk.advance(0.1)
    assert joined.error is ErrorCode.NONE


def test_a_negative_rebalance_timeout_leaves_no_time(desk):
    desk.members(2, rebalance_ms=-5)
    assert desk.group.is_empty, "they had to ask for their assignments at once"


def test_a_new_member_joins_a_stable_group(desk):
    leader, follower = desk.stable(2)
    joined = desk.join(desk.member_id())
    assert desk.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(leader)
    desk.join(follower)
    assert joined.answer.generation_id == 2
    assert joined.answer.leader == leader


def test_twenty_members_share_one_generation(desk):
    members = desk.stable(20)
    described = desk.group.described()
    assert described.group_state == "Stable"
    assert [one.member_id for one in described.members] == members
    assert [one.member_assignment for one in described.members] == [
        f"1:{member_id}".encode() for member_id in members
    ]


def test_a_join_timer_that_comes_too_late_does_nothing(desk):
    desk.join(desk.member_id())
    key = next(key for key in desk.timers if key.kind == "join")
    desk.advance(3)
    assert desk.group.timer_fired(key, desk.now).timers == ()
    assert desk.group.generation == 1


# Restart


def test_a_loaded_group_is_as_it_was_and_its_members_have_a_whole_session(desk):
    leader, follower = desk.stable(2, session_ms=10_000)
    before = desk.group.described()
    desk.advance(9)
    desk.restart()
    assert desk.group.described() == before
    desk.advance(9)
    assert desk.heartbeat(leader, 1) is ErrorCode.NONE
    assert desk.sync(leader, 1).answer.assignment == f"1:{leader}".encode()
    desk.advance(1)
    assert desk.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_record_counts(desk):
    leader, follower = desk.stable(2)
    desk.leave(follower)
    desk.join(leader)
    desk.sync(leader, 2, {leader: b"all"})
    desk.restart()
    assert desk.group.generation == 2
    assert desk.join(leader).answer.generation_id == 3
    desk.leave(leader)
    desk.restart()
    assert desk.group.is_empty
    assert desk.group.generation == 4
    assert desk.join(desk.member_id()).answer is None


def test_a_record_of_the_oldest_version_has_one_timeout(desk):
    desk.stable(1, session_ms=10_000)
    (snapshot,) = desk.log
    (member,) = snapshot.members
    old = member._replace(rebalance_timeout_ms=-1)
    desk.log[:] = [snapshot._replace(leader="somebody else", members=(old,))]
    desk.restart()
    assert desk.join(member.member_id).answer.leader == member.member_id


def test_a_record_of_its_own_does_not_change_a_group_that_serves(desk):
    (member,) = desk.stable(1)
    old = desk.log[-1]
    desk.join(member)
    assert desk.group.generation == 2
    assert not desk.group.is_loading
    desk.group.replay(old)
    assert desk.group.generation == 2
