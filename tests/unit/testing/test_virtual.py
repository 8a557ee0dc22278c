"""`virtual_time`: asynchronous tests in which minutes pass at once."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from moldau.client.consumer import AsyncConsumer
from moldau.client.producer import AsyncProducer
from moldau.client.records import TopicPartition
from moldau.sim.loop import Deadlock, OutOfTime
from moldau.testing import virtual_time
from moldau.testing.virtual import run_virtually

BOTH = {TopicPartition("t", 0), TopicPartition("t", 1)}


async def owning(consumer: AsyncConsumer[bytes, bytes], wanted: set[TopicPartition]) -> None:
    while consumer.assignment() != wanted:
        await consumer.poll(timeout_ms=1_000)


@virtual_time(topics={"t": 2})
async def test_a_member_that_vanishes_is_replaced_after_its_session_of_minutes(world):
    settings = {"group_id": "g", "topics": ["t"], "session_timeout_ms": 240_000}
    one = AsyncConsumer(**world.client("one"), **settings)
    await one.start()
    await owning(one, BOTH)
    world.network.partition(["one"], ["broker"])
    began = world.now
    async with AsyncConsumer(**world.client("two"), **settings) as two:
        await owning(two, BOTH)
    assert 240 <= world.now - began < 300
    world.network.heal()
    await one.close()


@virtual_time(topics=["t"])
async def test_records_survive_a_kill_of_the_simulated_broker(world):
    async with AsyncProducer(**world.client("writer")) as producer:
        await producer.send("t", b"one")
        world.broker.kill()
        second = producer.send("t", b"two")
        await asyncio.sleep(30)
        await world.broker.start()
        await second
    settings = {"topics": ["t"], "auto_offset_reset": "earliest"}
    async with AsyncConsumer(**world.client("reader"), **settings) as consumer:
        found = []
        while len(found) < 2:
            found += [record.value for record in await consumer.poll(timeout_ms=1_000)]
    assert found == [b"one", b"two"]


@pytest.fixture
def given():
    return "given"


@virtual_time(settings={"num.partitions": 3})
async def test_fixtures_and_settings_reach_the_test(world, given):
    assert given == "given"
    async with AsyncProducer(**world.client()) as producer:
        await producer.send("made", b"v")
    async with AsyncConsumer(**world.client()) as consumer:
        assert len(await consumer.partitions_for("made")) == 3


def test_pytest_sees_the_fixtures_and_not_the_world():
    @virtual_time()
    async def test(world, given, *, other):
        """Say what it proves."""

    assert not inspect.iscoroutinefunction(test)
    assert list(inspect.signature(test).parameters) == ["given", "other"]
    assert test.__doc__ == "Say what it proves."


def test_the_same_seed_gives_the_same_run():
    async def main(world):
        async with AsyncProducer(**world.client()) as producer:
            for _ in range(20):
                await producer.send("t", b"v")
        return world.now

    times = [run_virtually(main, seed=seed, topics=["t"]) for seed in (1, 1, 2)]
    assert times[0] == times[1] != times[2]


def test_a_test_that_would_hang_fails_and_says_where():
    async def waits_for_nobody(_world):
        await asyncio.Event().wait()

    with pytest.raises((Deadlock, OutOfTime), match=r"task-1 waits at Event\.wait"):
        run_virtually(waits_for_nobody, limit_s=100)


def test_what_a_test_raises_is_raised():
    async def fails(_world):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_virtually(fails)
