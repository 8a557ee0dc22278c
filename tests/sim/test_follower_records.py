"""Followers of logs whose records are gone, cut or spoilt.

At the end of each run the logs are equal, byte for byte.
"""

from __future__ import annotations

import asyncio

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.replication_kit import append_alone, append_numbers_alone, play
from moldau.base.ids import TopicId
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ConnectionLost
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.data import FetchPartition, FetchRequest, FetchTopic
from moldau.records.batch import parse_header
from moldau.sim.disk_faults import Operation

SEEDS = range(1, 6)


def test_the_start_of_the_log_follows_the_leaders():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        for number in range(4):
            scene[1].append(b"%d" % number)
        await scene.until(lambda: scene[2].partition().high_watermark == 4)
        scene[1].partition().delete_records(3)
        await scene.until(lambda: scene[2].partition().log_start_offset == 3)
        await scene.until(lambda: scene[1].partition().low_watermark == 3)

    play(work)


def test_a_follower_that_was_away_for_too_long_begins_at_the_leaders_start():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene[1].append(b"1")
        await scene.until_equal()
        role = scene.lead(1, to=[1], isr=[1])
        for number in range(5):
            scene[1].append(b"%d" % number)
        scene[1].partition().delete_records(4)
        scene[2].take_role(role)
        await scene.until(lambda: scene[2].partition().log_end_offset == 6)
        assert scene[2].partition().log_start_offset == 4
        assert scene[2].content() == scene[1].content()

    play(work)


def test_an_empty_follower_takes_a_first_batch_that_begins_before_it():
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"0", b"1", b"2", b"3")
        scene[1].partition().delete_records(2)
        scene[2].take_role(scene.roles["t", 0])
        await scene.until(lambda: scene[2].partition().log_end_offset == 4)
        assert scene[2].content() == scene[1].content()
        await scene.until(lambda: scene[2].partition().log_start_offset == 2)

    play(work)


def test_a_leader_that_ends_before_its_follower_after_an_unclean_election_is_followed():
    async def work(scene):
        await scene.start()
        append_numbers_alone(scene[2], 5, epoch=0)
        scene.lead(1, to=[1])
        scene.lead(1)
        scene[1].append(b"new")
        await scene.until_equal()
        assert scene[2].partition().log_end_offset == 1

    play(work)


def test_a_follower_whose_epoch_no_leader_knows_is_cut_to_the_leaders_end():
    async def work(scene):
        await scene.start()
        append_numbers_alone(scene[2], 5, epoch=9)
        append_alone(scene[1], b"1", epoch=0)
        scene.lead(1)
        await scene.until(lambda: scene[2].partition().log_end_offset <= 1)

    play(work)


def test_a_corrupt_batch_is_not_taken_and_is_fetched_again():
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"1")
        scene[1].append(b"2" * 100)
        scene[1].flip_bit_in_last_batch()
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(3)
        assert scene[2].partition().log_end_offset < 2
        assert 2 < len(scene[1].requests) < 10
        scene[1].flip_bit_in_last_batch()
        await scene.until_equal()

    play(work)


def test_a_corrupt_batch_leaves_other_partitions_alone():
    async def work(scene):
        await scene.start(topics=("t", "u"))
        for topic in ("t", "u"):
            scene.lead(1, topic=topic)
        scene[1].append(b"2" * 100)
        scene[1].flip_bit_in_last_batch()
        for number in range(5):
            scene[1].append(b"%d" % number, topic="u")
            await scene.until_equal(topic="u")
        assert scene[2].partition().log_end_offset == 0

    play(work)


def test_a_disk_that_fails_is_reported_and_its_partition_is_left_alone():
    async def work(scene):
        await scene.start(topics=("t", "u"))
        scene[2].disk.faults.fail(Operation.APPEND, "/data/t-0")
        for topic in ("t", "u"):
            scene.lead(1, topic=topic)
            scene[1].append(b"1", topic=topic)
        await scene.until_equal(topic="u")
        await scene.until(lambda: scene[2].storage_errors)
        assert len(scene[2].storage_errors) == 1
        assert scene[2].fetchers.failed_partitions_count == 1

    play(work)


