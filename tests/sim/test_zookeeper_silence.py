"""A leader whose process does not run: clients are told before its session expires."""

from __future__ import annotations

import asyncio

from kits.zookeeper_cluster import run_on_cluster
from moldau.cluster.topics import NewTopic


async def _led_topic(cluster, leader):
    """Create a topic that a broker leads and the others follow."""
    followers = [one.id for one in cluster.nodes.all if one is not leader]
    controller = cluster.broker(cluster.controller).parts.controller
    await controller.create_topic(NewTopic("t", assignments={0: (leader.id, *followers)}))

    def all_fetch():
        return all(
            cluster.broker(one).parts.fetchers.waiting_for(-60) == {leader.id}
            for one in cluster.nodes.all
            if one is not leader
        )

    await cluster.reached(all_fetch)


def _suspects(cluster, node, suspected):
    return cluster.broker(node).parts.elected.watches.is_suspected(suspected.id)


def test_followers_suspect_a_paused_leader_while_it_is_registered():
    async def script(cluster):
        leader, other = cluster.others
        await _led_topic(cluster, leader)
        leader.process.pause()
        await asyncio.sleep(1.2)
        assert cluster.registration(leader) is not None
        assert _suspects(cluster, other, leader)
        assert _suspects(cluster, cluster.controller, leader)
        epoch = cluster.epoch_of(leader)
        leader.process.resume()
        await cluster.reached(lambda: not _suspects(cluster, other, leader))
        assert cluster.epoch_of(leader) == epoch  # it was a hint, nothing was decided

    run_on_cluster(script)


def test_nobody_suspects_a_leader_that_has_nothing_new():
    async def script(cluster):
        leader, other = cluster.others
        await _led_topic(cluster, leader)
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert not _suspects(cluster, other, leader)

    run_on_cluster(script)
