"""Followers copy their leaders' logs over a simulated network, through changes and faults.

At the end of each run the logs are equal, byte for byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.replication_kit import play
from kits.slicing import finished
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ConnectionLost
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ApiError
from moldau.protocol.messages.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from moldau.records.batch import parse_header
from moldau.sim.disk_faults import Operation
from moldau.storage.topic_config import LogConfig

SEEDS = range(1, 6)
SMALL_SEGMENTS = LogConfig(segment_bytes=2_000)


def append_alone(node, *values, epoch):
    """Let a node have a batch that no other node has."""
    log = node.partition().log
    log_kit.append(log, make_batch(values, base_offset=log.log_end_offset), epoch)


@pytest.mark.parametrize("seed", SEEDS)
def test_followers_copy_and_the_high_watermark_follows(seed):
    async def work(scene):
        await scene.start()
        scene.lead(1)
        for number in range(50):
            scene[1].append(b"%d" % number, b"x" * (number * 7))
            await asyncio.sleep(0.002)
        await scene.until_equal()
        for node in scene.nodes.values():
            await scene.until(lambda node=node: node.partition().high_watermark == 100)

    play(work, seed, count=3, config=SMALL_SEGMENTS)


def test_a_follower_that_was_away_catches_up_in_many_answers():
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1])
        for _ in range(60):
            scene[1].append(size=900)
        scene.lead(1)
        await scene.until_equal()
        assert len(scene[1].requests) > 10
        assert scene[2].fetchers.bytes_in == 60 * 900
        assert scene[2].fetchers.max_lag == 0

    play(work, config=SMALL_SEGMENTS, replica_fetch_response_max_bytes=4_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_many_partitions_share_one_session_and_quiet_ones_are_not_named(seed):
    async def work(scene):
        await scene.start(topics=("t", "u"), partitions=30)
        for topic in ("t", "u"):
            for index in range(30):
                scene.lead(1, topic=topic, index=index)
        await asyncio.sleep(2)
        del scene[1].requests[:]
        scene[1].append(b"1", topic="u", index=7)
        await scene.until_equal(topic="u", index=7)
        await asyncio.sleep(2)
        named = [
            (one.fetch_offset, len(topic.partitions))
            for request in scene[1].requests
            for topic in request.topics
            for one in topic.partitions
        ]
        assert named == [(1, 1)]
        assert len({request.session_id for request in scene[1].requests}) == 1
        assert scene[2].fetchers.fetcher_count == 1

    play(work, seed)


def test_a_large_answer_is_appended_in_steps_and_roles_may_change_in_between(monkeypatch):
    async def work(scene):
        await scene.start(partitions=100)
        for index in range(100):
            scene.lead(1, index=index, to=[1])
            for _ in range(5):
                scene[1].append(size=200, index=index)
        sleep, steps = asyncio.sleep, []

        async def pause(seconds):
            if seconds == 0 and 0 not in steps:
                last = scene[2].partition(index=99)
                assert last.log_end_offset == 0
                scene[2].fetchers.forget(last.key)
            steps.append(seconds)
            await sleep(seconds)

        monkeypatch.setattr("moldau.replication.fetching.fetcher.asyncio.sleep", pause)
        for index in range(100):
            scene[2].take_role(scene.roles["t", index], "t", index)
        for index in range(99):
            await scene.until_equal(index=index)
        assert steps.count(0) > 3
        assert scene[2].partition(index=99).log_end_offset == 0

    play(work)


# Leaders that change


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_leader_makes_others_cut_what_it_never_had(seed):
    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene[1].append(b"1")
        scene[1].append(b"2")
        await scene.until_equal()
        scene.lead(2, to=[2, 3])  # 1 does not hear of it and writes on
        scene[1].append(b"lost")
        scene[1].append(b"lost too")
        scene[2].append(b"3")
        await scene.until_equal(2, 3)
        scene[1].take_role(scene.roles["t", 0])
        await scene.until_equal()
        assert scene[1].partition().log_end_offset == 3
        scene.lead(1)
        scene[1].append(b"4")
        await scene.until_equal()

    play(work, seed, count=3)


@pytest.mark.parametrize("seed", SEEDS)
def test_logs_that_parted_over_several_epochs_find_together(seed):
    """Each has records of epochs that the other never saw: several answers are needed (KIP-279)."""

    async def work(scene):
        await scene.start()
        leader, follower = (scene[one].partition().log for one in (1, 2))
        for log in (leader, follower):
            log_kit.append(log, make_batch([b"both"]), 0)
        for epoch in (1, 3, 5, 8):
            append_alone(scene[1], b"leader", epoch=epoch)
        for epoch in (2, 4, 6, 7):
            append_alone(scene[2], b"follower", b"follower", epoch=epoch)
        for _ in range(10):
            role = scene.lead(1, to=[1])
        scene[2].take_role(role)
        await scene.until_equal()
        assert follower.log_end_offset == 5

    play(work, seed)


def test_a_missed_epoch_of_the_same_leader_is_checked_all_the_same():
    """KAFKA-7164: the leader was another broker's follower in between, and was truncated."""

    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene[1].append(b"1")
        await scene.until_equal()
        scene[3].fetchers.forget(scene[3].partition().key)
        scene[1].append(b"lost")
        await scene.until_equal(1, 2)
        scene.lead(3, to=[1, 3])
        scene[3].append(b"2")
        await scene.until_equal(1, 3)
        scene.lead(1)  # 2 never hears of the epoch in between, and its log is as long as this one
        await scene.until_equal()

    play(work, count=3)


