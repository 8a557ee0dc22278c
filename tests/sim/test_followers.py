"""Followers copy their leaders' logs over a simulated network, through changes and faults.

At the end of each run the logs are equal, byte for byte.
"""

from __future__ import annotations

import asyncio
import gc

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.replication_kit import play
from moldau.engine import connection
from moldau.protocol.messages.data import FetchResponse
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


def test_an_answer_is_let_go_before_the_next_one_comes():
    """With two leaders, megabytes of records that are in the log already would be held twice."""

    async def work(scene):
        await scene.start()
        scene.lead(1)
        scene[1].append(size=900)
        await scene.until_equal()
        await asyncio.sleep(0.1)
        gc.collect()
        held = [one for one in gc.get_objects() if type(one) is FetchResponse and one.responses]
        assert held == []

    play(work)


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
        assert steps.count(0) >= 3
        assert scene[2].partition(index=99).log_end_offset == 0

    play(work)


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


@pytest.mark.parametrize("seed", SEEDS)
def test_a_follower_that_keeps_up_decodes_nothing(seed, monkeypatch):
    """One partition moves: requests follow answers without a task, and without the codec."""

    async def work(scene):
        await scene.start(partitions=3)
        for index in range(3):
            scene.lead(1, index=index)
        scene[1].append(b"first", index=1)
        await scene.until_equal(index=1)
        decoded = []
        decode = connection.decode_response
        monkeypatch.setattr(
            connection, "decode_response", lambda *args: decoded.append(args) or decode(*args)
        )
        for number in range(20):
            scene[1].append(b"%d" % number, index=1)
            await scene.until_equal(index=1)
        assert len(decoded) <= 1  # of a fetch that was on its way
        named = [
            (one.partition, one.fetch_offset)
            for request in scene[1].requests[-20:]
            for topic in request.topics
            for one in topic.partitions
        ]
        assert named == [(1, offset) for offset in range(2, 22)]

    play(work, seed)


def test_a_partition_that_is_added_is_asked_for_though_another_one_moves_all_the_time():
    async def work(scene):
        await scene.start(partitions=2)
        scene.lead(1)
        await scene.until_equal()
        for number in range(40):
            scene[1].append(b"%d" % number)
            if number == 20:
                scene.lead(1, index=1)
                scene[1].append(b"late", index=1)
            await asyncio.sleep(0.01)
        await scene.until_equal()
        await scene.until_equal(index=1)
        assert scene[2].partition(index=1).log_end_offset == 1

    play(work)
