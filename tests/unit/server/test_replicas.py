"""Partitions follow the metadata, some of them in each turn of the loop."""

from __future__ import annotations

import asyncio

from kits import log_kit
from kits.metadata_samples import with_brokers, with_topic
from kits.slicing import count_turns
from moldau.cluster.changes import TopicRemoved
from moldau.cluster.topics import NewTopic
from moldau.observe.traffic import Traffic
from moldau.replication.partitions import Partitions
from moldau.server.lifecycle.replicas import SLICE, Replicas

COUNT = 5 * SLICE


def test_a_large_topic_is_made_and_removed_in_turns():
    disk = log_kit.Broker()
    partitions = Partitions()
    changed = []
    replicas = Replicas(
        1,
        partitions,
        disk.manager,
        disk.clock,
        Traffic(),
        lambda own: disk.config,
        changed.append,
    )
    image = with_topic(with_brokers([1]), NewTopic("t", COUNT))
    topic_id = image.topics["t"].id

    async def work():
        assert await count_turns(replicas.begin(image)) >= COUNT // SLICE
        assert len(partitions.keys_of(topic_id)) == COUNT
        running = asyncio.ensure_future(replicas.run())
        removal = [TopicRemoved(topic_id)]
        without = image.apply(removal, image.version + 1)
        replicas.changed(removal, without)
        assert await count_turns(replicas.reached(without.version)) >= COUNT // SLICE
        running.cancel()

    asyncio.run(work())
    assert partitions.keys_of(topic_id) == ()
    assert not list(disk.manager)
    assert len(changed) == 2 * COUNT