def test_a_follower_goes_back_and_forth_between_leaders():
    async def work(scene):
        await scene.start(topics=("t", "u"))
        for number in range(12):
            for topic in ("t", "u"):
                leader = 1 + number % 3
                scene.lead(leader, topic=topic)
                scene[leader].append(b"%d" % number, topic=topic)
            await asyncio.sleep(0.3 * (number % 4))
            if not number % 4:
                await scene.until_equal(topic="u")
        await scene.until_equal()
        await scene.until_equal(topic="u")

    play(work, count=3, num_replica_fetchers=2)


# The network


@pytest.mark.parametrize("seed", SEEDS)
def test_lost_answers_and_broken_connections_repeat_nothing(seed):
    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene.network.reset_chance = 0.05
        for number in range(40):
            scene[1].append(b"%d" % number, b"y" * 500)
            await asyncio.sleep(0.05)
        scene.network.reset_chance = 0.0
        await scene.until_equal(limit_s=200)

    play(work, seed, count=3, replica_fetch_backoff_ms=50)


def test_a_leader_that_is_cut_off_is_fetched_from_when_it_is_back():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene[1].append(b"1")
        await scene.until_equal()
        scene.network.partition(["broker-1"], ["broker-2"])
        scene[1].append(b"2")
        await asyncio.sleep(60)
        assert scene[2].partition().log_end_offset == 1
        scene.network.heal()
        await scene.until_equal()

    play(work)


def test_a_leader_whose_address_is_not_known_yet_is_waited_for():
    async def work(scene):
        await scene.start()
        scene.addresses.unknown.add(1)
        scene.lead(1)
        scene[1].append(b"1")
        await asyncio.sleep(5)
        assert scene[1].requests == []
        scene.addresses.unknown.clear()
        await scene.until_equal()

    play(work)


def test_a_follower_that_asks_before_its_leader_knows_of_the_epoch_rests_and_asks_again():
    async def work(scene):
        await scene.start()
        role = scene.lead(1, to=[2])
        await asyncio.sleep(0.5)
        scene[1].take_role(role)
        scene[1].append(b"1")
        await scene.until_equal()
        assert scene[2].fetchers.failed_partitions_count == 0

    play(work)


def test_a_fenced_epoch_is_asked_for_again_when_the_metadata_changes():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        await asyncio.sleep(1)
        role = scene.lead(1, to=[1])
        scene[1].append(b"1")
        await scene.until(lambda: scene[2].fetchers.failed_partitions_count == 1)
        count = len(scene[1].requests)
        await asyncio.sleep(5)
        assert len(scene[1].requests) == count
        scene[2].take_role(role)
        assert scene[2].fetchers.failed_partitions_count == 0
        await scene.until_equal()

    with lines_of("moldau.replication", logging.WARNING) as heard:
        play(work)
    # A change of a thousand leaders would be a thousand lines.
    assert heard == []


