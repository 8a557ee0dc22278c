"""The rules of a leader, one by one."""

from __future__ import annotations

import pytest

from moldau.protocol.errors import ErrorCode
from moldau.replication import rules
from moldau.replication.followers import NEVER_S, UNKNOWN_END
from moldau.replication.leader_state import LeaderState, maximal_isr
from moldau.replication.role import Role
from moldau.replication.rules import AnswerEffect

ME, OTHER, THIRD = 1, 2, 3
LAG_S = 30.0
START = 10
"""Where the leader's epoch begins."""


class Live:
    """Every broker lives, in epoch 5, unless a test says otherwise."""

    def __init__(self, fenced=()):
        self.fenced = fenced

    def broker_epoch(self, broker_id):
        return None if broker_id > THIRD else 5

    def is_eligible(self, broker_id):
        return broker_id not in self.fenced


def leading(isr=(ME, OTHER, THIRD), now_s=0.0):
    return LeaderState(ME, Role(ME, 1, 7, (ME, OTHER, THIRD), isr), START, now_s)


def fetched(state, broker, offset, end=20, now_s=0.0, broker_epoch=5):
    state.followers[broker].fetched(offset, end, now_s, 0, broker_epoch)
    state.now_s = now_s
    return state.followers[broker]


def high_watermark(state, current=0, end=20, min_isr=1, live=None):
    return rules.next_high_watermark(state, current, end, min_isr, live or Live(), LAG_S)


class TestHighWatermark:
    def test_each_in_sync_follower_has_to_fetch_in_this_epoch(self):
        state = leading()
        assert high_watermark(state) == 0
        fetched(state, OTHER, 15)
        assert high_watermark(state) == 0
        fetched(state, THIRD, 12)
        assert high_watermark(state) == 12
        assert high_watermark(state, current=14) == 14

    @pytest.mark.parametrize(("needed", "expected"), [(1, 15), (2, 15), (3, 0), (9, 0)])
    def test_it_stands_below_min_isr(self, needed, expected):
        state = leading(isr=(ME, OTHER))
        fetched(state, OTHER, 15)
        assert high_watermark(state, min_isr=needed) == expected

    def test_all_replicas_are_always_enough(self):
        state = leading()
        fetched(state, OTHER, 15)
        fetched(state, THIRD, 15)
        assert high_watermark(state, min_isr=9) == 15

    def test_a_pending_expansion_counts_and_a_pending_shrink_changes_nothing(self):
        state = leading(isr=(ME, OTHER))
        fetched(state, OTHER, 20)
        fetched(state, THIRD, 11, now_s=1.0)
        state.now_s = 100.0
        assert high_watermark(state) == 20
        state.propose((ME, OTHER, THIRD))
        assert high_watermark(state) == 11
        state.revert()
        state.propose((ME,))
        fetched(state, OTHER, 13, now_s=100.0)
        assert high_watermark(state) == 13

    def test_it_waits_for_one_that_is_about_to_join(self):
        state = leading(isr=(ME,))
        fetched(state, OTHER, 20, end=20, now_s=1.0)
        assert high_watermark(state, end=25) == 20
        assert high_watermark(state, end=25, live=Live(fenced=(OTHER,))) == 25
        state.now_s = 1.0 + LAG_S
        assert high_watermark(state, end=25) == 20
        state.now_s += 0.1
        assert high_watermark(state, end=25) == 25

    def test_it_waits_for_nobody_that_never_fetched(self):
        assert high_watermark(leading(isr=(ME,))) == 20

    def test_it_tells_the_end_once_the_epoch_has_begun_to_be_committed(self):
        state = leading()
        assert not rules.is_latest_offset_known(state, START - 1)
        assert rules.is_latest_offset_known(state, START)


class TestJoining:
    def join(self, offset, high_watermark=12, isr=(ME, OTHER), broker_epoch=5, **live):
        state = leading(isr)
        follower = fetched(state, THIRD, offset, broker_epoch=broker_epoch)
        return rules.expanded_isr(state, follower, high_watermark, Live(**live))

    def test_a_follower_joins_at_the_high_watermark(self):
        assert self.join(12) == (ME, OTHER, THIRD)
        assert self.join(11) is None

    def test_a_follower_joins_at_the_start_of_the_epoch_at_the_earliest(self):
        assert self.join(START - 1, high_watermark=5) is None
        assert self.join(START, high_watermark=5) == (ME, OTHER, THIRD)

    def test_a_broker_that_is_fenced_or_was_another_does_not_join(self):
        assert self.join(20, fenced=(THIRD,)) is None
        assert self.join(20, broker_epoch=4) is None
        assert self.join(20, broker_epoch=6) is None
        assert self.join(20, broker_epoch=-1) == (ME, OTHER, THIRD)

    def test_one_change_at_a_time(self):
        state = leading((ME,))
        follower = fetched(state, THIRD, 20)
        state.propose((ME, OTHER))
        assert rules.expanded_isr(state, follower, 12, Live()) is None
        assert rules.shrunk_isr(state, 99, 1000.0, LAG_S) is None

    def test_a_member_is_not_proposed_again(self):
        assert self.join(20, isr=(ME, OTHER, THIRD)) is None

    def test_the_proposal_names_the_lives_of_its_members(self):
        state = leading((ME, OTHER))
        fetched(state, THIRD, 20)
        proposal = state.propose((ME, OTHER, THIRD))
        assert proposal.broker_epochs == (-1, -1, 5)
        assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 7)

    def test_a_fetch_from_an_earlier_life_is_known(self):
        assert rules.is_outlived(4, Live(), OTHER)
        assert not rules.is_outlived(5, Live(), OTHER)
        assert not rules.is_outlived(6, Live(), OTHER)
        assert not rules.is_outlived(-1, Live(), OTHER)
        assert not rules.is_outlived(4, Live(), 99)


