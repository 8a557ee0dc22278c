"""No turn of a shard is long, however much it holds: what is long is done in slices."""

from __future__ import annotations

import random

import pytest

from kits.group_shard_kit import DAY_MS, TOPIC_ID, ServedShard, Ticket, commit_request
from moldau.base.errors import InvariantViolated
from moldau.coordination.groups import shard as shards
from moldau.coordination.groups.slices import BYTES_PER_SLICE, LOOKS_PER_SLICE, Slices
from moldau.coordination.groups.turn import GroupTimer
from moldau.coordination.outcome import StateRecord
from moldau.protocol.errors import ErrorCode

WEEK_S = 7 * DAY_MS / 1000
CHECK_S = 600


@pytest.fixture
def served():
    return ServedShard()


def filled(served, count, **changes):
    for partition in range(count):
        served.commit(commit_request(partition=partition, **changes))
    served.batches.clear()
    return served


class TestSlices:
    def test_a_slice_ends_after_so_many_looks_whatever_they_find(self):
        slices = Slices(iter([None] * LOOKS_PER_SLICE + [StateRecord(b"k", None)]))
        assert slices.next_slice() == ([], False)
        assert slices.next_slice() == ([StateRecord(b"k", None)], True)

    def test_a_slice_that_is_full_leaves_nothing_out(self):
        large = StateRecord(b"k" * (BYTES_PER_SLICE // 2), None)
        slices = Slices(iter([large] * 3))
        found = [slices.next_slice(), slices.next_slice()]
        assert [(len(records), is_last) for records, is_last in found] == [(2, False), (1, True)]

    def test_no_slice_holds_parts_of_two_ways(self):
        record = StateRecord(b"k", None)
        slices = Slices(iter([record]), iter([record]))
        assert [slices.next_slice(), slices.next_slice()] == [([record], False), ([record], True)]


class TestExpiry:
    def test_one_sweep_finds_everything_however_long_the_names_are(self, served):
        for number in range(20):
            served.commit(commit_request(group=f"{number:02}".ljust(32_000, "g")))
        served.later(WEEK_S)
        served.later(CHECK_S)
        assert served.states() == {}


class TestDeletedTopics:
    def test_the_turn_that_hears_of_it_only_sets_a_timer(self, served):
        filled(served, 3)
        outcome = served.shard.topics_deleted({"orders": TOPIC_ID, "other": TOPIC_ID}, served.now)
        assert (outcome.records, outcome.then) == ((), None)
        assert [timer.after_s for timer in outcome.timers] == [0]

    def test_no_turn_writes_or_looks_at_more_than_a_slice(self, served):
        """Half of the groups have offsets of a new topic of the name: those are looked at too."""
        for number in range(2 * LOOKS_PER_SLICE):
            topic_id = TOPIC_ID if number % 2 else b"n" * 16
            served.commit(commit_request(group=f"g{number}", topic_id=topic_id))
        served.batches.clear()
        served.topic_deleted()
        assert [len(batch) for batch in served.batches] == [LOOKS_PER_SLICE // 2] * 2
        left = {name for name in served.states() if served.offset(group=name)[0] >= 0}
        assert left == {f"g{number}" for number in range(0, 2 * LOOKS_PER_SLICE, 2)}

    def test_what_is_committed_under_way_to_a_new_topic_of_the_name_stays(self, served):
        filled(served, LOOKS_PER_SLICE + 2)
        served.carry_out(served.shard.topics_deleted({"orders": TOPIC_ID}, served.now))
        (key,) = [key for key in served.timers if isinstance(key, shards.TopicDeletion)]
        served.carry_out(served.shard.timer_fired(key, served.now))
        served.commit(commit_request(7, partition=LOOKS_PER_SLICE + 1, topic_id=b"n" * 16))
        served.later(0)
        assert [one.partition_index for one in served.fetch().topics[0].partitions] == [
            LOOKS_PER_SLICE + 1
        ]

    def test_a_log_that_refuses_is_asked_again_later(self, served):
        filled(served, LOOKS_PER_SLICE + 1)
        served.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        served.topic_deleted()
        served.refusal = None
        assert served.offset() == (5, 0)
        served.later(CHECK_S)
        assert served.fetch().topics == []

    def test_a_topic_of_which_there_is_no_offset_costs_nothing(self, served):
        filled(served, 1)
        outcome = served.shard.topics_deleted({"other": TOPIC_ID}, served.now)
        assert not outcome.timers


class TestDeletedGroups:
    def test_every_slice_has_a_turn_of_its_own(self, served):
        filled(served, LOOKS_PER_SLICE + 1)
        ticket = Ticket()
        outcome = served.shard.delete_group("g", ticket, served.now)
        assert (len(outcome.records), outcome.then) == (LOOKS_PER_SLICE, None)
        served.carry_out(outcome)
        assert ticket.answers == []
        served.later(0)
        assert ticket.answer.error_code == ErrorCode.NONE
        assert served.states() == {}

    def test_a_member_that_comes_between_two_slices_keeps_the_rest(self, served):
        filled(served, LOOKS_PER_SLICE + 1)
        ticket = served.ask(lambda shard, t, now: shard.delete_group("g", t, now))
        served.join()
        served.later(0)
        assert ticket.answer.error_code == ErrorCode.NON_EMPTY_GROUP
        assert served.offset(partition=LOOKS_PER_SLICE) == (5, 0)

    def test_a_group_whose_tombstone_stands_behind_its_offset_is_found_by_a_restart(self, served):
        """Nobody writes it so, but what can be fetched can also be listed, and expires."""
        served.commit(commit_request(1))
        served.log.append((served.shard._groups["g"].tombstone(), None))
        again = served.restarted()
        assert (again.states(), again.offset()) == ({"g": "Empty"}, (1, 0))


class TestLoading:
    @pytest.mark.patches
    def test_sessions_begin_group_by_group(self, served, monkeypatch):
        monkeypatch.setattr(shards, "GROUPS_PER_TURN", 1)
        members = {f"g{number}": served.make_stable(group=f"g{number}") for number in range(3)}
        fresh = ServedShard()
        shard = fresh.shard = shards.GroupShard(fresh.settings, random.Random(1))
        fresh.timers.clear()
        for record, producer in served.log:
            shard.replay(record, producer)
        outcome = shard.loaded(fresh.now)
        assert [timer.key for timer in outcome.timers] == [
            shards.EXPIRY_TIMER, shards.SESSIONS_TIMER
        ]  # fmt: skip
        fresh.carry_out(outcome)
        last, (member_id, generation) = list(members.items())[-1]
        assert fresh.heartbeat(member_id, generation, group=last) == ErrorCode.NONE
        counts = []
        while shards.SESSIONS_TIMER in fresh.timers:
            del fresh.timers[shards.SESSIONS_TIMER]
            fresh.carry_out(shard.timer_fired(shards.SESSIONS_TIMER, fresh.now))
            counts.append(sum(isinstance(key, GroupTimer) for key in fresh.timers))
        assert counts == [2, 3, 3]
        fresh.later(10)
        assert set(fresh.states().values()) == {"Empty"}

    def test_a_timer_of_nobody_is_a_bug(self, served):
        with pytest.raises(InvariantViolated):
            served.shard.timer_fired("nobody", served.now)
