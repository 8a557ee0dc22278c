"""What a follower does to its log: cut it where its leader's parts, start anew, take what fits."""

from __future__ import annotations

import pytest

from kits.log_kit import make_batch, marker
from kits.replica_kit import Replicas
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.partition import ACKS_ALL, ACKS_LEADER, ReadLimit, Role
from moldau.storage.epochs import EpochEnd
from moldau.storage.log_truncation import run_steps

A, B = 1, 2


def transact(partition, sequence):
    batch = make_batch([b"t"], producer=(7, 0, sequence), transactional=True)
    partition.append_as_leader(batch, parse_header(batch), ACKS_LEADER)


def diverged():
    """A has led and died with more than B has; B leads, and A has returned to follow it."""
    replicas = Replicas(A, B)
    replicas.produce(b"m0")
    replicas.fetch(B)
    replicas.fetch(B)
    transact(replicas[A], 0)
    replicas[A].append_marker(*marker(7, 0, aborted=True), 1)
    transact(replicas[A], 1)
    replicas.give(replicas.change(leader=B))
    replicas.produce(b"n1", b"n2")
    return replicas


def test_a_log_is_cut_with_all_that_belongs_to_it():
    replicas, heard = diverged(), []
    partition = replicas[A]

    class Watcher:
        def moved(self, moved):
            heard.append(moved.log_end_offset)

    partition.watch(Watcher())
    assert partition.producers() != ()
    assert partition.last_stable_offset == 1
    replicas.fetch(A)
    assert replicas.ends(A) == (1, 1)
    assert heard == [1]
    assert partition.producers() == ()
    assert partition.log.epochs.entries == ((0, 0),)
    read = partition.read(0, 1 << 20, ReadLimit.LOG_END)
    assert partition.aborted_transactions(0, read) == ()
    replicas.fetch(A)
    assert replicas.values(A) == replicas.values(B) == [b"m0", b"n1", b"n2"]
    assert partition.log.epochs.entries == replicas[B].log.epochs.entries == ((0, 0), (1, 1))
    # B's high watermark moves by A's next fetch, and A hears of it then.
    replicas.fetch(A)
    assert replicas.ends(A) == replicas.ends(B) == (3, 3)


def test_transactions_that_ended_before_the_cut_stay_stable():
    replicas = Replicas(A, B)
    transact(replicas[A], 0)
    replicas[A].append_marker(*marker(7, 0, aborted=True), 1)
    replicas.fetch(B)
    replicas.fetch(B)
    replicas.produce(b"m2")
    replicas.give(replicas.change(leader=B))
    assert replicas[B].diverging(0, 3) == (0, 2)
    replicas.fetch(A)
    assert replicas.ends(A) == (2, 2)
    assert replicas[A].last_stable_offset == 2
    read = replicas[A].read(0, 1 << 20, ReadLimit.LOG_END)
    assert len(replicas[A].aborted_transactions(0, read)) == 1


def test_a_high_watermark_above_the_cut_comes_down():
    replicas = Replicas(A, B)
    replicas.produce(b"m0", b"m1")
    replicas.fetch(B)
    replicas.fetch(B)
    assert replicas.ends(B) == (2, 2)
    replicas.truncate(B, EpochEnd(0, 1), 0)
    assert replicas.ends(B) == (1, 1)


def test_an_answer_that_cuts_nothing_wakes_nobody():
    replicas, heard = Replicas(A, B), []

    class Watcher:
        def moved(self, moved):
            heard.append(moved)

    replicas[B].watch(Watcher())
    replicas.truncate(B, EpochEnd(0, 10), 0)
    assert heard == []


def test_a_log_starts_anew_where_the_leader_has_something():
    replicas = Replicas(A, B)
    replicas.produce(b"m0", b"m1", b"m2")
    run_steps(replicas[B].restart_at(2, 0))
    assert (replicas[B].log_start_offset, *replicas.ends(B)) == (2, 2, 2)
    replicas.fetch(B)
    assert replicas.values(B) == [b"m2"]
    run_steps(replicas[B].restart_at(1, 0))
    assert (replicas[B].log_start_offset, *replicas.ends(B)) == (1, 1, 1)


@pytest.mark.parametrize("broker", [A, B])
def test_nothing_is_cut_in_another_epoch_or_by_a_leader(broker):
    replicas = Replicas(A, B)
    replicas.produce(b"m0")
    replicas.fetch(B)
    epoch = 0 if broker == A else 1
    for cut in (
        lambda: replicas[broker].divergence(EpochEnd(0, 0), epoch),
        lambda: replicas[broker].truncate_to(0, epoch),
        lambda: replicas[broker].restart_at(0, epoch),
    ):
        with pytest.raises(ApiError) as refused:
            cut()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicas.ends(broker)[0] == 1


def test_a_batch_that_holds_the_leaders_start_is_taken_whole():
    replicas = Replicas(A, B)
    batch = make_batch([b"0", b"1", b"2"])
    replicas[A].append_as_leader(batch, parse_header(batch), ACKS_LEADER)
    replicas[A].log.delete_records_before(2)
    run_steps(replicas[B].restart_at(2, 0))
    assert replicas.fetch(B) == len(batch)
    replicas.fetch(B)
    assert (replicas[B].log_start_offset, *replicas.ends(B)) == (2, 3, 3)
    assert replicas.values(B) == [b"2"]


def elected_while_cut():
    """B is elected while its files are cut: the steps have not run yet."""
    replicas = Replicas(A, B)
    replicas.produce(b"m0", b"m1")
    replicas.fetch(B)
    steps = replicas[B].truncate_to(1, 0)
    replicas.give(replicas.change(leader=B, isr=(B,)))
    return replicas, steps


@pytest.mark.parametrize("acks", [ACKS_LEADER, ACKS_ALL])
def test_a_leader_takes_no_append_before_its_files_are_cut(acks):
    replicas, steps = elected_while_cut()
    with pytest.raises(ApiError) as refused:
        replicas.produce(b"n1", acks=acks)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    run_steps(steps)
    replicas.produce(b"n1", acks=acks)
    assert replicas.values(B) == [b"m0", b"n1"]


def test_what_a_leader_has_is_committed_once_its_files_are_cut():
    replicas = Replicas(A, B)
    replicas.produce(b"m0", b"m1")
    replicas.fetch(B)
    steps = replicas[B].truncate_to(1, 0)
    replicas.give(Role(B, 1, replicas.role.partition_epoch + 1, (B,), (B,)), B)
    assert replicas.ends(B) == (1, 0)
    run_steps(steps)
    assert replicas.ends(B) == (1, 1)


def test_readers_of_a_follower_hear_of_its_high_watermark():
    replicas, heard = Replicas(A, B), []

    class Watcher:
        def moved(self, moved):
            heard.append((moved.log_start_offset, moved.high_watermark))

    replicas[B].watch(Watcher())
    replicas.produce(b"m0")
    replicas.fetch(B)
    assert heard == []
    replicas.fetch(B)
    assert heard == [(0, 1)]
    replicas[A].delete_records(1)
    replicas.fetch(B)
    assert heard == [(0, 1), (1, 1)]


def test_a_reader_with_an_epoch_of_nobody_is_out_of_range():
    with pytest.raises(ApiError) as refused:
        diverged()[B].diverging(5, 0)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_below_the_start_is_out_of_range_whatever_its_epoch_is():
    replicas = diverged()
    replicas[B].log.delete_records_before(2)
    with pytest.raises(ApiError) as refused:
        replicas[B].update_follower(A, 1, 1, 1.0)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
