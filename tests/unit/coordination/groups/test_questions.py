"""What a group answers to those who keep offsets, and to tools."""

import pytest

from kits.group_kit import GROUP_ID, Desk, subscription
from moldau.coordination.groups.responses import describe_without_group, join_without_group
from moldau.coordination.outcome import Caller
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import JoinGroupRequest, ListedGroup

NONE = ErrorCode.NONE


@pytest.fixture
def desk():
    return Desk()


def check(desk, member_id="", generation=-1, instance=None, transactional=False):
    return desk.group.check_commit(member_id, instance, generation, transactional=transactional)


# Commits


def test_an_empty_group_takes_commits_of_anybody_outside_of_a_generation(desk):
    assert check(desk) is check(desk, "m") is check(desk, "", -1, "i") is NONE
    assert check(desk, "m", 0) is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("transactional", [False, True])
def test_a_stable_group_takes_commits_of_its_generation_only(desk, transactional):
    (member,) = desk.stable(1)
    assert check(desk, member, 1, transactional=transactional) is NONE
    assert check(desk, member, 0, transactional=transactional) is ErrorCode.ILLEGAL_GENERATION
    assert check(desk, member, 2, transactional=transactional) is ErrorCode.ILLEGAL_GENERATION
    assert check(desk, member, -1, transactional=transactional) is ErrorCode.ILLEGAL_GENERATION
    assert check(desk, "x", 1, transactional=transactional) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check(desk, "", -1, "i", transactional=transactional) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_of_nobody_is_refused_by_a_group_with_members_unless_in_a_transaction(desk):
    desk.stable(1)
    assert check(desk) is ErrorCode.UNKNOWN_MEMBER_ID
    assert check(desk, transactional=True) is NONE


def test_the_generation_goes_on_committing_while_the_next_one_gathers(desk):
    leader, follower = desk.stable(2)
    desk.join(leader)
    assert check(desk, follower, 1) is NONE


def test_commits_wait_for_the_assignment(desk):
    (member,) = desk.members(1)
    assert check(desk, member, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert check(desk, member, 0) is ErrorCode.ILLEGAL_GENERATION
    assert check(desk, member, 1, transactional=True) is NONE
    assert check(desk, transactional=True) is NONE


def test_a_dead_group_takes_no_commits(desk):
    desk.group.ended()
    assert check(desk) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# Deleting


def test_only_an_empty_group_may_be_deleted(desk):
    assert desk.group.check_delete() is NONE
    (member,) = desk.members(1)
    assert desk.group.check_delete() is ErrorCode.NON_EMPTY_GROUP
    desk.sync(member, 1, {})
    assert desk.group.check_delete() is ErrorCode.NON_EMPTY_GROUP
    desk.join(desk.member_id())
    assert desk.group.check_delete() is ErrorCode.NON_EMPTY_GROUP
    desk.group.ended()
    assert desk.group.check_delete() is ErrorCode.GROUP_ID_NOT_FOUND
    assert desk.group.tombstone().key == GROUP_ID.encode()


def test_offsets_of_consumers_may_be_deleted_for_topics_nobody_reads(desk):
    assert desk.group.check_offset_delete() is NONE
    assert not desk.group.is_subscribed_to("orders")
    (member,) = desk.stable(1)
    assert desk.group.check_offset_delete() is NONE
    assert desk.group.is_subscribed_to("orders")
    assert not desk.group.is_subscribed_to("clicks")
    desk.leave(member)
    assert not desk.group.is_subscribed_to("orders")
    desk.group.ended()
    assert desk.group.check_offset_delete() is ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_of_other_clients_may_be_deleted_only_when_they_are_gone(desk):
    (member,) = desk.members(1, protocol_type="connect")
    assert desk.group.check_offset_delete() is ErrorCode.NON_EMPTY_GROUP
    assert not desk.group.is_subscribed_to("orders")
    desk.leave(member)
    assert desk.group.check_offset_delete() is NONE


def test_consumers_that_cannot_be_understood_may_read_anything(desk):
    desk.stable(1, protocols=(("range", b"nonsense"),))
    assert desk.group.is_subscribed_to("orders")


# Expiry


def test_offsets_of_a_group_without_members_ever_age_by_themselves(desk):
    assert desk.group.expiry_start_ms(5) == 5


def test_offsets_of_an_empty_group_age_since_it_is_empty(desk):
    (member,) = desk.stable(1)
    desk.leave(member)
    emptied_ms = desk.now.wall_ms
    desk.advance(100)
    assert desk.group.expiry_start_ms(5) == emptied_ms
    desk.restart()
    assert desk.group.expiry_start_ms(5) == emptied_ms


def test_where_a_record_does_not_say_since_when_the_commit_counts(desk):
    (member,) = desk.stable(1)
    desk.leave(member)
    desk.log[-1] = desk.log[-1]._replace(state_timestamp=-1)
    desk.restart()
    assert desk.group.expiry_start_ms(5) == 5


def test_offsets_in_use_do_not_age(desk):
    (member,) = desk.members(1)
    assert desk.group.expiry_start_ms(5) is None
    desk.sync(member, 1, {})
    assert desk.group.expiry_start_ms(5) == 5, "those of topics that nobody reads"


def test_offsets_of_clients_that_cannot_be_understood_do_not_age(desk):
    desk.stable(1, protocols=(("range", b"nonsense"),))
    assert desk.group.expiry_start_ms(5) is None


# Tools


def test_a_stable_group_is_described_with_protocol_and_subscriptions(desk):
    leader, follower = desk.stable(2)
    described = desk.group.described()
    assert (described.group_id, described.group_state) == (GROUP_ID, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert [one.member_id for one in described.members] == [leader, follower]
    assert {one.member_metadata for one in described.members} == {subscription("orders")}
    assert {one.client_host for one in described.members} == {"/127.0.0.1"}


def test_states_are_spelled_as_kafka_does(desk):
    seen = [desk.group.described().group_state]
    member = desk.member_id()
    desk.join(member)
    seen.append(desk.group.described().group_state)
    desk.advance(3)
    described = desk.group.described()
    assert (described.protocol_data, described.members[0].member_metadata) == ("", b"")
    seen.append(described.group_state)
    desk.sync(member, 1, {})
    seen.append(desk.group.described().group_state)
    assert seen == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]


def test_a_group_is_listed_with_type_and_state(desk):
    assert desk.group.listed() == ListedGroup(GROUP_ID, "", "Empty", "classic")
    desk.stable(1)
    assert desk.group.listed() == ListedGroup(GROUP_ID, "consumer", "Stable", "classic")


def test_a_group_that_is_not_there_is_dead_and_an_error_since_version_6():
    old, new = describe_without_group("g", 5), describe_without_group("g", 6)
    assert (old.group_state, old.error_code) == ("Dead", NONE)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group g not found."


def test_joining_a_group_that_is_not_there_with_an_id_is_refused():
    answer = join_without_group(JoinGroupRequest(group_id="g", member_id="m"), Caller(9, "", ""))
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "m")
