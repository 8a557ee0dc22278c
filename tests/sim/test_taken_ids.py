"""A broker whose id another machine had for a while: its disk lacks what that one acknowledged."""

from __future__ import annotations

import asyncio

import pytest

from kits.log_kit import make_batch
from moldau.cluster.model import NO_LEADER
from moldau.cluster.topics import NewTopic
from moldau.records.batch import parse_header
from moldau.sim.cluster.nodes import Nodes
from moldau.sim.network import SimNetwork
from moldau.sim.world import World

SETTINGS = {
    "broker.session.timeout.ms": "600",
    "broker.heartbeat.interval.ms": "120",
    "min.insync.replicas": "2",
}


class Cluster:
    """A voter, and two brokers that hold the replicas of one partition."""

    def __init__(self, world):
        self.nodes = Nodes(world, SimNetwork(world), 3, SETTINGS)
        self.voter, self.leader, self.follower = self.nodes.all

    async def start(self):
        for node in self.nodes.all:
            node.start()
        for node in self.nodes.all:
            await node.started()
        topic = NewTopic("t", assignments={0: (2, 3)})
        await self.voter.process.broker.parts.controller.create_topic(topic)
        await self.reached(lambda: self.replica(self.leader) is not None)

    @property
    def state(self):
        return self.nodes.image.topics["t"].partitions[0]

    def replica(self, node):
        return node.process.broker.parts.partitions.get("t", 0)

    async def commit(self, value):
        """Have a record acknowledged by both replicas; return the offset behind it."""
        batch = make_batch([value])
        partition = self.replica(self.leader)
        end = partition.append_as_leader(batch, parse_header(batch), -1).base_offset + 1
        await self.reached(lambda: partition.high_watermark == end)
        return end

    async def reached(self, condition):
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - the nodes do not tell
                await asyncio.sleep(0.01)

    async def stop(self):
        for node in reversed(self.nodes.all):
            await node.process.stop()


async def end_by_kill(process):
    process.kill()


async def end_in_order(process):
    await process.stop()


@pytest.mark.parametrize("end", [end_by_kill, end_in_order])
def test_the_first_machine_does_not_lead_without_the_records_of_the_second(end):
    async def work():
        cluster = Cluster(world)
        await cluster.start()
        await cluster.commit(b"on the first machine")
        await end(cluster.follower.process)
        twin = cluster.follower.make_twin()
        await twin.start()
        await cluster.reached(lambda: cluster.state.isr == (2, 3))
        end_offset = await cluster.commit(b"on the second machine alone")
        twin.kill()
        await cluster.reached(lambda: cluster.state.isr == (2,))
        cluster.leader.process.kill()
        await cluster.reached(lambda: cluster.state.isr == ())
        assert set(cluster.state.eligible_leaders) == {2, 3}
        cluster.follower.start()
        await cluster.follower.started()
        assert (cluster.state.leader, cluster.state.eligible_leaders) == (NO_LEADER, (2,))
        cluster.leader.start()
        await cluster.reached(lambda: set(cluster.state.isr) == {2, 3})
        assert cluster.replica(cluster.follower).log_end_offset == end_offset
        await cluster.stop()

    with World(1) as world:
        world.run(work())


@pytest.mark.parametrize("end", [end_by_kill, end_in_order])
def test_a_broker_whose_id_nobody_took_may_lead_at_once(end):
    async def work():
        cluster = Cluster(world)
        await cluster.start()
        end_offset = await cluster.commit(b"on both")
        await end(cluster.follower.process)
        await cluster.reached(lambda: cluster.state.isr == (2,))
        cluster.leader.process.kill()
        await cluster.reached(lambda: cluster.state.isr == ())
        cluster.follower.start()
        await cluster.reached(lambda: cluster.state.leader == 3)
        assert cluster.replica(cluster.follower).log_end_offset == end_offset
        cluster.leader.start()
        await cluster.leader.started()
        await cluster.stop()

    with World(1) as world:
        world.run(work())
