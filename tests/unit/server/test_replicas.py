"""Partitions follow the metadata, some of them in each turn of the loop."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kits import log_kit
from kits.log_kit import make_batch
from kits.metadata_samples import after, with_brokers, with_topic
from kits.replica_kit import MAX_LAG_S, Cluster
from kits.slicing import count_turns
from moldau.base.ids import PartitionKey
from moldau.cluster.changes import (
    BrokerChanged,
    BrokerRegistered,
    PartitionChanged,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from moldau.cluster.topics import NewTopic
from moldau.observe.traffic import Traffic
from moldau.protocol.errors import ErrorCode
from moldau.records.batch import parse_header
from moldau.replication.partition import ACKS_ALL
from moldau.replication.partitions import Partitions
from moldau.replication.ports import ALONE, ReplicationPorts
from moldau.server.lifecycle.replicas import SLICE, Replicas
from moldau.sim.disk_faults import Operation

COUNT = 5 * SLICE


class Kit:
    """The partitions of broker 1, and who is told of them."""

    def __init__(self, replication=ALONE):
        self.disk = log_kit.Broker()
        self.partitions = Partitions()
        self.changed = []
        self.reported = []
        self.broker_epoch = with_brokers([1]).brokers[1].epoch
        self.replicas = Replicas(
            1,
            lambda: self.broker_epoch,
            self.partitions,
            self.disk.manager,
            self.disk.clock,
            Traffic(),
            lambda own: self.disk.config,
            self.changed.append,
            replication,
            report_directory=lambda *report: self.reported.append(report),
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


def test_logs_of_topics_that_cannot_be_read_are_kept_and_others_set_aside():
    kit = Kit()
    made = with_topic(with_topic(with_brokers([1]), NewTopic("t", 1)), NewTopic("gone", 1))

    async def work():
        await kit.replicas.begin(made)
        kept = kit.disk.manager.get(("t", 0))
        await kit.replicas.begin(with_brokers([1]), {"t"})
        assert [key for key, _ in kit.disk.manager] == [("t", 0)]
        assert kit.disk.manager.get(("t", 0)) is kept

    asyncio.run(work())


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


@pytest.mark.parametrize("is_own", [True, False])
def test_a_broker_leads_under_its_own_registration_alone(is_own):
    """Another broker that has taken its id is the leader, with a log of its own."""
    kit, told = Kit(), []
    image = with_topic(with_brokers([1, 2]), NewTopic("t", assignments={0: (1, 2)}))
    later = with_brokers([1], image=image)
    moves = [PartitionChanged(image.topics["t"].id, 0, leader=1, isr=(1, 2))]
    later = later.apply(moves, later.version + 1)

    async def work():
        await kit.replicas.begin(image)
        (partition,) = kit.partitions
        assert partition.leads
        batch = make_batch()
        partition.append_as_leader(batch, parse_header(batch), ACKS_ALL)
        partition.delay(1, told.append)
        if is_own:
            kit.broker_epoch = later.brokers[1].epoch
        running = asyncio.ensure_future(kit.replicas.run())
        kit.replicas.changed(moves, later)
        await kit.replicas.reached(later.version)
        running.cancel()
        assert partition.leads is is_own
        assert partition.role.leader_epoch == 2

    asyncio.run(work())
    assert told == ([] if is_own else [ErrorCode.NOT_LEADER_OR_FOLLOWER])


def unfenced(broker):
    return [BrokerChanged(broker.id, broker.epoch, fenced=False)]


def registered(broker):
    return [BrokerRegistered(broker)]


@pytest.mark.parametrize("changes_of", [unfenced, registered])
def test_a_quiet_follower_joins_when_its_broker_comes_into_service(changes_of):
    """With a quorum it is unfenced then. With ZooKeeper it was not registered before."""
    cluster = Cluster()
    cluster.broker_epochs, cluster.ineligible = {1: 1, 2: 2}, {2}
    kit = Kit(ReplicationPorts(cluster, cluster, MAX_LAG_S))
    image = with_topic(with_brokers([1, 2]), NewTopic("t", assignments={0: (1, 2)}))
    image = after(image, [PartitionChanged(image.topics["t"].id, 0, isr=(1,))])

    async def work():
        await kit.replicas.begin(image)
        (partition,) = kit.partitions
        epoch, now_s = partition.role.leader_epoch, kit.disk.clock.monotonic()
        partition.update_follower(2, 0, epoch, now_s, log_start_offset=0, broker_epoch=2)
        assert cluster.proposals == []
        cluster.ineligible.clear()
        running = asyncio.ensure_future(kit.replicas.run())
        changes = changes_of(image.brokers[2])
        later = image.apply(changes, image.version + 1)
        kit.replicas.changed(changes, later)
        await kit.replicas.reached(later.version)
        running.cancel()

    asyncio.run(work())
    assert [proposal.isr for _, proposal in cluster.proposals] == [(1, 2)]


# Where replicas lie

LEVEL = {"metadata.version": 30}


def held_by(*brokers, **parts):
    """An image of a topic on these brokers, and its partition changed."""
    image = with_brokers([1, 2], image=MetadataImage(features=LEVEL))
    image = with_topic(image, NewTopic("t", assignments={0: brokers}))
    change = PartitionChanged(image.topics["t"].id, 0, **parts)
    return image.apply([change], image.version + 1)


def reports(kit, image):
    asyncio.run(kit.replicas.begin(image))
    return [directory for _, _, directory in kit.reported]


@pytest.mark.parametrize(
    "recorded", [UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY, b"another one....."]
)
def test_a_replica_is_reported_where_the_metadata_says_otherwise(recorded):
    kit = Kit()
    (own,) = kit.disk.manager.directory_ids
    image = held_by(1, directories=(recorded,))
    assert reports(kit, image) == [own]
    assert kit.reported[0][:2] == (image.topics["t"].id, 0)


def test_a_replica_is_not_reported_where_nothing_is_to_say():
    kit = Kit()
    (own,) = kit.disk.manager.directory_ids
    assert reports(kit, held_by(1, directories=(own,))) == []
    older = replace(held_by(1, directories=()), features={"metadata.version": 16})
    assert reports(kit, older) == []


@pytest.mark.parametrize(
    ("brokers", "recorded", "told"),
    [
        ((1, 2), UNASSIGNED_DIRECTORY, [LOST_DIRECTORY]),
        # It is known already, or nobody else could lead.
        ((1, 2), b"another one.....", []),
        ((1,), UNASSIGNED_DIRECTORY, []),
    ],
)
def test_a_replica_that_cannot_be_opened_is_reported_as_lost(brokers, recorded, told):
    kit = Kit()
    (directory,) = kit.disk.manager.directories
    directory.unreadable[PartitionKey("t", 0)] = "damaged"
    rest = (UNASSIGNED_DIRECTORY,) * (len(brokers) - 1)
    assert reports(kit, held_by(*brokers, directories=(recorded, *rest))) == told
    assert not directory.offline


def test_a_disk_that_refuses_to_make_a_log_takes_its_directory_offline():
    """The heartbeats tell so; a replica reported as lost would not be found after a repair."""
    kit = Kit()
    (directory,) = kit.disk.manager.directories
    kit.disk.sim().faults.fail(Operation.CREATE, "/data/t-0")
    own = directory.identity.directory_id
    assert reports(kit, held_by(1, 2, directories=(own, UNASSIGNED_DIRECTORY))) == []
    assert directory.offline


@pytest.mark.parametrize(
    ("brokers", "on_record", "is_told"),
    [((1, 2), (1,), False), ((1, 2), (1, 2), True), ((1, 2), (2,), True), ((1,), (1,), True)],
)
@pytest.mark.parametrize("part", ["isr", "eligible_leaders"])
def test_an_empty_replica_is_not_offered_as_the_only_one_with_all_records(
    brokers, on_record, is_told, part
):
    places = (b"another one.....", UNASSIGNED_DIRECTORY)[: len(brokers)]
    parts = {"isr": (), "eligible_leaders": ()} | {part: on_record}
    image = held_by(*brokers, leader=-1, directories=places, **parts)
    assert bool(reports(Kit(), image)) is is_told


def test_a_replica_that_was_moved_with_its_records_is_offered():
    kit = Kit()
    image = held_by(1, 2, isr=(1,), leader=-1, directories=(b"another one.....",) * 2)
    log_kit.append_values(
        kit.disk.manager.open_or_create(
            PartitionKey("t", 0), image.topics["t"].id, kit.disk.config
        ),
        b"record",
    )
    assert len(reports(kit, image)) == 1