def test_a_role_that_the_fetchers_were_not_told_of_makes_no_busy_loop():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        await asyncio.sleep(1)
        role = scene.lead(1, to=[1])
        scene[2].partition().become_follower(role)
        scene[1].append(b"1")
        del scene[1].requests[:]
        await asyncio.sleep(5)
        assert len(scene[1].requests) < 15
        assert scene[2].partition().log_end_offset == 0
        scene[2].fetchers.follow(scene[2].partition())
        await scene.until_equal()

    play(work)


# Records that are gone, cut or spoilt


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
        for number in range(5):
            append_alone(scene[2], b"%d" % number, epoch=0)
        scene.lead(1, to=[1])
        scene.lead(1)
        scene[1].append(b"new")
        await scene.until_equal()
        assert scene[2].partition().log_end_offset == 1

    play(work)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("next_leader", [1, 2, 3])
def test_the_role_changes_while_the_files_of_a_truncation_are_cut(seed, next_leader):
    async def work(scene):
        await scene.start()
        for number in range(30):
            append_alone(scene[2], b"%d" % number, epoch=0)
        log = scene[2].partition().log
        scene[2].executor.run_mean_s = 0.5
        scene.lead(1, to=[1])
        scene.lead(1)
        scene[1].append(b"new")
        await scene.until(lambda: log.is_truncating)
        assert log.log_end_offset == 0
        scene.lead(next_leader)
        if next_leader == 2:
            with pytest.raises(ApiError, match="is being truncated"):
                scene[2].append(b"too early")
        await scene.until(lambda: not log.is_truncating)
        scene[next_leader].append(b"after")
        await scene.until_equal()
        assert b"after" in scene[2].content()

    play(work, seed, count=3, config=SMALL_SEGMENTS)


def test_a_follower_whose_epoch_no_leader_knows_is_cut_to_the_leaders_end():
    async def work(scene):
        await scene.start()
        for number in range(5):
            append_alone(scene[2], b"%d" % number, epoch=9)
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
        segment = scene[1].partition().log.active
        position = segment.size - 20
        scene[1].disk.flip_bit(segment.path, position)
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(3)
        assert scene[2].partition().log_end_offset < 2
        assert 2 < len(scene[1].requests) < 10
        scene[1].disk.flip_bit(segment.path, position)
        await scene.until_equal()

    play(work)


@pytest.mark.parametrize("position", [*range(16), 16, 21, 23, 27, 40, 57])
def test_a_header_that_rots_at_the_leader_makes_no_busy_loop(position):
    """Offset, length and epoch lie outside of the checksum."""

    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        first = scene[1].append(b"1" * 100)
        for number in range(4):
            scene[1].append(b"%d" % number * 100)
        log = scene[1].partition().log
        batch = log.read(first.last_offset + 1, 1, log.log_end_offset).regions[0]
        scene[1].disk.flip_bit(log.active.path, batch.position + position)
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(10)
        assert len(scene[1].requests) < 40

    play(work)


def test_a_corrupt_batch_is_told_once():
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"2" * 100)
        segment = scene[1].partition().log.active
        scene[1].disk.flip_bit(segment.path, segment.size - 20)
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(10)
        (line,) = [one for one in heard if "corrupt batch" in one]
        assert line.startswith("t-0: a corrupt batch at offset 0 from leader 1, fetched again")

    with lines_of("moldau.replication", logging.WARNING) as heard:
        play(work)


@contextlib.contextmanager
def lines_of(name, level):
    """Hear what is logged under a name."""
    heard = []
    handler = logging.Handler(level)
    handler.emit = lambda record: heard.append(record.getMessage())
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield heard
    finally:
        logger.removeHandler(handler)


GARBLED = {
    "noise": lambda number: struct.pack(">ii", 104, number) + b"\xa5" * 100,
    "another request's": lambda number: struct.pack(">ii", 104, number + 7) + bytes(100),
    "no size": lambda number: struct.pack(">ii", -5, number),
    "too large": lambda number: struct.pack(">ii", 2**31 - 1, number) + bytes(1000),
    "without an end": lambda number: struct.pack(">ii", 1 << 30, number) + bytes(1000),
    "with more behind it": lambda number: struct.pack(">ii", 4, number) * 100,
}


@pytest.mark.parametrize("what", GARBLED)
def test_a_leader_that_answers_garbage_is_given_up_for_a_while_each_time(what):
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"1")
        scene[1].garbled = GARBLED[what]
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(100)
        assert 2 < len(scene[1].requests) < 150
        scene[1].garbled = None
        await scene.until_equal()
        return [line for line in heard if "cannot fetch from broker 1" in line]

    with lines_of("moldau.replication", logging.WARNING) as heard:
        assert len(play(work)) == 1


