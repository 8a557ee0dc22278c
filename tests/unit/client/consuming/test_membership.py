"""A member's decisions: what it does next, after every answer it may get."""

from __future__ import annotations

import pytest

from kits.membership_kit import HEARTBEAT_MS, MAX_POLL_MS, partitions, pause_s, settings
from moldau.client.consuming.membership import Membership, Phase
from moldau.client.consuming.steps import (
    NOBODY,
    NONE_OWNED,
    Adopt,
    Beat,
    Distribute,
    Expire,
    Join,
    Lose,
    MemberIdentity,
    Refuse,
    Revoke,
    Synchronise,
    Wait,
)
from moldau.client.errors import (
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
)
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.groups import (
    JoinGroupResponse,
    JoinGroupResponseMember,
    SyncGroupResponse,
)

ME = MemberIdentity("me", 5)
ALL = partitions("orders", 0, 1, 2)
BEAT_S, POLL_S = HEARTBEAT_MS / 1000, MAX_POLL_MS / 1000


def joined(member_id="me", generation=5, leader="other", **more):
    return JoinGroupResponse(
        generation_id=generation,
        protocol_type=more.pop("protocol_type", "consumer"),
        protocol_name=more.pop("protocol_name", "range"),
        leader=leader,
        member_id=member_id,
        **more,
    )


def refused_join(code, member_id=""):
    return JoinGroupResponse(error_code=code, member_id=member_id)


def made(**options):
    membership = Membership(settings(**options), pause_s)
    membership.subscribe(["orders"], 0.0)
    membership.asked(0.0)
    return membership


def in_generation(membership, now=0.0, answer=None):
    assert isinstance(membership.next(now), Join)
    membership.join_begun()
    membership.joined(answer or joined(), now)
    return membership


def stable(now=0.0, given=ALL, **options):
    membership = in_generation(made(**options), now)
    membership.synced(ME, SyncGroupResponse(), given, now)
    membership.adopted(membership.next(now))
    assert membership.phase is Phase.STABLE
    return membership


def rejoining(membership, now=1.0):
    membership.beat_answered(ME, ErrorCode.REBALANCE_IN_PROGRESS, now)
    return membership


# Joining


def test_who_is_not_subscribed_does_nothing():
    membership = Membership(settings(), pause_s)
    assert membership.next(0.0) == Wait()
    assert membership.pulse(0.0) == Wait()
    assert membership.committer == NOBODY


def test_the_first_join_is_nobodys_and_says_why():
    step = made().next(0.0)
    assert step.identity == NOBODY
    assert step.topics == {"orders"}
    assert step.owned == NONE_OWNED
    assert "subscribed" in step.reason


def test_a_member_comes_again_at_once_with_the_id_it_was_given():
    membership = made()
    membership.join_begun()
    membership.joined(refused_join(ErrorCode.MEMBER_ID_REQUIRED, "given"), 0.0)
    assert membership.next(0.0).identity == MemberIdentity("given")


def test_an_id_given_again_and_again_does_not_keep_it_spinning():
    membership = made()
    for _ in range(2):
        membership.join_begun()
        membership.joined(refused_join(ErrorCode.MEMBER_ID_REQUIRED, "given"), 0.0)
    assert membership.phase is Phase.REFUSED


def test_a_follower_syncs_with_nothing_and_adopts_what_it_gets():
    membership = in_generation(made())
    assert membership.next(0.0) == Synchronise(ME, "range", {})
    membership.synced(ME, SyncGroupResponse(), ALL, 0.0)
    assert membership.next(0.0) == Adopt(ALL, ALL, NONE_OWNED, ME)


def test_the_leader_assigns_before_it_syncs():
    members = [JoinGroupResponseMember("me", None, b"subscription")]
    membership = in_generation(made(), answer=joined(leader="me", members=members))
    assert membership.next(0.0) == Distribute("range", tuple(members), is_settled=False)
    membership.distributed({"me": b"all"}, {"orders": 3})
    assert membership.next(0.0) == Synchronise(ME, "range", {"me": b"all"})


def test_a_static_leader_that_came_back_does_not_assign_again():
    answer = joined(leader="me", skip_assignment=True)
    membership = in_generation(made(instance="one"), answer=answer)
    assert membership.next(0.0).is_settled


