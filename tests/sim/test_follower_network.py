"""Followers whose leader cannot be reached, is not known, or does not know of them yet.

At the end of each run the logs are equal, byte for byte.
"""

from __future__ import annotations

import asyncio
import logging

import pytest

from kits.replication_kit import lines_of, play

SEEDS = range(1, 6)


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


def test_a_follower_that_asks_a_moment_too_early_does_not_keep_a_record_waiting():
    async def work(scene):
        await scene.start()
        role = scene.lead(1, to=[2])
        await asyncio.sleep(0.05)
        scene[1].take_role(role)
        scene[1].append(b"1")
        await scene.until_equal(limit_s=0.5)

    play(work, replica_fetch_backoff_ms=10_000)


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