def of_the_answer(told, error):
    told.error_code = error


def of_a_partition(told, error):
    told.responses[0].partitions[0].error_code = error


@pytest.mark.parametrize("garble", [of_the_answer, of_a_partition])
@pytest.mark.parametrize("error", [9999, -7, 56])
def test_an_error_that_nobody_knows_or_that_lasts_is_told_once(garble, error):
    async def work(scene):
        await scene.start()
        scene.lead(1, to=[1], isr=[1])
        scene[1].append(b"1")
        fetch, is_wrong = scene[1].fetch, True

        def garbled(request, context):
            told = finished(fetch(request, context))
            if is_wrong and isinstance(told, FetchResponse) and told.responses:
                garble(told, error)
            return told

        scene[1].fetch = garbled
        scene[2].take_role(scene.roles["t", 0])
        await asyncio.sleep(10)
        assert 5 < len(scene[1].requests) < 20
        assert len(scene.lines.errors) <= 1
        is_wrong = False
        await scene.until_equal()

    play(work)


def test_a_corrupt_batch_leaves_other_partitions_alone():
    async def work(scene):
        await scene.start(topics=("t", "u"))
        for topic in ("t", "u"):
            scene.lead(1, topic=topic)
        scene[1].append(b"2" * 100)
        segment = scene[1].partition().log.active
        scene[1].disk.flip_bit(segment.path, segment.size - 20)
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


def test_a_large_batch_comes_whole_whatever_the_limits():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene[1].append(size=300_000)
        scene[1].append(size=200)
        await scene.until_equal()

    play(work, replica_fetch_max_bytes=1_000)


def test_a_session_that_the_leader_has_dropped_is_begun_again():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        await asyncio.sleep(1)
        sessions = scene[1].fetch._sessions
        for session_id in tuple(sessions._sessions):
            sessions._drop(session_id)
        scene[1].append(b"1")
        await scene.until_equal()

    play(work)


def test_a_broker_that_registers_anew_names_quiet_partitions_again():
    async def work(scene):
        await scene.start(partitions=3)
        for index in range(3):
            scene.lead(1, index=index)
            scene[1].append(b"1", index=index)
            await scene.until_equal(index=index)
        await asyncio.sleep(2)
        scene[2].broker_epoch = 500
        scene[1].requests.clear()
        await asyncio.sleep(2)
        named = [one for one in scene[1].requests if one.topics]
        assert {one.replica_state.replica_epoch for one in named} == {500}
        assert sorted(part.partition for one in named[0].topics for part in one.partitions) == [
            0, 1, 2,
        ]  # fmt: skip
        scene[1].requests.clear()
        await asyncio.sleep(2)
        assert not any(one.topics for one in scene[1].requests)

    play(work)


def test_a_partition_that_is_forgotten_gets_nothing_more():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        await asyncio.sleep(1)
        scene[2].fetchers.forget(scene[2].partition().key)
        scene[1].append(b"1")
        await asyncio.sleep(2)
        assert scene[2].partition().log_end_offset == 0
        assert scene[2].fetchers.fetcher_count == 0

    play(work)


def test_a_broker_that_stops_follows_nobody_although_its_roles_still_change():
    async def work(scene):
        await scene.start()
        scene.lead(1)
        await scene[2].fetchers.close()
        scene.lead(1)
        scene[1].append(b"1")
        await asyncio.sleep(2)
        assert scene[2].partition().log_end_offset == 0
        assert scene[2].fetchers.fetcher_count == 0

    play(work)


