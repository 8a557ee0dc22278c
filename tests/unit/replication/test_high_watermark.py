"""The high watermark over the in-sync replicas, with the other replicas played by the test."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from kits import log_kit
from kits.log_kit import KEY, TOPIC_ID, make_batch, marker, region_bytes
from kits.partition_kit import ME, OTHER, give_role
from moldau.base.errors import InvariantViolated
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.partition import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    Partition,
    ReadLimit,
    Role,
)
from moldau.storage.topic_config import LogConfig

THIRD = 3
BOTH = Role(ME, 0, 0, (ME, OTHER), (ME, OTHER))
SHRUNK = Role(ME, 0, 1, (ME, OTHER), (ME,))


def opened(role=BOTH, **config) -> Partition:
    partition = Partition(KEY, TOPIC_ID, log_kit.Broker(config=LogConfig(**config)).log(), ME)
    give_role(partition, role)
    return partition


def produce(partition, *values, acks=ACKS_ALL, **batch):
    batch = make_batch(values or (b"v",), **batch)
    return partition.append_as_leader(batch, parse_header(batch), acks)


def fetch(partition, offset, broker=OTHER, epoch=0, now_s=0.0):
    partition.update_follower(broker, offset, epoch, now_s)


def code_of(work, *arguments):
    with pytest.raises(ApiError) as refused:
        work(*arguments)
    return refused.value.code


class TestHighWatermark:
    def test_alone_it_is_the_end_of_the_own_log_at_once(self):
        partition = opened(SHRUNK)
        assert partition.commits_at_once
        produce(partition, b"a", b"b")
        assert partition.high_watermark == partition.committed_offset == 2

    def test_it_is_the_lowest_end_of_the_in_sync_replicas(self):
        partition = opened(Role(ME, 0, 0, (ME, OTHER, THIRD), (ME, OTHER, THIRD)))
        for _ in range(3):
            produce(partition)
        assert partition.high_watermark == 0
        fetch(partition, 2)
        assert partition.high_watermark == 0
        fetch(partition, 1, THIRD)
        assert partition.high_watermark == 1
        fetch(partition, 3, THIRD)
        assert partition.high_watermark == 2

    def test_it_never_moves_backwards(self):
        partition = opened()
        produce(partition)
        produce(partition)
        fetch(partition, 2)
        fetch(partition, 0)  # it has lost its disk
        assert partition.high_watermark == 2
        produce(partition)
        fetch(partition, 1)
        assert partition.high_watermark == 2
        fetch(partition, 3)
        assert partition.high_watermark == 3

    def test_a_replica_out_of_sync_does_not_count(self):
        partition = opened(SHRUNK)
        fetch(partition, 0)
        produce(partition)
        assert partition.high_watermark == 1

    def test_it_moves_when_the_slow_one_leaves_the_isr(self):
        partition = opened()
        produce(partition)
        give_role(partition, SHRUNK)
        assert partition.high_watermark == 1

    def test_it_waits_for_one_that_joins_the_isr(self):
        partition = opened(SHRUNK)
        produce(partition)
        fetch(partition, 1)
        give_role(partition, replace(BOTH, partition_epoch=2))
        assert not partition.commits_at_once
        produce(partition)
        assert partition.high_watermark == 1
        fetch(partition, 2)
        assert partition.high_watermark == 2

    def test_it_stands_while_too_few_are_in_sync(self):
        partition = opened(SHRUNK, min_insync_replicas=2)
        produce(partition, acks=ACKS_LEADER)
        assert (partition.log_end_offset, partition.high_watermark) == (1, 0)
        give_role(partition, replace(BOTH, partition_epoch=2))
        fetch(partition, 1)
        assert partition.high_watermark == 1

    def test_it_moves_when_fewer_need_to_be_in_sync(self):
        partition = opened(SHRUNK, min_insync_replicas=2)
        produce(partition, acks=ACKS_LEADER)
        partition.update_config(replace(partition.config, min_insync_replicas=1))
        assert partition.high_watermark == 1

    def test_more_than_all_replicas_cannot_be_asked_for(self):
        partition = opened(Role(ME, 0, 0, (ME,), (ME,)), min_insync_replicas=3)
        produce(partition)
        assert partition.high_watermark == 1

    def test_readers_hear_of_a_move_and_of_nothing_else(self):
        partition, heard = opened(), []

        class Watcher:
            def moved(self, moved):
                heard.append(moved.high_watermark)

        partition.watch(Watcher())
        produce(partition)
        assert heard == []
        fetch(partition, 1)
        fetch(partition, 1)
        assert heard == [1]

    def test_a_transaction_is_stable_when_its_marker_is_on_all_of_them(self):
        partition = opened()
        produce(partition, producer=(7, 0, 0), transactional=True)
        partition.append_marker(*marker(7, 0, aborted=False), 1)
        produce(partition)
        fetch(partition, 1)
        assert (partition.last_stable_offset, partition.high_watermark) == (0, 1)
        fetch(partition, 3)
        assert (partition.last_stable_offset, partition.high_watermark) == (3, 3)


class TestReading:
    def test_readers_get_what_they_may_have(self):
        partition = opened()
        for sequence in range(3):
            produce(
                partition, b"%d" % sequence, producer=(7, 0, sequence), transactional=sequence > 0
            )
        fetch(partition, 2)
        sizes = [
            len(region_bytes(partition.read(0, 10_000, limit)))
            for limit in (ReadLimit.LAST_STABLE_OFFSET, ReadLimit.HIGH_WATERMARK, ReadLimit.LOG_END)
        ]
        assert sizes[2] == 3 * sizes[0] == sizes[1] // 2 * 3

    def test_records_behind_the_high_watermark_are_not_deleted(self):
        partition = opened()
        produce(partition)
        assert code_of(partition.delete_records, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
        fetch(partition, 1)
        assert partition.delete_records(1) == 1


class TestWriting:
    @pytest.mark.parametrize("acks", [ACKS_NONE, ACKS_LEADER, ACKS_ALL])
    def test_only_acks_all_asks_how_many_are_in_sync(self, acks):
        partition = opened(SHRUNK, min_insync_replicas=2)
        if acks == ACKS_ALL:
            assert code_of(produce, partition) is ErrorCode.NOT_ENOUGH_REPLICAS
            assert code_of(partition.append_checked, b"", 1) is ErrorCode.NOT_ENOUGH_REPLICAS
        else:
            produce(partition, acks=acks)
        assert partition.log_end_offset == (acks != ACKS_ALL)

    def test_a_marker_is_written_as_with_acks_all(self):
        partition = opened(SHRUNK, min_insync_replicas=2)
        refused = code_of(partition.append_marker, *marker(7, 0, aborted=True), 1)
        assert refused is ErrorCode.NOT_ENOUGH_REPLICAS
        assert partition.log_end_offset == 0

    def test_new_configs_and_roles_count_from_the_next_batch_on(self):
        partition = opened(SHRUNK)
        produce(partition)
        partition.update_config(replace(partition.config, min_insync_replicas=2))
        assert code_of(produce, partition) is ErrorCode.NOT_ENOUGH_REPLICAS
        give_role(partition, replace(BOTH, partition_epoch=2))
        produce(partition)
        give_role(partition, replace(SHRUNK, partition_epoch=3))
        assert code_of(produce, partition) is ErrorCode.NOT_ENOUGH_REPLICAS

    def test_a_follower_appends_for_no_client(self):
        partition = opened(Role(OTHER, 0, 0, (ME, OTHER), (ME, OTHER)))
        for acks in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
            refused = code_of(partial(produce, partition, acks=acks))
            assert refused is ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_nobody_appends_to_a_disk_that_is_gone(self):
        partition = opened(SHRUNK)
        produce(partition)
        partition.log.offline = True
        assert code_of(produce, partition) is ErrorCode.KAFKA_STORAGE_ERROR


class TestFollowersThatMayNotBeNoted:
    @pytest.mark.parametrize(
        ("broker", "offset", "epoch", "code"),
        [
            (OTHER, 0, 0, ErrorCode.FENCED_LEADER_EPOCH),
            (OTHER, 0, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (THIRD, 0, 1, ErrorCode.UNKNOWN_LEADER_EPOCH),
            (THIRD, 0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (OTHER, 2, 1, ErrorCode.OFFSET_OUT_OF_RANGE),
            (OTHER, -1, 1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ],
    )
    def test_they_are_told_why_and_nothing_moves(self, broker, offset, epoch, code):
        partition = opened(replace(BOTH, leader_epoch=1))
        produce(partition)
        assert code_of(fetch, partition, offset, broker, epoch) is code
        assert partition.high_watermark == 0
        fetch(partition, 1, epoch=1)
        assert partition.high_watermark == 1

    def test_a_follower_takes_note_of_nobody(self):
        partition = opened(Role(OTHER, 0, 0, (ME, OTHER), (ME, OTHER)))
        assert code_of(fetch, partition, 0, THIRD) is ErrorCode.NOT_LEADER_OR_FOLLOWER


class TestRoles:
    def test_a_new_leader_keeps_the_high_watermark_until_followers_have_fetched_from_it(self):
        partition = opened(Role(OTHER, 0, 0, (ME, OTHER), (ME, OTHER)))
        batches = b"".join(make_batch(base_offset=offset, leader_epoch=0) for offset in range(3))
        partition.append_as_follower(batches, 0, 2, 0)
        give_role(partition, replace(BOTH, leader_epoch=1, partition_epoch=1))
        assert (partition.high_watermark, partition.log_end_offset) == (2, 3)
        produce(partition)
        assert partition.high_watermark == 2
        fetch(partition, 3, epoch=1)
        assert partition.high_watermark == 3

    def test_what_followers_told_in_an_earlier_leadership_is_forgotten(self):
        partition = opened()
        produce(partition)
        fetch(partition, 1)
        give_role(partition, Role(OTHER, 1, 1, (ME, OTHER), (ME, OTHER)))
        partition.append_as_follower(make_batch(base_offset=1, leader_epoch=1), 1, 1, 0)
        give_role(partition, replace(BOTH, leader_epoch=2, partition_epoch=2))
        assert partition.high_watermark == 1
        fetch(partition, 2, epoch=2)
        assert partition.high_watermark == 2

    @pytest.mark.parametrize("epoch", [0, 1])
    def test_what_they_told_counts_in_the_same_epoch_only(self, epoch):
        partition = opened(Role(ME, 0, 0, (ME, OTHER, THIRD), (ME, OTHER, THIRD)))
        produce(partition)
        fetch(partition, 1)
        give_role(partition, Role(ME, epoch, 1, (ME, OTHER, THIRD), (ME, OTHER)))
        assert partition.high_watermark == (epoch == 0)
        fetch(partition, 1, epoch=epoch)
        assert partition.high_watermark == 1

    def test_a_role_that_was_overtaken_is_passed_over(self):
        partition = opened(replace(BOTH, partition_epoch=5))
        give_role(partition, replace(SHRUNK, partition_epoch=4))
        give_role(partition, Role(OTHER, 0, 4, (ME, OTHER), (ME, OTHER)))
        assert partition.role.partition_epoch == 5
        assert partition.leads

    @pytest.mark.parametrize(
        ("verb", "role"),
        [
            ("become_leader", Role(OTHER, 1, 1, (ME, OTHER), (OTHER,))),
            ("become_leader", Role(ME, 1, 1, (ME, OTHER), (ME, THIRD))),
            ("become_leader", Role(ME, -1, 1, (ME, OTHER), (ME,))),
            ("become_follower", Role(ME, 1, 1, (ME, OTHER), (ME,))),
        ],
    )
    def test_an_impossible_role_is_a_bug(self, verb, role):
        arguments = (role, 0.0) if verb == "become_leader" else (role,)
        partition = opened()
        before = partition.role
        with pytest.raises(InvariantViolated):
            getattr(partition, verb)(*arguments)
        assert partition.role is before

    def test_the_high_watermark_of_a_leader_never_decreases(self):
        partition = opened(SHRUNK)
        produce(partition, b"a", b"b")
        partition.set_high_watermark(2)
        with pytest.raises(InvariantViolated, match="high watermark 1 below 2 as leader"):
            partition.set_high_watermark(1)
        assert partition.high_watermark == 2

    def test_readers_are_woken_when_the_leader_changes(self):
        partition, heard = opened(), []

        class Watcher:
            def moved(self, moved):
                heard.append(moved.fence(0))

        partition.watch(Watcher())
        give_role(partition, SHRUNK)
        assert heard == []
        give_role(partition, Role(OTHER, 1, 2, (ME, OTHER), (OTHER,)))
        assert heard == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


class TestFollowing:
    FOLLOWER = Role(OTHER, 4, 0, (ME, OTHER), (ME, OTHER))

    def test_batches_and_the_high_watermark_are_the_leaders(self):
        partition = opened(self.FOLLOWER)
        batches = b"".join(make_batch(base_offset=offset, leader_epoch=4) for offset in range(3))
        assert partition.append_as_follower(batches + b"cut", 4, 2, 1) == len(batches)
        assert (partition.log_start_offset, partition.high_watermark) == (1, 2)
        assert partition.log_end_offset == 3

    def test_the_high_watermark_is_not_beyond_the_own_log(self):
        partition = opened(self.FOLLOWER)
        partition.append_as_follower(make_batch(leader_epoch=4), 4, 100, 0)
        assert partition.high_watermark == 1

    def test_it_may_sink_under_a_new_leader(self):
        partition = opened(self.FOLLOWER)
        partition.append_as_follower(make_batch(leader_epoch=4), 4, 1, 0)
        give_role(partition, replace(self.FOLLOWER, leader_epoch=5, partition_epoch=1))
        partition.append_as_follower(b"", 5, 0, 0)
        assert partition.high_watermark == 0

    def test_batches_of_a_later_epoch_wait_for_the_next_fetch(self):
        partition = opened(self.FOLLOWER)
        first = make_batch(leader_epoch=4)
        later = make_batch(base_offset=1, leader_epoch=5)
        assert partition.append_as_follower(first + later + first, 4, 0, 0) == len(first)
        assert partition.log_end_offset == 1

    @pytest.mark.parametrize("role", [BOTH, replace(FOLLOWER, leader_epoch=5)])
    def test_an_answer_to_an_earlier_role_is_dropped(self, role):
        partition = opened(role)
        arguments = make_batch(leader_epoch=0), 4, 0, 0
        refused = code_of(partition.append_as_follower, *arguments)
        assert refused is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log_end_offset == 0