@pytest.mark.parametrize("wrong", [{"protocol_name": "other"}, {"protocol_type": "connect"}])
def test_a_protocol_nobody_offered_is_refused(wrong):
    membership = in_generation(made(), answer=joined(**wrong))
    assert isinstance(membership.next(0.0).error, InconsistentGroupProtocol)


def test_an_old_broker_need_not_name_the_type_of_protocol():
    membership = in_generation(made(), answer=joined(protocol_type=None))
    assert membership.phase is Phase.SYNCING


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
)
def test_a_join_is_tried_again_after_a_growing_pause_as_the_same_member(code):
    membership, now, pauses = made(), 0.0, []
    membership.join_begun()
    membership.joined(refused_join(ErrorCode.MEMBER_ID_REQUIRED, "given"), now)
    for _ in range(3):
        membership.join_begun()
        membership.joined(refused_join(code), now)
        wait = membership.next(now)
        pauses.append(wait.until - now)
        now = wait.until
        assert membership.next(now).identity == MemberIdentity("given")
    assert pauses == sorted(set(pauses))


def test_a_join_without_an_answer_is_tried_again():
    membership = made()
    membership.join_begun()
    membership.interrupted(0.0)
    assert isinstance(membership.next(0.0), Wait)
    assert isinstance(membership.next(10.0), Join)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationFailed),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, GroupMaxSizeReached),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, InconsistentGroupProtocol),
    ],
)
def test_a_refusal_is_told_once_and_tried_again_when_the_user_asks(code, error):
    membership = made()
    membership.join_begun()
    membership.joined(refused_join(code), 0.0)
    refuse = membership.next(0.0)
    assert isinstance(refuse, Refuse)
    assert isinstance(refuse.error, error)
    membership.refusal_told()
    assert membership.next(100.0) == Wait()
    membership.asked(100.0)
    assert isinstance(membership.next(200.0), Join)


def test_who_is_fenced_never_joins_again_and_says_so_at_every_call():
    membership = stable(instance="one")
    membership.beat_answered(ME, ErrorCode.FENCED_INSTANCE_ID, 1.0)
    assert membership.next(1.0) == Lose(ALL)
    membership.forfeited()
    for now in (2.0, 3.0):
        assert isinstance(membership.next(now).error, FencedInstanceId)
        membership.refusal_told()
        assert membership.next(now) == Wait()
        membership.asked(now)
    assert membership.pulse(100.0) == Wait()


# Syncing


def test_a_group_that_rebalances_again_is_joined_again_at_once():
    membership = in_generation(made())
    answer = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    membership.synced(ME, answer, NONE_OWNED, 0.0)
    assert membership.next(0.0).identity == ME


@pytest.mark.parametrize(
    ("code", "identity"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, NOBODY),
        (ErrorCode.ILLEGAL_GENERATION, MemberIdentity("me")),
        (ErrorCode.NOT_COORDINATOR, ME),
    ],
)
def test_a_failed_sync_leads_back_to_a_join(code, identity):
    membership = in_generation(made())
    membership.synced(ME, SyncGroupResponse(error_code=code), NONE_OWNED, 0.0)
    assert isinstance(membership.next(0.0), Wait)
    assert membership.next(10.0).identity == identity


def test_an_assignment_of_topics_nobody_asked_for_is_not_adopted():
    membership = in_generation(made())
    membership.synced(ME, SyncGroupResponse(), partitions("others", 0), 0.0)
    assert membership.owned == NONE_OWNED
    assert isinstance(membership.next(10.0), Join)


def test_an_answer_to_a_sync_of_an_earlier_life_is_not_taken():
    membership = in_generation(made())
    membership.beat_answered(ME, ErrorCode.UNKNOWN_MEMBER_ID, 0.0)
    membership.synced(ME, SyncGroupResponse(), ALL, 0.0)
    assert membership.phase is Phase.PREPARING


# Rebalances


def test_an_eager_member_gives_everything_up_before_it_joins_again():
    membership = rejoining(stable())
    assert membership.next(1.0) == Revoke(ALL)
    membership.revoked(ALL)
    step = membership.next(1.0)
    assert (step.identity, step.owned, step.owned_generation) == (ME, NONE_OWNED, 5)


def test_a_cooperative_member_keeps_what_it_has_while_it_joins():
    membership = rejoining(stable(cooperative=True))
    assert membership.next(1.0).owned == ALL


