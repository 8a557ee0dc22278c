"""`metadata.max.idle.ms`: a topic that nothing is sent to is forgotten, and found again."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.errors import ConfigError
from moldau.client.producer import AsyncProducer, Producer
from moldau.testing.virtual import run_virtually

IDLE_MS = 20_000


def idle(world, **settings):
    return AsyncProducer(**world.client(), metadata_max_idle_ms=IDLE_MS, **settings)


def known(producer):
    return set(producer._core.cluster.image.topics)


def test_a_topic_without_records_is_no_longer_asked_for():
    async def story(world):
        async with idle(world) as producer:
            await producer.send("busy", b"1")
            await producer.send("quiet", b"1")
            for _ in range(5):
                await asyncio.sleep(IDLE_MS / 4000)
                await producer.send("busy", b"more")
            assert known(producer) == {"busy"}
            await producer._core.cluster.refresh()
            assert known(producer) == {"busy"}

    run_virtually(story, topics=["busy", "quiet"])


def test_numbers_go_on_when_a_forgotten_topic_is_used_again():
    async def story(world):
        async with idle(world) as producer:
            for number in range(3):
                assert (await producer.send("quiet", b"%d" % number)).offset == number
                await asyncio.sleep(3 * IDLE_MS / 1000)
                assert not known(producer)

    run_virtually(story, topics=["quiet"])


def test_a_topic_with_records_on_their_way_is_kept():
    async def story(world):
        async with idle(world, delivery_timeout_ms=600_000, request_timeout_ms=5_000) as producer:
            await producer.send("t", b"1")
            world.network.partition(["client"], ["broker"])
            late = producer.send("t", b"2")
            await asyncio.sleep(3 * IDLE_MS / 1000)
            assert known(producer) == {"t"}
            world.network.heal()
            assert (await late).offset == 1

    run_virtually(story, topics=["t"])


def test_the_setting_has_kafkas_name_and_least_value():
    Producer(**{"metadata.max.idle.ms": "5000"})
    with pytest.raises(ConfigError, match="metadata_max_idle_ms=4999 is below 5000"):
        Producer(metadata_max_idle_ms=4_999)
