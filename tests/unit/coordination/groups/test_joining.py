"""JoinGroup: who comes in, under which id, and what it is told in each version."""

import pytest

from kits.group_kit import Desk, subscription
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.states import GroupState
from moldau.protocol.errors import ErrorCode

RANGE = ("range", subscription("orders"))
STICKY = ("sticky", subscription("orders"))


@pytest.fixture
def desk():
    return Desk()


def test_a_new_dynamic_member_is_given_an_id_and_comes_back_with_it(desk):
    asked = desk.join(client_id="billing")
    assert asked.error is ErrorCode.MEMBER_ID_REQUIRED
    assert asked.answer.member_id.startswith("billing-")
    assert asked.answer.generation_id == -1
    assert desk.group.is_empty
    assert not desk.group.is_disposable

    joined = desk.join(asked.answer.member_id)
    assert joined.answer is None
    desk.advance(3)
    assert joined.error is ErrorCode.NONE
    assert joined.answer.member_id == asked.answer.member_id == joined.answer.leader
    assert joined.answer.generation_id == 1
    assert joined.answer.protocol_name == "range"
    assert joined.answer.protocol_type == "consumer"
    assert [one.metadata for one in joined.answer.members] == [RANGE[1]]


@pytest.mark.parametrize("version", range(10))
def test_every_version_can_join(desk, version):
    member_id = desk.member_id(version=version) if version >= 4 else ""
    joined = desk.join(member_id, version=version)
    desk.advance(3)
    assert joined.error is ErrorCode.NONE
    assert joined.answer.protocol_name == "range"
    assert joined.answer.leader == joined.answer.member_id


@pytest.mark.parametrize("version", range(10))
def test_every_version_can_be_refused(desk, version):
    refused = desk.join(protocols=(), version=version)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused.answer.protocol_name == (None if version >= 7 else "")
    assert refused.answer.member_id == ""


def test_version_0_has_one_timeout_for_both(desk):
    desk.join(session_ms=7000, rebalance_ms=-1, version=0)
    desk.advance(3)
    desk.sync(desk.group.described().members[0].member_id, 1, {}, version=0)
    (member,) = desk.log[-1].members
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (7000, 7000)


@pytest.mark.parametrize("session_ms", [5999, 1_800_001, -1])
def test_a_session_timeout_outside_of_the_limits_is_refused(desk, session_ms):
    assert desk.join(session_ms=session_ms).error is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("session_ms", [6000, 1_800_000])
def test_the_limits_themselves_are_allowed(desk, session_ms):
    assert desk.join(session_ms=session_ms).error is ErrorCode.MEMBER_ID_REQUIRED


def test_an_unknown_member_is_told_to_start_again(desk):
    assert desk.join("nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
    desk.stable(1)
    unknown = desk.join("nobody")
    assert unknown.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert unknown.answer.member_id == "nobody"
    assert desk.join("nobody", instance="i").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_for_a_dynamic_member_is_not_good_for_a_static_one(desk):
    member_id = desk.member_id()
    assert desk.join(member_id, instance="i").error is ErrorCode.UNKNOWN_MEMBER_ID
    desk.join(member_id)
    assert desk.group.state is GroupState.PREPARING_REBALANCE


def test_an_id_that_is_not_used_within_the_session_is_forgotten(desk):
    member_id = desk.member_id(session_ms=10_000)
    desk.advance(9.9)
    assert not desk.group.is_disposable
    desk.advance(0.1)
    assert desk.group.is_disposable
    assert desk.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_those_who_were_given_an_id(desk):
    (leader,) = desk.stable(1)
    pending = desk.member_id()
    rejoined = desk.join(leader)
    assert rejoined.answer is None
    joined = desk.join(pending)
    assert rejoined.error is joined.error is ErrorCode.NONE


def test_a_rebalance_goes_on_when_somebody_expected_does_not_come(desk):
    (leader,) = desk.stable(1, session_ms=30_000)
    desk.member_id(session_ms=6_000)
    rejoined = desk.join(leader, session_ms=30_000)
    desk.advance(5.9)
    assert rejoined.answer is None
    desk.advance(0.1)
    assert rejoined.error is ErrorCode.NONE


# Protocols


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", (RANGE,)), ("consumer", ())],
    ids=["no protocol type", "no protocol"],
)
def test_the_first_member_must_name_type_and_protocol(desk, protocol_type, protocols):
    refused = desk.join(protocol_type=protocol_type, protocols=protocols)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.group.is_disposable


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", (RANGE,)), ("consumer", (STICKY,)), ("consumer", ())],
    ids=["other type", "no common protocol", "no protocol"],
)
def test_later_members_must_agree(desk, protocol_type, protocols):
    desk.stable(1)
    before = desk.group.described()
    refused = desk.join(protocol_type=protocol_type, protocols=protocols)
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.group.described() == before


def test_an_empty_group_may_change_its_type(desk):
    (member,) = desk.stable(1)
    desk.leave(member)
    joined = desk.join(desk.member_id(protocol_type="connect"), protocol_type="connect")
    desk.advance(3)
    assert joined.answer.protocol_type == "connect"


def test_members_vote_for_a_protocol_that_all_support(desk):
    offers = [(RANGE, STICKY), (STICKY, RANGE), (STICKY, ("own", b""), RANGE)]
    ids = [desk.member_id(protocols=offer) for offer in offers]
    joins = [desk.join(one, protocols=offer) for one, offer in zip(ids, offers, strict=True)]
    desk.advance(6)
    assert {join.answer.protocol_name for join in joins} == {"sticky"}