def test_a_cooperative_member_gives_up_only_what_moves_and_joins_once_more():
    membership = rejoining(stable(cooperative=True))
    membership.join_begun()
    membership.joined(joined(generation=6), 1.0)
    later = MemberIdentity("me", 6)
    kept = partitions("orders", 0, 1)
    membership.synced(later, SyncGroupResponse(), kept, 1.0)
    step = membership.next(1.0)
    assert step == Adopt(kept, NONE_OWNED, partitions("orders", 2), later)
    membership.adopted(step)
    again = membership.next(1.0)
    assert isinstance(again, Join)
    assert (again.owned, again.owned_generation) == (kept, 6)


def test_a_cooperative_member_with_nothing_to_give_up_stays():
    membership = rejoining(stable(cooperative=True, given=partitions("orders", 0)))
    membership.join_begun()
    membership.joined(joined(generation=6), 1.0)
    membership.synced(MemberIdentity("me", 6), SyncGroupResponse(), ALL, 1.0)
    step = membership.next(1.0)
    assert (step.added, step.revoked) == (partitions("orders", 1, 2), NONE_OWNED)
    membership.adopted(step)
    assert membership.next(1.0) == Wait()


def test_a_cooperative_member_gives_up_topics_it_no_longer_wants_before_it_joins():
    membership = stable(cooperative=True)
    membership.subscribe(["clicks"], 1.0)
    assert membership.next(1.0) == Revoke(ALL)


def test_a_generation_without_an_assignment_does_not_make_what_is_owned_newer():
    membership = rejoining(stable(cooperative=True))
    membership.join_begun()
    membership.joined(joined(generation=6), 1.0)
    answer = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    membership.synced(MemberIdentity("me", 6), answer, NONE_OWNED, 1.0)
    assert membership.next(1.0).owned_generation == 5


def test_a_subscription_changed_while_joining_is_joined_with_afterwards():
    membership = made()
    membership.join_begun()
    membership.subscribe(["orders", "clicks"], 0.0)
    membership.joined(joined(), 0.0)
    membership.synced(ME, SyncGroupResponse(), ALL, 0.0)
    membership.adopted(membership.next(0.0))
    membership.revoked(membership.next(0.0).partitions)
    assert membership.next(0.0).topics == {"orders", "clicks"}


def test_the_same_subscription_again_changes_nothing():
    membership = stable()
    membership.subscribe(["orders"], 1.0)
    assert membership.next(1.0) == Wait()


# Heartbeats


def test_heartbeats_come_at_their_interval_and_do_not_wait_for_the_user():
    membership = stable()
    membership.answered(0.0)
    assert membership.pulse(BEAT_S - 0.1) == Wait(BEAT_S)
    assert membership.pulse(BEAT_S) == Beat(ME)
    membership.beat_begun(BEAT_S)
    assert membership.pulse(BEAT_S) == Wait(2 * BEAT_S)


@pytest.mark.parametrize("phase", ["revoking", "distributing", "syncing", "adopting"])
def test_heartbeats_go_on_in_a_rebalance(phase):
    if phase == "revoking":
        membership = rejoining(stable())
    else:
        leader = "me" if phase == "distributing" else "other"
        membership = in_generation(made(), answer=joined(leader=leader))
        if phase == "adopting":
            membership.synced(ME, SyncGroupResponse(), ALL, 0.0)
    assert membership.pulse(BEAT_S) == Beat(ME)


def test_no_heartbeat_overtakes_a_join():
    membership = rejoining(stable(cooperative=True))
    membership.join_begun()
    assert membership.pulse(100.0) == Wait()
    membership.beat_answered(ME, ErrorCode.ILLEGAL_GENERATION, 1.0)
    membership.joined(joined(generation=6), 1.0)
    assert membership.owned == ALL
    assert membership.is_member


def test_a_heartbeat_that_failed_is_sent_again_soon():
    membership = stable()
    membership.beat_begun(BEAT_S)
    membership.beat_failed(1, BEAT_S)
    assert membership.pulse(BEAT_S + pause_s(1)) == Beat(ME)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_member_the_group_went_on_without_loses_its_partitions(code):
    membership = stable()
    membership.beat_answered(ME, code, 1.0)
    assert membership.next(1.0) == Lose(ALL)
    assert membership.committer is None
    membership.forfeited()
    assert isinstance(membership.next(10.0), Join)


