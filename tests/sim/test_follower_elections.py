"""Followers of leaders that change: what the new leader never had is cut, whatever was missed.

At the end of each run the logs are equal, byte for byte.
"""

from __future__ import annotations

import asyncio

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.replication_kit import append_alone, append_numbers_alone, play
from moldau.protocol.errors import ApiError
from moldau.storage.topic_config import LogConfig

SEEDS = range(1, 6)
SMALL_SEGMENTS = LogConfig(segment_bytes=2_000)


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


@pytest.mark.patches
def test_a_long_truncation_is_prepared_in_steps_and_dropped_when_the_role_changes(monkeypatch):
    async def work(scene):
        await scene.start()
        append_numbers_alone(scene[2], 40, epoch=0)
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

    monkeypatch.setattr("moldau.replication.fetching.step.PIECES_PER_STEP", 1)
    monkeypatch.setattr("moldau.storage.producer_history.BATCHES_PER_STEP", 1)
    play(work)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("next_leader", [1, 2, 3])
def test_the_role_changes_while_the_files_of_a_truncation_are_cut(seed, next_leader):
    async def work(scene):
        await scene.start()
        append_numbers_alone(scene[2], 30, epoch=0)
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
