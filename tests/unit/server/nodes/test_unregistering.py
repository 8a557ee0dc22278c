"""A broker that is taken out of the cluster while it lives comes back, to everything it had."""

from __future__ import annotations

import asyncio

from kits.node_kit import Nodes
from moldau.cluster.topics import NewTopic

PARTITIONS = 4


def test_a_live_broker_that_is_unregistered_joins_every_isr_again(world):
    """Also those of quiet partitions, of which its fetches say nothing any more."""

    async def scenario():
        nodes = Nodes(world)
        # It has registered again before the leader hears of its next fetch.
        broker = nodes.node(2, **{"broker.heartbeat.interval.ms": "20"})
        voter, leader = nodes.node(1), nodes.node(3)
        for node in (voter, broker, leader):
            await node.start()
        assignments = {index: [3, 2] for index in range(PARTITIONS)}
        await voter.parts.controller.create_topic(NewTopic("t", assignments=assignments))
        await asyncio.sleep(3)
        old_epoch = broker.parts.broker_epoch()
        await voter.parts.controller.unregister_broker(2)
        assert all(one.isr == (3,) for one in partitions(voter))
        await asyncio.sleep(10)
        assert broker.parts.broker_epoch() > old_epoch
        assert [set(one.isr) for one in partitions(voter)] == [{2, 3}] * PARTITIONS
        for node in (leader, broker, voter):
            await node.stop()

    world.run(scenario())


def partitions(node):
    return node.parts.image().topics["t"].partitions