def test_a_tie_goes_to_the_oldest_member(desk):
    offers = [(RANGE, STICKY), (STICKY, RANGE)]
    ids = [desk.member_id(protocols=offer) for offer in offers]
    joins = [desk.join(one, protocols=offer) for one, offer in zip(ids, offers, strict=True)]
    desk.advance(6)
    assert {join.answer.protocol_name for join in joins} == {"range"}


def test_of_two_protocols_with_one_name_the_first_counts(desk):
    offer = (("range", b"first"), ("range", b"second"))
    member_id = desk.member_id(protocols=offer)
    joined = desk.join(member_id, protocols=offer)
    desk.advance(3)
    assert joined.answer.members[0].metadata == b"first"


def test_malformed_subscriptions_are_passed_on_unread(desk):
    offer = (("range", b"\xff\x00nonsense"),)
    (member_id,) = desk.stable(1, protocols=offer)
    assert desk.group.described().members[0].member_metadata == b"\xff\x00nonsense"
    assert desk.heartbeat(member_id, 1) is ErrorCode.NONE


# Joining again


def test_a_member_that_missed_the_answer_is_told_again(desk):
    leader, follower = desk.members(2)
    again = desk.join(leader)
    assert again.answer.generation_id == 1
    assert {one.member_id for one in again.answer.members} == {leader, follower}
    assert desk.join(follower).answer.members == []
    assert desk.group.state is GroupState.COMPLETING_REBALANCE


def test_a_changed_subscription_begins_a_rebalance_also_before_the_assignment(desk):
    leader, follower = desk.members(2)
    waiting = desk.sync(follower, 1)
    desk.join(follower, protocols=(("range", subscription("orders", "clicks")),))
    assert waiting.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_in_a_stable_group_a_follower_without_news_is_just_told(desk):
    leader, follower = desk.stable(2)
    again = desk.join(follower)
    assert (again.answer.generation_id, again.answer.leader) == (1, leader)
    assert not again.answer.members
    assert not again.answer.skip_assignment
    assert desk.group.state is GroupState.STABLE


def test_a_follower_with_another_subscription_begins_a_rebalance(desk):
    leader, follower = desk.stable(2)
    joined = desk.join(follower, protocols=(("range", subscription("clicks")),))
    assert joined.answer is None
    rejoined = desk.join(leader)
    assert joined.answer.generation_id == rejoined.answer.generation_id == 2
    assert subscription("clicks") in [one.metadata for one in rejoined.answer.members]


def test_another_order_of_preference_is_another_subscription(desk):
    _, follower = desk.stable(2, protocols=(RANGE, STICKY))
    assert desk.join(follower, protocols=(STICKY, RANGE)).answer is None


def test_the_leader_may_always_ask_for_a_rebalance(desk):
    leader, _ = desk.stable(2)
    assert desk.join(leader, reason="new partitions" * 100).answer is None
    assert desk.group.state is GroupState.PREPARING_REBALANCE
    assert "client says: new partitions" in desk.notes[-1]
    assert len(desk.notes[-1]) < 500


def test_a_join_that_is_repeated_replaces_the_earlier_one(desk):
    leader, follower = desk.stable(2)
    first = desk.join(leader)
    second = desk.join(leader)
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert second.answer is None
    desk.join(follower)
    assert second.error is ErrorCode.NONE


def test_the_timeouts_of_the_last_join_count(desk):
    (leader,) = desk.stable(1)
    desk.join(leader, session_ms=20_000, rebalance_ms=90_000)
    desk.sync(leader, 2, {})
    (member,) = desk.log[-1].members
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (90_000, 20_000)


# group.max.size


def test_a_full_group_takes_no_new_members():
    desk = Desk(GroupSettings(max_size=2))
    members = desk.stable(2)
    refused = desk.join()
    assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.answer.member_id == ""
    assert desk.join(members[1]).error is ErrorCode.NONE
    assert desk.group.state is GroupState.STABLE


def test_a_group_fills_up_while_it_gathers():
    desk = Desk(GroupSettings(max_size=2))
    ids = [desk.member_id() for _ in range(3)]
    first, second, third = (desk.join(member_id) for member_id in ids)
    assert third.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join(ids[0]).answer is None
    assert first.error is ErrorCode.REBALANCE_IN_PROGRESS
    desk.advance(6)
    assert second.error is ErrorCode.NONE
    assert len(desk.group.described().members) == 2


def test_an_id_given_before_the_group_was_full_is_taken_back():
    desk = Desk(GroupSettings(max_size=1))
    late = desk.member_id()
    (member,) = desk.stable(1)
    assert desk.join(late).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join(late).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.join(member).answer is not None


def test_a_group_loaded_above_a_lowered_limit_leaves_out_the_last_to_come():
    desk = Desk()
    members = desk.stable(3)
    desk.settings = GroupSettings(max_size=2)
    desk.restart()
    assert desk.group.state is GroupState.PREPARING_REBALANCE
    first, second = desk.join(members[0]), desk.join(members[1])
    assert first.answer is None
    assert desk.join(members[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.error is second.error is ErrorCode.NONE


def test_a_dead_group_sends_joins_away(desk):
    desk.group.ended()
    assert desk.join("m").error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_client_id_of_any_length_makes_a_member_id_that_can_be_written(desk):
    for client_id in ("x" * 32_767, "\u00e4" * 16_383):
        member_id = desk.member_id(client_id=client_id)
        assert len(member_id.encode()) in (32_766, 32_767)
        assert client_id.startswith(member_id[:-37])
        assert member_id[-37] == "-"


def test_ids_that_nobody_comes_back_with_do_not_pile_up(desk, monkeypatch):
    monkeypatch.setattr("moldau.coordination.groups.core.PENDING_MEMBERS_MAX", 3)
    given = [desk.member_id() for _ in range(5)]
    assert len(desk.timers) == 3
    assert desk.join(given[0]).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.join(given[4]).answer is None
