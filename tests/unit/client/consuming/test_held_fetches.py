"""A broker without news holds a fetch; what becomes ready meanwhile does not wait for that."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.client.records import TopicPartition
from moldau.testing.virtual import run_virtually

QUIET, FULL = TopicPartition("t", 0), TopicPartition("t", 1)
HELD_MS = 60_000
SOON_S = 1.0

OLD_VERSIONS = {1: 6, 2: 2, 3: 5, 18: 1, 23: 0}
"""Those of Kafka 1.1, which has no fetch sessions."""

VERSIONS = pytest.mark.parametrize("ceilings", [{}, OLD_VERSIONS], ids=["sessions", "none"])


async def write(world, partition, *values):
    async with AsyncProducer(**world.client("writer")) as producer:
        for value in values:
            await producer.send(partition.topic, value, partition=partition.partition)


def reading(world, ceilings, **settings):
    usual = {
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": HELD_MS,
        "request_timeout_ms": 2 * HELD_MS,
        "version_ceilings": ceilings,
    }
    return AsyncConsumer(**world.client("reader"), **{**usual, **settings})


async def held(consumer):
    """Wait until the broker holds a fetch that found nothing."""
    assert await consumer.poll(timeout_ms=1_000) == []


async def soon(world, consumer, count):
    """Return that many values, which must not take long."""
    began, values = world.now, []
    while len(values) < count:
        records = await consumer.poll(timeout_ms=SOON_S * 1000)
        assert records, f"only {values} came"
        values += [record.value for record in records]
    assert world.now - began < SOON_S
    return values


@VERSIONS
def test_a_partition_assigned_later_is_fetched_at_once(ceilings):
    async def story(world):
        await write(world, FULL, b"1", b"2")
        async with reading(world, ceilings) as consumer:
            consumer.assign([QUIET])
            await held(consumer)
            consumer.assign([QUIET, FULL])
            assert await soon(world, consumer, 2) == [b"1", b"2"]

    run_virtually(story, topics={"t": 2})


@VERSIONS
def test_records_that_come_later_to_either_are_brought_at_once(ceilings):
    async def story(world):
        async with reading(world, ceilings) as consumer:
            consumer.assign([QUIET])
            await held(consumer)
            consumer.assign([QUIET, FULL])
            await held(consumer)
            for partition in (FULL, QUIET, FULL, FULL, QUIET):
                await write(world, partition, b"x")
                assert await soon(world, consumer, 1) == [b"x"]

    run_virtually(story, topics={"t": 2})


@VERSIONS
def test_a_seek_and_a_resumption_take_effect_at_once(ceilings):
    async def story(world):
        await write(world, FULL, b"1", b"2")
        async with reading(world, ceilings) as consumer:
            consumer.assign([QUIET, FULL])
            assert await soon(world, consumer, 2) == [b"1", b"2"]
            await held(consumer)
            consumer.seek(FULL, 1)
            assert await soon(world, consumer, 1) == [b"2"]
            consumer.pause(FULL)
            await write(world, FULL, b"3")
            await held(consumer)
            consumer.resume(FULL)
            assert await soon(world, consumer, 1) == [b"3"]

    run_virtually(story, topics={"t": 2})


@pytest.mark.parametrize("seed", range(8))
def test_a_partition_that_was_fetched_beside_alone_goes_on_being_fetched(seed):
    """The usual request may have nothing to ask for while the other one is under way."""

    async def story(world):
        async with reading(world, {}, fetch_max_wait_ms=500) as consumer:
            for number in range(10):
                consumer.assign([(QUIET, FULL)[number % 2]])
                await asyncio.sleep(0.3 + number / 20)
            await held(consumer)
            for _ in range(3):
                await write(world, FULL, b"x")
                assert await soon(world, consumer, 1) == [b"x"]
                await asyncio.sleep(2)

    run_virtually(story, topics={"t": 2}, seed=seed)


def test_nothing_comes_twice_and_all_are_fetched_together_again():
    async def story(world):
        async with reading(world, {}, fetch_max_wait_ms=500) as consumer:
            consumer.assign([QUIET])
            await held(consumer)
            consumer.assign([QUIET, FULL])
            seen = []
            for number in range(200):
                await write(world, (QUIET, FULL)[number % 2], b"%d" % number)
                consumer.seek(FULL, await consumer.position(FULL))
                seen += [int(one.value) for one in await consumer.poll(timeout_ms=1_000)]
            assert sorted(seen) == list(range(200))
            await asyncio.sleep(2)
            (source,) = consumer._core._fetcher._sources.values()
            assert source.beside is None
            assert set(source.session.wanted) == {QUIET, FULL}

    run_virtually(story, topics={"t": 2})


def test_a_broker_that_goes_away_meanwhile_is_found_again():
    async def story(world):
        await write(world, FULL, b"1")
        async with reading(world, {}) as consumer:
            consumer.assign([QUIET])
            await held(consumer)
            consumer.assign([QUIET, FULL])
            world.broker.kill()
            await asyncio.sleep(1)
            await world.broker.start()
            assert [one.value for one in await consumer.poll(timeout_ms=30_000)] == [b"1"]

    run_virtually(story, topics={"t": 2})
