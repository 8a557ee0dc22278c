"""Followers whose replication is throttled."""

from __future__ import annotations

import pytest

from kits.replication_kit import play
from moldau.storage.topic_config import LogConfig


def throttled(side, listed="*"):
    entries = frozenset(listed.split(","))
    return LogConfig(throttled_replicas={f"{side}.replication.throttled.replicas": entries})


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