@pytest.mark.parametrize("moved_per_turn", [2, 200])
def test_another_number_of_fetchers_takes_over_all_partitions(monkeypatch, moved_per_turn):
    monkeypatch.setattr("moldau.replication.fetching.fetchers.MOVED_PER_TURN", moved_per_turn)

    async def work(scene):
        await scene.start(partitions=8)
        for index in range(8):
            scene.lead(1, index=index)
        scene[2].fetchers.resize(3)
        for _ in range(8 // moved_per_turn):
            await asyncio.sleep(0)
        assert scene[2].fetchers.fetcher_count == 3
        for index in range(8):
            scene[1].append(b"1", index=index)
            await scene.until_equal(index=index)

    play(work)


def test_a_long_truncation_is_prepared_in_steps_and_dropped_when_the_role_changes(monkeypatch):
    async def work(scene):
        await scene.start()
        for number in range(40):
            append_alone(scene[2], b"%d" % number, epoch=0)
        sleep, pauses = asyncio.sleep, []

        async def pause(seconds):
            if seconds == 0:
                pauses.append(scene[2].partition().log_end_offset)
                if len(pauses) == 1:
                    scene.lead(2)
            await sleep(seconds)

        monkeypatch.setattr("moldau.replication.fetching.fetcher.asyncio.sleep", pause)
        append_alone(scene[1], b"0", epoch=0)
        scene.lead(1, to=[1])
        role = scene.lead(1, to=[1])
        append_alone(scene[1], b"other", epoch=1)
        scene[2].take_role(role)
        await scene.until(lambda: pauses)
        await scene.until_equal()
        assert scene[2].partition().log_end_offset == 40  # it leads, and was not cut

    monkeypatch.setattr("moldau.replication.fetching.fetcher.PIECES_PER_STEP", 1)
    monkeypatch.setattr("moldau.storage.producer_history.BATCHES_PER_STEP", 1)
    play(work)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_logs_are_equal_once_it_is_over(seed):
    """Leaders of any kind, brokers that hear of them late or never, and a network that breaks.

    Elections are unclean as often as not: what is committed may be lost, but logs never differ.
    """

    async def work(scene):
        chance = scene.world.random("actions")
        await scene.start()
        scene.lead(1)
        for number in range(60):
            action = chance.randrange(8)
            leader = scene.roles["t", 0].leader
            if action == 0:
                new = 1 + chance.randrange(3)
                hear = {new} | {one for one in (1, 2, 3) if chance.random() < 0.6}
                scene.lead(new, to=hear)
            elif action == 1:
                one, other = chance.sample([1, 2, 3], 2)
                scene.network.clog(f"broker-{one}", f"broker-{other}")
            elif action == 2:
                scene.network.heal()
            elif action == 3:
                one, other = chance.sample([1, 2, 3], 2)
                scene.network.reset(f"broker-{one}", f"broker-{other}")
            elif action == 4:
                await asyncio.sleep(chance.random() * 3)
            else:
                # Also one that was deposed and does not know it.
                leads = [node for node in scene.nodes.values() if node.partition().leads]
                node = chance.choice(leads) if leads else scene[leader]
                node.append(b"%d" % number, b"z" * chance.randrange(900))
            await asyncio.sleep(chance.random() * 0.05)
        scene.network.heal()
        scene.lead(1 + chance.randrange(3))
        await scene.until_equal(limit_s=300)

    play(work, seed, count=3, config=SMALL_SEGMENTS)


def throttled(side, listed="*"):
    return LogConfig(throttled_replicas={f"{side}.replication.throttled.replicas": listed})


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_that_is_behind_copies_at_the_rate(side):
    async def work(scene):
        await scene.start()
        setattr(scene[1 if side == "leader" else 2], f"{side}_rate", 10_000)
        scene.lead(1, to=[1], isr=[1])
        for _ in range(200):
            scene[1].append(size=1_000)
        began_s = scene.world.clock.monotonic()
        scene.lead(1, isr=[1])
        await scene.until_equal(limit_s=100)
        assert 15 < scene.world.clock.monotonic() - began_s < 40

    play(work, config=throttled(side), replica_fetch_response_max_bytes=10_000)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_in_sync_is_not_held_back(side):
    async def work(scene):
        await scene.start()
        scene[1].leader_rate = scene[2].follower_rate = 10
        scene.lead(1)
        for _ in range(50):
            scene[1].append(size=1_000)
            await scene.until_equal(limit_s=2)

    play(work, config=throttled(side))


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_that_the_topic_does_not_list_are_not_throttled(side):
    async def work(scene):
        await scene.start()
        scene[1].leader_rate = scene[2].follower_rate = 10
        scene.lead(1, to=[1], isr=[1])
        for _ in range(100):
            scene[1].append(size=1_000)
        scene.lead(1, isr=[1])
        await scene.until_equal(limit_s=5)

    play(work, config=throttled(side, "0:7,1:1"), replica_fetch_response_max_bytes=10_000)
