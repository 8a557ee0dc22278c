"""Replication by example, step by step: high watermarks that walk, and two classic accidents."""

from __future__ import annotations

import asyncio

import pytest

from kits.log_kit import region_bytes
from kits.replica_kit import MAX_LAG_S, Replicas
from moldau.base.ids import NO_LEADER_EPOCH
from moldau.replication import truncation
from moldau.replication.partition import ReadLimit
from moldau.storage.epochs import EpochEnd, EpochEntry, LeaderEpochs

A, B, C = 1, 2, 3


def seen(replicas):
    """Return how many bytes a consumer gets from the beginning."""
    found = replicas.leader.read(0, 1 << 20, ReadLimit.HIGH_WATERMARK)
    return len(region_bytes(found))


class TestHighWatermarkWalks:
    def test_a_fetch_after_the_write(self):
        replicas = Replicas(A, B)
        replicas.produce(b"m1")
        assert replicas.ends(A) == (1, 0)
        assert replicas.fetch(B) > 0
        assert replicas.ends(A) == (1, 0)
        assert replicas.ends(B) == (1, 0)
        assert seen(replicas) == 0
        assert replicas.fetch(B) == 0
        assert replicas.ends(A) == (1, 1)
        assert replicas.ends(B) == (1, 1)
        assert seen(replicas) > 0

    def test_a_parked_fetch_that_is_woken_by_the_write(self):
        replicas, woken = Replicas(A, B), []

        class ParkedFetch:
            def moved(self, partition):
                woken.append(partition.log_end_offset)

        replicas.fetch(B)
        parked = ParkedFetch()
        replicas[A].watch_log_end(parked)
        replicas.produce(b"m1")
        assert woken == [1]
        assert replicas.ends(A) == (1, 0)
        found = region_bytes(replicas[A].read(0, 1 << 20, ReadLimit.LOG_END))
        replicas[B].append_as_follower(found, 0, replicas[A].high_watermark, 0)
        assert replicas.ends(B) == (1, 0)
        replicas.fetch(B)
        assert woken == [1], "the high watermark moves by a follower's own fetch"
        assert replicas.ends(A) == (1, 1)
        assert replicas.ends(B) == (1, 1)
        replicas[A].unwatch(parked)
        replicas.produce(b"m2")
        assert woken == [1]

    def test_three_replicas_and_one_record(self):
        async def work():
            replicas, answered = Replicas(A, B, C), []
            assert [replicas.ends(one) for one in (A, B, C)] == [(0, 0)] * 3
            replicas.produce(b"m1")
            replicas[A].delay(1, answered.append, 10.0)
            assert [replicas.ends(one) for one in (A, B, C)] == [(1, 0), (0, 0), (0, 0)]
            replicas.fetch(B)
            replicas.fetch(C)
            assert [replicas.ends(one) for one in (A, B, C)] == [(1, 0)] * 3
            replicas.fetch(B)
            assert (replicas.ends(A), answered, seen(replicas)) == ((1, 0), [], 0)
            replicas.fetch(C)
            assert replicas.ends(A) == (1, 1)
            assert answered == [0]
            assert seen(replicas) > 0

        asyncio.run(work())


def test_epoch_entries_say_where_each_epoch_ends():
    epochs = LeaderEpochs([EpochEntry(0, 0), EpochEntry(1, 120)])
    assert truncation.epoch_end(epochs, 1, 150, 0) == (0, 120)
    assert truncation.epoch_end(epochs, 1, 150, 1) == (1, 150)
    follower = LeaderEpochs([EpochEntry(0, 0)])
    for own_end, cut in ((130, 120), (120, 120), (100, 100)):
        assert truncation.truncation_offset(follower, EpochEnd(0, 120), own_end, 0) == cut


def test_a_burst_does_not_shrink_the_isr():
    replicas = Replicas(A, B)
    for _ in range(10):  # Each time the leader has grown before the follower asks again.
        replicas.produce(b"x")
        replicas.fetch(B)
        replicas.now_s += MAX_LAG_S / 2
        replicas.produce(b"y", b"z")
        replicas[A].shrink_isr(replicas.now_s)
    assert replicas.cluster.proposals == []
    replicas.now_s += MAX_LAG_S
    replicas[A].shrink_isr(replicas.now_s)
    assert [one.isr for _, one in replicas.cluster.proposals] == [(A,)]


class TestAccidents:
    """With one in-sync replica needed, and nobody out of the ISR for an unclean return."""

    @pytest.mark.parametrize("by_epoch", [False, True])
    def test_a_follower_that_restarts_and_leads_loses_nothing_committed(self, by_epoch):
        replicas = Replicas(A, B)
        replicas.produce(b"m0", b"m1")
        replicas[A].update_follower(B, 0, 0, 1.0)
        found = region_bytes(replicas[A].read(0, 1 << 20, ReadLimit.LOG_END))
        replicas[B].append_as_follower(found, 0, 1, 0)
        replicas[A].update_follower(B, 2, 0, 1.0)  # the answer, with high watermark 2, is lost
        assert (replicas.ends(A), replicas.ends(B)) == ((2, 2), (2, 1))

        replicas.restart(B, high_watermark=1)
        if by_epoch:
            replicas.give(replicas.role, B)
            assert replicas[A].diverging(replicas[B].log.epochs.latest, 2) is None
        else:
            replicas[B].log.truncate_to(1)
        replicas.give(replicas.change(leader=B, isr=(B,)), B)  # A dies before B has fetched
        assert replicas.values(B) == ([b"m0", b"m1"] if by_epoch else [b"m0"])

        replicas.restart(A, high_watermark=2 if by_epoch else 1)
        replicas.give(replicas.role, A)
        if by_epoch:
            assert replicas[B].epoch_end(0) == (0, 2)
            replicas.fetch(A)
            assert replicas.values(A) == replicas.values(B) == [b"m0", b"m1"]

    @pytest.mark.parametrize("by_epoch", [False, True])
    def test_two_logs_do_not_differ_after_both_have_died(self, by_epoch):
        replicas = Replicas(A, B)
        replicas.produce(b"m1")
        for _ in range(2):
            replicas.fetch(B)
        replicas.produce(b"m2")
        replicas.fetch(B)
        replicas[A].update_follower(B, 2, 0, 1.0)
        assert (replicas.ends(A), replicas.ends(B)) == ((2, 2), (2, 1))

        replicas[B].log.truncate_to(1)  # its copy of m2 was not on disk yet
        replicas.restart(A, high_watermark=2)
        replicas.restart(B, high_watermark=1)
        replicas.give(replicas.change(leader=B, isr=(B,)), B)
        replicas.produce(b"m3")
        assert replicas.ends(B) == (2, 2)

        replicas.give(replicas.role, A)
        if by_epoch:
            assert replicas[B].diverging(0, 2) == (0, 1)
            replicas.fetch(A)
            assert replicas.ends(A) == (1, 1)
        else:
            assert replicas[B].diverging(NO_LEADER_EPOCH, 2) is None
            replicas[A].append_as_follower(b"", 1, 2, 0)  # up to date, as far as offsets tell
        if by_epoch:
            replicas.fetch(A)
            assert replicas.values(A) == replicas.values(B) == [b"m1", b"m3"]
            assert replicas[A].log.epochs.entries == ((0, 0), (1, 1))
        else:
            assert replicas.values(A) == [b"m1", b"m2"]
            assert replicas.values(B) == [b"m1", b"m3"]