class TestLeaving:
    def test_who_lags_for_too_long_leaves(self):
        state = leading(now_s=0.0)
        fetched(state, OTHER, 15, now_s=10.0)
        fetched(state, THIRD, 20, now_s=10.0)
        assert rules.shrunk_isr(state, 21, LAG_S, LAG_S) is None
        assert rules.shrunk_isr(state, 21, LAG_S + 0.1, LAG_S) == (ME, THIRD)
        assert rules.shrunk_isr(state, 21, LAG_S + 10.1, LAG_S) == (ME,)

    def test_who_has_everything_never_lags(self):
        state = leading(now_s=0.0)
        fetched(state, OTHER, 20, now_s=1.0)
        fetched(state, THIRD, 20, now_s=1.0)
        assert rules.shrunk_isr(state, 20, 9999.0, LAG_S) is None

    def test_who_never_fetched_has_the_full_time(self):
        state = leading(now_s=50.0)
        assert rules.shrunk_isr(state, 0, 50.0 + LAG_S, LAG_S) is None
        assert rules.shrunk_isr(state, 0, 50.1 + LAG_S, LAG_S) == (ME,)


class TestState:
    def test_the_maximal_isr_unites_what_may_be_committed(self):
        state = leading((ME, OTHER))
        assert maximal_isr(state.isr, None) == {ME, OTHER}
        fetched(state, THIRD, 20)
        assert maximal_isr(state.isr, state.propose((ME, THIRD))) == {ME, OTHER, THIRD}

    def test_known_metadata_ends_no_proposal_and_newer_does(self):
        state = leading((ME, OTHER))
        proposal = state.propose((ME, OTHER, THIRD))
        state.follow(Role(ME, 1, 7, (ME, OTHER, THIRD), (ME, OTHER)), 1.0)
        assert state.pending is proposal
        state.follow(Role(ME, 1, 8, (ME, OTHER, THIRD), (ME,)), 1.0)
        assert state.pending is None
        assert state.in_sync == ()

    def test_a_replica_that_is_added_was_never_level(self):
        state = leading((ME, OTHER))
        assert state.followers[THIRD].caught_up_s == NEVER_S
        fetched(state, OTHER, 15)
        state.follow(Role(ME, 1, 8, (ME, OTHER, 4), (ME, OTHER)), 1.0)
        assert set(state.followers) == {OTHER, 4}
        assert state.followers[OTHER].end_offset == 15
        assert state.followers[4].end_offset == UNKNOWN_END


class TestAnswers:
    @pytest.mark.parametrize(
        ("error", "effect"),
        [
            (ErrorCode.INELIGIBLE_REPLICA, AnswerEffect.REVERT),
            (ErrorCode.OPERATION_NOT_ATTEMPTED, AnswerEffect.REVERT),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, AnswerEffect.KEEP),
            (ErrorCode.UNKNOWN_TOPIC_ID, AnswerEffect.KEEP),
            (ErrorCode.FENCED_LEADER_EPOCH, AnswerEffect.KEEP),
            (ErrorCode.INVALID_UPDATE_VERSION, AnswerEffect.KEEP),
            (ErrorCode.INVALID_REQUEST, AnswerEffect.KEEP),
            (ErrorCode.NEW_LEADER_ELECTED, AnswerEffect.KEEP),
            (ErrorCode.NOT_CONTROLLER, AnswerEffect.RESEND),
            (ErrorCode.REQUEST_TIMED_OUT, AnswerEffect.RESEND),
            (ErrorCode.UNKNOWN_SERVER_ERROR, AnswerEffect.RESEND),
        ],
    )
    def test_an_error_says_what_becomes_of_the_proposal(self, error, effect):
        state = leading((ME,))
        assert rules.effect_of_answer(state, state.propose((ME, OTHER)), error, -1, -1) is effect

    @pytest.mark.parametrize(
        ("leader_epoch", "partition_epoch", "effect"),
        [
            (1, 8, AnswerEffect.COMMIT),
            (1, 7, AnswerEffect.COMMIT),
            (1, 6, AnswerEffect.KEEP),
            (2, 8, AnswerEffect.KEEP),
        ],
    )
    def test_an_answer_counts_in_its_epochs(self, leader_epoch, partition_epoch, effect):
        state = leading((ME,))
        told = state.propose((ME, OTHER)), ErrorCode.NONE, leader_epoch, partition_epoch
        assert rules.effect_of_answer(state, *told) is effect

    def test_an_answer_to_what_was_replaced_is_ignored(self):
        state = leading((ME,))
        old = state.propose((ME, OTHER))
        state.revert()
        state.propose((ME, OTHER))
        for error in (ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NOT_CONTROLLER):
            assert rules.effect_of_answer(state, old, error, 1, 8) is AnswerEffect.IGNORE
