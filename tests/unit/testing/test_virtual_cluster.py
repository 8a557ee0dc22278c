"""`virtual_time(brokers=3)`: a cluster that is killed and cut off while hours pass at once."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.errors import ConfigError, UserError
from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import InvalidState, UnknownTopicOrPartition
from moldau.client.producer import AsyncProducer
from moldau.testing import TestCluster, VirtualCluster, virtual_time
from moldau.testing.virtual import run_virtually

SESSION_S = 9
"""Kafka's `broker.session.timeout.ms`, which holds here."""


async def states(world, topic="t"):
    """Leader and ISR of every partition."""
    async with AsyncAdmin(**world.client("observer")) as admin:
        found = await admin.describe_topic(topic)
        return [(one.leader, sorted(one.isr)) for one in found.partitions]


async def in_sync(world, *broker_ids):
    """Wait until these brokers are the ISR of every partition."""
    while any(isr != [*broker_ids] for _, isr in await states(world)):  # noqa: ASYNC110 - untold
        await asyncio.sleep(0.5)


async def write(world, *values, host="writer"):
    async with AsyncProducer(**world.client(host), acks="all") as producer:
        for value in values:
            await producer.send("t", value)


async def values(world):
    return sorted(record.value for record in await world.records("t"))


@virtual_time(brokers=3, topics={"t": 3}, settings={"min.insync.replicas": 2}, limit_s=7200)
async def test_a_broker_that_was_away_for_ten_minutes_catches_up(world):
    await write(world, b"before")
    world.cluster.kill(2)
    assert world.cluster.running == (1, 3)
    await write(world, b"meanwhile")
    await asyncio.sleep(600)
    assert all(isr == [1, 3] for _, isr in await states(world))
    await world.cluster.restart(2)
    await in_sync(world, 1, 2, 3)
    assert await values(world) == [b"before", b"meanwhile"]
    assert world.cluster.running == (1, 2, 3)


@virtual_time(brokers=3, topics={"t": 3})
async def test_topics_are_replicated_by_default(world):
    found = await states(world)
    assert sorted(leader for leader, _ in found) == [1, 2, 3]
    assert all(isr == [1, 2, 3] for _, isr in found)


@virtual_time(brokers=3, topics={"t": 3})
async def test_a_broker_that_is_cut_off_leaves_when_its_session_ends(world):
    await in_sync(world, 1, 2, 3)
    world.cluster.partition([3], [1, 2])
    began = world.now
    world.network.partition(["observer"], ["broker-3"])  # it does not know that it is fenced
    await in_sync(world, 1, 2)
    assert SESSION_S - 2 <= world.now - began < 2 * SESSION_S
    world.cluster.heal()
    await in_sync(world, 1, 2, 3)


@virtual_time(brokers=3, topics={"t": 1})
async def test_a_partition_between_two_followers_stops_nobody(world):
    [(leader, _)] = await states(world)
    one, other = sorted({1, 2, 3} - {leader})
    world.cluster.partition([one], [other])
    await write(world, b"value")
    await asyncio.sleep(60)
    assert await values(world) == [b"value"]


@virtual_time(brokers=3, topics={"t": 3})
async def test_a_broker_that_stops_hands_its_leaders_over(world):
    await world.cluster.stop_broker(3)
    assert all(leader in {1, 2} for leader, _ in await states(world))
    await world.cluster.start_broker(3)
    await in_sync(world, 1, 2, 3)


@virtual_time(brokers=3, topics={"t": 3}, settings={"min.insync.replicas": 2})
async def test_what_was_acknowledged_survives_a_machine_that_loses_its_power(world):
    await write(world, b"one", b"two")
    world.cluster.power_cut(2)
    await write(world, b"three")
    await world.cluster.start_broker(2)
    await in_sync(world, 1, 2, 3)
    assert await values(world) == [b"one", b"three", b"two"]


@virtual_time(brokers=3, topics={"t": 2})
async def test_a_group_goes_on_when_its_coordinator_dies(world):
    settings = {"group_id": "g", "topics": ["t"], "auto_offset_reset": "earliest"}
    async with AsyncConsumer(**world.client("reader"), **settings) as consumer:
        await write(world, b"one")
        while not await consumer.poll(timeout_ms=1_000):
            pass
        await consumer.commit()
        async with AsyncAdmin(**world.client("observer")) as admin:
            [offsets] = (await admin.describe_topic("__consumer_offsets")).partitions
        world.cluster.kill(offsets.leader)
        await write(world, b"two")
        found = []
        while not found:
            found = [record.value for record in await consumer.poll(timeout_ms=1_000)]
        assert found == [b"two"]
        await consumer.commit()


@virtual_time(
    brokers=2,
    topics={"t": 1},
    settings={"log.retention.ms": 60_000, "log.roll.ms": 10_000},
)
async def test_retention_passes_at_once(world):
    await write(world, b"old")
    await asyncio.sleep(30)
    await write(world, b"new")
    assert await values(world) == [b"new", b"old"]
    await asyncio.sleep(600)
    assert await values(world) == []


def test_the_same_seed_gives_the_same_run():
    async def main(world):
        await write(world, *[b"value"] * 10)
        world.cluster.kill(2)
        await write(world, *[b"value"] * 10)
        await world.cluster.start_broker(2)
        await in_sync(world, 1, 2, 3)
        return world.now, [record.timestamp_ms for record in await world.records("t")]

    runs = [run_virtually(main, seed=seed, brokers=3, topics={"t": 3}) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


@virtual_time(brokers=2, settings={"initial.broker.registration.timeout.ms": 20_000})
async def test_a_broker_that_cannot_start_says_why_and_can_be_started_later(world):
    world.cluster.kill(2)
    await world.cluster.stop_broker(1)
    with pytest.raises(UserError, match="controller"):
        await world.cluster.start_broker(2)
    assert world.cluster.running == ()
    await world.cluster.start_broker(1)
    await world.cluster.start_broker(2)
    assert world.cluster.running == (1, 2)


@virtual_time(brokers=2)
async def test_what_cannot_be_done_is_refused_with_one_line(world):
    with pytest.raises(InvalidState, match="broker 2 is already running"):
        await world.cluster.start_broker(2)
    world.cluster.kill(2)
    with pytest.raises(InvalidState, match="broker 2 does not run"):
        world.cluster.kill(2)
    with pytest.raises(ConfigError, match="no broker 3: the brokers of this cluster are 1 to 2"):
        world.cluster.kill(3)
    with pytest.raises(ConfigError, match="no broker '2'"):
        world.cluster.partition([1], "2")
    with pytest.raises(InvalidState, match=r"several brokers"):
        _ = world.broker
    with pytest.raises(UnknownTopicOrPartition):
        await world.records("unknown")


@virtual_time()
async def test_one_broker_is_no_cluster(world):
    with pytest.raises(InvalidState, match="there is one broker"):
        _ = world.cluster


@pytest.mark.parametrize("brokers", [0, 10])
def test_a_test_has_a_few_brokers(brokers):
    async def main(_world):
        """Never run."""

    with pytest.raises(ConfigError, match=f"brokers={brokers}"):
        run_virtually(main, brokers=brokers)


def test_it_has_the_verbs_of_a_cluster_on_real_time():
    """Files and topics are elsewhere: on simulated disks, and with the world."""
    verbs = {name for name in vars(TestCluster) if not name.startswith("_")}
    elsewhere = {"stop", "close", "folder", "create_topic", "records"}
    assert verbs - elsewhere <= set(vars(VirtualCluster))