def test_bad_news_of_an_earlier_life_is_ignored():
    membership = stable()
    membership.beat_answered(MemberIdentity("me", 4), ErrorCode.UNKNOWN_MEMBER_ID, 1.0)
    membership.commit_refused(MemberIdentity("me", 4), ErrorCode.ILLEGAL_GENERATION, 1.0)
    assert membership.next(1.0) == Wait()


def test_a_refused_commit_tells_what_a_heartbeat_would():
    membership = stable()
    membership.commit_refused(ME, ErrorCode.UNKNOWN_MEMBER_ID, 1.0)
    assert membership.next(1.0) == Lose(ALL)
    membership = stable()
    membership.commit_refused(ME, ErrorCode.OFFSET_METADATA_TOO_LARGE, 1.0)
    assert membership.next(1.0) == Wait()


def test_what_is_taken_away_while_the_listener_hears_of_it_is_lost():
    membership = in_generation(made())
    membership.synced(ME, SyncGroupResponse(), ALL, 0.0)
    step = membership.next(0.0)
    membership.beat_answered(ME, ErrorCode.UNKNOWN_MEMBER_ID, 0.0)
    membership.adopted(step)
    assert membership.next(0.0) == Lose(ALL)


def test_what_is_lost_while_it_is_given_up_is_told_once():
    membership = rejoining(stable())
    step = membership.next(1.0)
    membership.beat_answered(ME, ErrorCode.UNKNOWN_MEMBER_ID, 1.0)
    membership.revoked(step.partitions)
    assert isinstance(membership.next(10.0), Join)


# The user


def test_a_user_who_does_not_ask_in_time_is_out_until_it_asks_again():
    membership = stable()
    membership.answered(1.0)
    membership.beat_begun(POLL_S)
    assert membership.pulse(1.0 + POLL_S - 0.1) == Wait(1.0 + POLL_S)
    assert membership.pulse(1.0 + POLL_S) == Expire(ME)
    membership.expired()
    assert membership.next(40.0) == Lose(ALL)
    membership.forfeited()
    assert membership.next(100.0) == Wait()
    assert membership.pulse(100.0) == Wait()
    membership.asked(100.0)
    assert membership.next(100.0).identity == NOBODY


def test_who_lost_what_its_user_works_on_commits_nothing_until_the_user_asks_for_more():
    membership = stable(cooperative=True)
    membership.answered(0.0)
    membership.beat_answered(ME, ErrorCode.UNKNOWN_MEMBER_ID, 1.0)
    assert membership.is_bereft
    membership.forfeited()
    in_generation(membership, 10.0, joined(generation=9))
    assert membership.is_member
    assert membership.is_bereft
    assert membership.committer is None
    membership.asked(11.0)
    assert not membership.is_bereft
    assert membership.committer == MemberIdentity("me", 9)


def test_who_waits_for_records_when_partitions_are_lost_holds_none_of_them():
    membership = stable()
    membership.beat_answered(ME, ErrorCode.UNKNOWN_MEMBER_ID, 1.0)
    membership.forfeited()
    assert not membership.is_bereft


def test_a_user_who_waits_for_records_is_not_asleep():
    membership = stable()
    assert membership.pulse(10 * POLL_S) == Beat(ME)


def test_who_leaves_is_nobody_and_may_subscribe_again():
    membership = stable()
    membership.left()
    assert membership.next(0.0) == Wait()
    membership.subscribe(["clicks"], 0.0)
    assert membership.next(0.0).identity == NOBODY


# Topics


def test_only_the_leader_minds_new_partitions():
    follower = stable()
    follower.partitions_seen({"orders": 4})
    assert follower.next(0.0) == Wait()


@pytest.mark.parametrize(
    ("counts", "again"), [({"orders": 3}, False), ({"orders": 4}, True), ({}, True)]
)
def test_the_leader_has_the_group_rebalance_when_partitions_come_or_go(counts, again):
    membership = in_generation(made(cooperative=True), answer=joined(leader="me"))
    membership.distributed({"me": b""}, {"orders": 3})
    membership.synced(ME, SyncGroupResponse(), ALL, 0.0)
    membership.adopted(membership.next(0.0))
    membership.partitions_seen(counts)
    assert isinstance(membership.next(0.0), Join) is again
