"""Partitions follow the metadata, some of them in each turn of the loop."""

from __future__ import annotations

import asyncio

from kits import log_kit
from kits.log_kit import make_batch
from kits.metadata_samples import with_brokers, with_topic
from kits.slicing import count_turns
from moldau.cluster.changes import PartitionChanged, TopicRemoved
from moldau.cluster.topics import NewTopic
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.partition import ACKS_ALL
from moldau.replication.partitions import Partitions
from moldau.server.lifecycle.replicas import SLICE, Replicas

COUNT = 5 * SLICE


class Kit:
    """The partitions of broker 1, and who is told of them."""

    def __init__(self):
        self.disk = log_kit.Broker()
        self.partitions = Partitions()
        self.changed = []
        self.replicas = Replicas(
            1,
            self.partitions,
            self.disk.manager,
            self.disk.clock,
            Traffic(),
            lambda own: self.disk.config,
            self.changed.append,
        )


def test_a_large_topic_is_made_and_removed_in_turns():
    kit = Kit()
    replicas, partitions = kit.replicas, kit.partitions
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
    assert not list(kit.disk.manager)
    assert len(kit.changed) == 2 * COUNT


def test_a_partition_that_moves_to_other_brokers_is_served_here_no_more():
    kit = Kit()
    image = with_topic(with_brokers([1]), NewTopic("t", 2))
    moved = PartitionChanged(image.topics["t"].id, 0, leader=2, replicas=(2,), isr=(2,))

    async def work():
        await kit.replicas.begin(image)
        running = asyncio.ensure_future(kit.replicas.run())
        later = image.apply([moved], image.version + 1)
        kit.replicas.changed([moved], later)
        await kit.replicas.reached(later.version)
        running.cancel()

    asyncio.run(work())
    assert [one.key for one in kit.partitions] == [("t", 1)]
    assert [key for key, _ in kit.disk.manager] == [("t", 1)]
    assert kit.changed[2:] == [("t", 0)]


def test_what_waits_at_a_failed_directory_fails_at_once():
    kit, told = Kit(), []
    image = with_topic(with_brokers([1]), NewTopic("t", 2))
    image = image.apply(
        [
            PartitionChanged(image.topics["t"].id, one.index, replicas=(1, 2), isr=(1, 2))
            for one in image.topics["t"].partitions
        ],
        image.version + 1,
    )

    async def work():
        await kit.replicas.begin(image)
        batch = make_batch()
        for partition in kit.partitions:
            partition.append_as_leader(batch, parse_header(batch), ACKS_ALL)
            partition.delay(1, told.append)
        next(iter(kit.partitions)).log.let_go()
        kit.replicas.directory_failed()
        await asyncio.sleep(0)

    asyncio.run(work())
    assert told == [ErrorCode.KAFKA_STORAGE_ERROR]
