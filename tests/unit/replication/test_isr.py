"""A partition proposes who is in sync, takes the answer, and counts with both ISRs until then."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kits.replica_kit import MAX_LAG_S, Replicas
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.replication.partition import ACKS_LEADER

A, B, C = 1, 2, 3


def alone(*brokers, **config):
    """Replicas of which only the first is in sync; the others have what it has."""
    replicas = Replicas(*(brokers or (A, B)), **config)
    replicas.give(replicas.change(isr=(A,)))
    return replicas


def proposed(replicas):
    return [one.isr for _, one in replicas.cluster.proposals]


class TestExpanding:
    def test_a_follower_is_proposed_when_it_has_what_is_committed(self):
        replicas = alone()
        replicas.produce(b"m0", b"m1")
        replicas.fetch(B)
        assert proposed(replicas) == []
        replicas.fetch(B)
        assert proposed(replicas) == [(A, B)]
        assert replicas[A].role.isr == (A,)
        replicas.produce(b"m2")
        assert replicas.ends(A) == (3, 2), "both ISRs count"
        replicas.answer()
        assert replicas[A].role.isr == (A, B)
        assert replicas[A].pending_isr is None
        replicas.fetch(B)
        replicas.fetch(B)
        assert replicas.ends(A) == (3, 3)
        assert proposed(replicas) == []
        counts = replicas.ports.counts
        assert (counts.expands, counts.shrinks, counts.failures) == (1, 0, 0)

    def test_nothing_is_committed_at_once_while_somebody_may_join(self):
        replicas = alone()
        assert replicas[A].commits_at_once
        replicas.produce(b"m0")
        assert replicas.ends(A) == (1, 1)
        replicas.fetch(B)
        assert not replicas[A].commits_at_once

    def test_one_that_has_fetched_and_lags_is_not_waited_for_any_more(self):
        replicas = alone()
        replicas.cluster.ineligible = {B}
        replicas.fetch(B)
        replicas.now_s += MAX_LAG_S + 1
        replicas[A].shrink_isr(replicas.now_s)
        assert not replicas[A].commits_at_once, "it has everything"
        replicas.produce(b"m0")
        replicas[A].shrink_isr(replicas.now_s)
        assert replicas[A].commits_at_once
        replicas.produce(b"m1")
        assert replicas.ends(A) == (2, 2)
        replicas.fetch(B)
        assert not replicas[A].commits_at_once

    def test_a_leader_whose_follower_left_commits_at_once(self):
        replicas = Replicas(A, B)
        replicas.produce(b"m0")
        replicas.fetch(B)
        replicas.now_s += MAX_LAG_S + 1
        replicas[A].shrink_isr(replicas.now_s)
        replicas.answer()
        assert replicas[A].role.isr == (A,)
        assert replicas[A].commits_at_once

    def test_one_that_had_everything_at_a_later_fetch_is_waited_for_again(self):
        replicas = alone()
        replicas.cluster.ineligible = {B}
        replicas.fetch(B)
        replicas.produce(b"m0")
        replicas.now_s += MAX_LAG_S + 1
        replicas[A].shrink_isr(replicas.now_s)
        assert replicas[A].commits_at_once
        replicas[A].note_level(B, replicas.now_s)
        assert not replicas[A].commits_at_once

    def test_a_chaser_is_waited_for_until_it_lags(self):
        replicas = alone()
        replicas.cluster.ineligible = {B}
        replicas.fetch(B)
        assert proposed(replicas) == []
        replicas.cluster.ineligible = set()
        replicas.produce(b"m0")
        assert replicas.ends(A) == (1, 0)
        replicas.now_s += MAX_LAG_S + 1
        replicas[A].shrink_isr(replicas.now_s)
        assert replicas.ends(A) == (1, 1)

    def test_a_fetch_of_another_follower_tells_the_time(self):
        replicas = alone(A, B, C)
        replicas.cluster.ineligible = {B, C}
        replicas.fetch(B)
        replicas.cluster.ineligible = {C}
        replicas.produce(b"m0")
        assert replicas.ends(A) == (1, 0)
        replicas.now_s += MAX_LAG_S + 1
        replicas.fetch(C)
        assert replicas.ends(A) == (1, 1)

    @pytest.mark.parametrize("broker_epoch", [0, 2])
    def test_another_life_of_a_broker_does_not_join(self, broker_epoch):
        replicas = alone()
        told = (B, 0, 0, 1.0)
        if broker_epoch < 1:
            with pytest.raises(ApiError) as refused:
                replicas[A].update_follower(*told, broker_epoch=broker_epoch)
            assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            replicas[A].update_follower(*told, broker_epoch=broker_epoch)
        assert proposed(replicas) == []

    def test_an_ineligible_broker_does_not_join(self):
        replicas = alone()
        replicas.cluster.ineligible = {B}
        replicas.fetch(B)
        replicas.produce(b"m0")
        assert proposed(replicas) == []
        assert replicas.ends(A) == (1, 1)

    def test_one_that_was_ineligible_when_it_fetched_joins_without_another_fetch(self):
        replicas = alone()
        replicas.cluster.ineligible = {B}
        replicas.fetch(B)
        replicas[A].expand_isr(replicas.now_s)
        assert proposed(replicas) == []
        replicas.cluster.ineligible = set()
        replicas[A].expand_isr(replicas.now_s)
        assert proposed(replicas) == [(A, B)]

    def test_one_that_fetched_while_another_was_proposed_is_proposed_next(self):
        replicas = alone(A, B, C)
        replicas.fetch(B)
        replicas.fetch(C)
        assert proposed(replicas) == [(A, B)]
        replicas.answer()
        assert proposed(replicas) == [(A, B, C)]

    def test_one_that_has_stopped_fetching_is_not_proposed_again(self):
        replicas = alone(A, B, min_insync_replicas=2)
        replicas.cluster.ineligible = {B}
        replicas.fetch(B)
        replicas.cluster.ineligible = set()
        replicas.produce(b"m0", acks=ACKS_LEADER)
        replicas[A].shrink_isr(replicas.now_s + MAX_LAG_S + 1)
        assert proposed(replicas) == []

    def test_a_new_leader_takes_nobody_in_who_lacks_what_earlier_leaders_wrote(self):
        replicas = Replicas(A, B, C)
        replicas.produce(b"m0", b"m1")
        replicas.fetch(B)
        replicas.give(replicas.change(leader=B, isr=(A, B)))
        replicas[B].update_follower(C, 0, 1, 1.0, broker_epoch=1)
        assert replicas.ends(B) == (2, 0)
        assert proposed(replicas) == []
        replicas[B].update_follower(C, 2, 1, 1.0, broker_epoch=1)
        assert proposed(replicas) == [(A, B, C)]


class TestShrinking:
    def lagging(self, **config):
        replicas = Replicas(A, B, C, **config)
        replicas.produce(b"m0")
        replicas.fetch(C)
        replicas.now_s += MAX_LAG_S + 1
        replicas.fetch(C)
        replicas[A].shrink_isr(replicas.now_s)
        return replicas

    def test_who_lags_is_proposed_to_leave_and_counts_until_the_answer(self):
        replicas = self.lagging()
        assert proposed(replicas) == [(A, C)]
        assert replicas.ends(A) == (1, 0)
        replicas.answer()
        assert replicas.ends(A) == (1, 1)
        assert replicas.ports.counts.shrinks == 1

    def test_a_change_that_metadata_tells_of_first_is_counted_once(self):
        replicas = self.lagging()
        replicas.give(replicas.change(isr=(A, C)), A)
        assert replicas.ends(A) == (1, 1)
        partition, proposal = replicas.cluster.proposals.pop()
        partition.isr_answer(
            proposal, ErrorCode.NONE, leader_epoch=0, partition_epoch=1, isr=(A, C)
        )
        assert partition.role.isr == (A, C)
        assert replicas.ports.counts.shrinks == 1

    def test_waiting_clients_hear_of_too_few(self):
        async def work():
            replicas, told = self.lagging(min_insync_replicas=3), []
            replicas[A].delay(1, told.append, 10.0)
            replicas.answer()
            assert told == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
            assert replicas.ends(A) == (1, 0)

        asyncio.run(work())

    def test_only_a_leader_with_followers_proposes(self):
        replicas = Replicas(A)
        replicas[A].shrink_isr(1e9)
        replicas = Replicas(A, B)
        replicas[B].shrink_isr(1e9)
        replicas[A].log.offline = True
        replicas[A].shrink_isr(1e9)
        assert proposed(replicas) == []


class TestAnswers:
    def pending(self):
        replicas = alone()
        replicas.fetch(B)
        assert proposed(replicas) == [(A, B)]
        return replicas

    @pytest.mark.parametrize(
        ("error", "stays", "again"),
        [
            (ErrorCode.INELIGIBLE_REPLICA, False, False),
            (ErrorCode.INVALID_UPDATE_VERSION, True, False),
            (ErrorCode.NOT_CONTROLLER, True, True),
        ],
    )
    def test_an_error_reverts_keeps_or_repeats(self, error, stays, again):
        replicas = self.pending()
        replicas.answer(error)
        assert (replicas[A].pending_isr is not None) is stays
        assert bool(proposed(replicas)) is again
        replicas.produce(b"m0")
        replicas.now_s += MAX_LAG_S + 1
        replicas[A].shrink_isr(replicas.now_s)
        assert replicas.ends(A) == (1, 0 if stays else 1)
        assert replicas.ports.counts.failures == 1

    def test_one_that_may_not_join_is_not_waited_for_until_it_fetches_again(self):
        replicas = self.pending()
        replicas.produce(b"m0")
        assert replicas.ends(A) == (1, 0)
        replicas.answer(ErrorCode.INELIGIBLE_REPLICA)
        assert replicas.ends(A) == (1, 1)
        replicas.produce(b"m1")
        assert replicas.ends(A) == (2, 2)
        replicas.fetch(B)
        replicas.fetch(B)
        assert proposed(replicas) == [(A, B)]

    def test_the_high_watermark_moves_with_a_refusal(self):
        replicas = self.pending()
        replicas.produce(b"m0")
        replicas.now_s += MAX_LAG_S + 1
        replicas[A].shrink_isr(replicas.now_s)
        assert replicas.ends(A) == (1, 0)
        replicas.answer(ErrorCode.INELIGIBLE_REPLICA)
        assert replicas.ends(A) == (1, 1)

    def test_an_answer_without_a_change_ends_the_proposal(self):
        replicas = self.pending()
        partition, proposal = replicas.cluster.proposals.pop()
        role = partition.role
        partition.isr_answer(
            proposal,
            ErrorCode.NONE,
            leader_epoch=0,
            partition_epoch=role.partition_epoch,
            isr=role.isr,
        )
        assert partition.pending_isr is None
        assert partition.role == role

    def test_an_answer_to_a_leader_that_resigned_changes_nothing(self):
        replicas = self.pending()
        partition, proposal = replicas.cluster.proposals.pop()
        replicas.give(replicas.change(leader=B, isr=(A, B)))
        partition.isr_answer(
            proposal, ErrorCode.NONE, leader_epoch=0, partition_epoch=9, isr=(A, B)
        )
        assert partition.role.leader == B

    def test_known_metadata_does_not_end_the_next_proposal(self):
        replicas = self.pending()
        replicas.give(replace(replicas.role), A)
        assert replicas[A].pending_isr is not None


class TestOffsets:
    def test_a_new_leader_does_not_say_where_it_ends_before_its_epoch_is_committed(self):
        replicas = Replicas(A, B)
        replicas.produce(b"m0")
        replicas.fetch(B)
        replicas.give(replicas.change(leader=B))
        assert not replicas[B].is_latest_offset_known
        replicas.fetch(A)
        assert replicas.ends(B) == (1, 1)
        assert replicas[B].is_latest_offset_known
        assert Replicas(A)[A].is_latest_offset_known

    def test_the_low_watermark_waits_for_live_replicas(self):
        replicas = Replicas(A, B, C)
        assert replicas[A].low_watermark == -1
        replicas.produce(b"m0")
        for broker in (B, C, B, C):
            replicas.fetch(broker)
        assert replicas[A].low_watermark == 0
        replicas[A].delete_records(1)
        assert (replicas[A].log_start_offset, replicas[A].low_watermark) == (1, 0)
        replicas.fetch(B)  # the answer tells it of the start, the next fetch tells the leader
        replicas.fetch(B)
        assert replicas[B].log_start_offset == 1
        assert replicas[A].low_watermark == 0
        replicas.cluster.ineligible = {C}
        assert replicas[A].low_watermark == 1

    def test_acks_of_the_leader_alone_are_stored_and_unread_below_min_isr(self):
        replicas = alone(min_insync_replicas=2)
        replicas.produce(b"m0", acks=ACKS_LEADER)
        assert replicas.ends(A) == (1, 0)
