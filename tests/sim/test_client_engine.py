"""The client's engine in the simulation: the same code on virtual time, through many ends."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client.errors import ConnectionLost, RequestTimedOut
from moldau.engine.cluster import Cluster, CoordinatorKind
from moldau.engine.ports import ClientPorts
from moldau.engine.retry import raise_for, retried
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.process import SimBroker
from moldau.sim.world import World

SETTINGS = {"node.id": "1", "log.dirs": "/data"}
SEEDS = range(6)


class Bench:
    """One broker, and one client's engine on another machine."""

    def __init__(self, world, **settings):
        self.world = world
        self.network = SimNetwork(world)
        disk = SimDisk(world.random("disk"), trace=world.trace)
        self.broker = SimBroker(world, self.network, disk, SETTINGS)
        connection = ConnectionSettings(bootstrap_servers="nowhere:9092,broker:9092", **settings)
        self.network.host("nowhere")
        ports = ClientPorts(self.network.host("client"), world.clock, world.random("client"))
        self.cluster = Cluster(connection, ports)


def run(seed, scenario, **settings):
    async def main():
        bench = Bench(world, **settings)
        await bench.broker.start()
        await bench.cluster.start()
        await scenario(bench, bench.cluster)
        await bench.cluster.close()
        return world.loop.time()

    with World(seed) as world:
        return world.run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_broker_is_found_again_and_a_topic_survives_in_the_image(seed):
    async def scenario(bench, cluster):
        topic = await cluster.topic("t", cluster.deadline(30_000))
        assert topic.partitions[0].leader == 1
        await cluster.coordinator(CoordinatorKind.GROUP, "g", cluster.deadline(60_000))
        asking = cluster.call(1, MetadataRequest())
        bench.broker.kill()
        with pytest.raises(ConnectionLost):
            await asking
        await bench.broker.start()

        async def attempt():
            answer = await cluster.call(1, MetadataRequest())
            raise_for(answer.error_code)
            return answer

        await retried(cluster, attempt, cluster.deadline(30_000))
        await cluster.refresh()
        assert cluster.image.topics["t"].topic_id == topic.topic_id

    run(seed, scenario)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_silent_partition_is_a_time_out_after_exactly_the_time_that_was_set(seed):
    async def scenario(bench, cluster):
        connection = await cluster.connection(1)
        bench.network.partition(["client"], ["broker"])
        began = bench.world.clock.monotonic()
        with pytest.raises(RequestTimedOut):
            await connection.call(MetadataRequest([]))
        assert bench.world.clock.monotonic() - began == pytest.approx(7.0)
        bench.network.heal()
        retrying = retried(
            cluster, lambda: cluster.call(1, MetadataRequest([])), cluster.deadline(60_000)
        )
        await retrying

    run(seed, scenario, request_timeout_ms=7_000)


def test_a_run_is_the_same_each_time_it_is_repeated():
    async def scenario(bench, cluster):
        await cluster.topic("t", cluster.deadline(30_000))
        bench.broker.kill()
        await asyncio.sleep(1)
        await bench.broker.start()
        await retried(
            cluster, lambda: cluster.call(1, MetadataRequest([])), cluster.deadline(60_000)
        )

    assert run("same", scenario) == run("same", scenario)