def test_batches_of_a_newer_epoch_than_the_fetch_are_left_for_later():
    """KAFKA-18723: the leader's answer was read from its log after another leader wrote there."""

    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene[1].append(b"1")
        await scene.until_equal()
        later = make_batch([b"later"], base_offset=1, leader_epoch=3)
        replica = scene[2].partition()
        assert replica.append_as_follower(later, 0, 2, 0) == 0
        assert replica.log_end_offset == 1
        assert parse_header(later).leader_epoch == 3

    play(work)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_that_waits_for_its_reader_is_not_mixed_with_what_replaces_it(seed):
    async def work(scene):
        await scene.start()
        scene.lead(1, isr=[1])
        scene[2].fetchers.forget(scene[2].partition().key)
        for _ in range(10):
            scene[1].append(size=30_000)
        connection = await ClientConnection.open(
            scene.network.host("client"), scene.addresses.address(1), ConnectionSettings()
        )
        scene.network.clog("broker-1", "client")
        wanted = FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)
        topic = FetchTopic("t", scene[1].partition().topic_id, [wanted])
        answer = asyncio.ensure_future(connection.call(FetchRequest(min_bytes=1, topics=[topic])))
        await scene.until(lambda: len(scene[1].requests) == 1)
        scene.lead(2)
        for _ in range(12):
            scene[2].append(b"other" * 6_000)
        await scene.until_equal()
        scene.network.unclog("broker-1", "client")
        with pytest.raises(ConnectionLost):
            await answer
        connection.close()

    play(work, seed)


def diverge(scene, partition_count):
    """Give broker 2 records that broker 1 lacks, and have 1 elected twice without telling 2."""
    for index in range(partition_count):
        append_numbers_alone(scene[2], 5, epoch=0, index=index)
        scene.lead(1, to=[1], index=index)
        scene.lead(1, to=[1], index=index)
        scene[1].append(b"new", index=index)


@pytest.mark.parametrize("fetcher_count", [2, 3])
def test_a_truncation_is_dropped_if_the_partition_moves_to_another_fetcher_before_it(fetcher_count):
    """The other fetcher truncates and appends meanwhile; the first one must not cut that off."""

    async def work(scene):
        await scene.start(partitions=8)
        diverge(scene, 8)
        follower = scene[2]
        logs = [follower.partition(index=index).log for index in range(8)]
        for log in logs:
            follower.broker.flush(log)
        follower.executor.run_mean_s = 5.0
        for index in range(8):
            follower.take_role(scene.roles["t", index], index=index)
        await scene.until(lambda: any(log.recovery_point < 5 for log in logs))
        assert not any(log.is_truncating for log in logs)
        follower.executor.run_mean_s = 0.001
        follower.fetchers.resize(fetcher_count)
        for index in range(8):
            await scene.until_equal(index=index)
        await asyncio.sleep(60)
        for index in range(8):
            await scene.until_equal(index=index)

    play(work)


def test_a_truncation_leaves_a_new_topic_alone_that_got_the_name_of_a_deleted_one():
    async def work(scene):
        await scene.start(partitions=2)
        diverge(scene, 2)
        follower = scene[2]
        old = follower.partition()
        follower.broker.flush(old.log)
        follower.executor.run_mean_s = 5.0
        for index in range(2):
            follower.take_role(scene.roles["t", index], index=index)
        await scene.until(lambda: old.log.recovery_point < 5)
        follower.partitions.remove(old.key)
        follower.fetchers.forget(old.key)
        follower.broker.manager.delete(old.key)
        again = follower.open(old.key, TopicId(bytes([9] * 16)))
        for number in range(5):
            append_alone(follower, b"again %d" % number, epoch=0)
        await scene.until_equal(index=1)
        await asyncio.sleep(60)
        values = [record.value for record in log_kit.read_all(again.log)]
        assert values == [b"again %d" % number for number in range(5)]
        assert follower.storage_errors == []

    play(work)
