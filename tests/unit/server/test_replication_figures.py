"""What the metrics page tells of replication, counted when it is asked for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from kits import log_kit
from kits.log_kit import make_batch
from kits.metadata_samples import after, with_brokers, with_topic
from kits.partition_kit import ME, OTHER, make_partition
from moldau.base.ids import PartitionKey
from moldau.cluster.changes import BrokerChanged, PartitionChanged
from moldau.cluster.topics import NewTopic
from moldau.observe.replication import controller_families, replication_families
from moldau.records.batch import parse_header
from moldau.replication.partition import ACKS_ALL, Role
from moldau.replication.partitions import Partitions
from moldau.replication.ports import IsrCounts
from moldau.server.fetch.reading import ParkedFetches
from moldau.server.lifecycle.replication_figures import (
    controller_figures,
    count_cluster,
    replication_figures,
)
from moldau.storage.topic_config import LogConfig

THIRD = 3
ALL = (ME, OTHER, THIRD)
MANAGER = "kafka_server_replicamanager"


def make_parts(*roles, min_insync_replicas=2):
    """A broker that has a partition of the topic in each of these roles."""
    image = with_topic(with_brokers(ALL), NewTopic("t", len(roles), 1))
    disk = log_kit.Broker(config=LogConfig(min_insync_replicas=min_insync_replicas))
    partitions = Partitions()
    for index, role in enumerate(roles):
        key, topic_id = PartitionKey("t", index), image.topics["t"].id
        log = disk.manager.open_or_create(key, topic_id, disk.config)
        partitions.add(make_partition(key, topic_id, log, role))
    parked = ParkedFetches()
    parked.count = 4
    parts = SimpleNamespace(
        partitions=partitions,
        parked_fetches=parked,
        replication=SimpleNamespace(counts=IsrCounts(3, 2, 1)),
        fetchers=SimpleNamespace(max_lag=17, failed_partitions_count=1, bytes_in=99),
        controller=SimpleNamespace(is_active=False),
        image=lambda: parts.now,
        now=image,
    )
    return parts


def led(*isr, replicas=ALL):
    return Role(ME, 0, 0, replicas, isr)


def samples(families):
    return {
        (one.name, *one.labels.values()): one.value for family in families for one in family.samples
    }


def test_partitions_are_counted_by_how_many_are_in_sync():
    parts = make_parts(
        led(*ALL), led(ME, OTHER), led(ME), led(ME, replicas=(ME,)), Role(OTHER, 0, 0, ALL, ALL)
    )
    told = samples(replication_families(replication_figures(parts)))
    assert told[f"{MANAGER}_leadercount",] == 4
    assert told[f"{MANAGER}_underreplicatedpartitions",] == 2
    assert told[f"{MANAGER}_underminisrpartitioncount",] == 1
    assert told[f"{MANAGER}_atminisrpartitioncount",] == 2
    assert told[f"{MANAGER}_offlinereplicacount",] == 0
    assert told[f"{MANAGER}_isrshrinks_total",] == 3
    assert told[f"{MANAGER}_isrexpands_total",] == 2
    assert told["kafka_server_replicafetchermanager_maxlag", "Replica"] == 17


def test_a_replica_that_is_being_added_is_not_missed():
    parts = make_parts(led(ME, OTHER))
    adding = PartitionChanged(parts.now.topics["t"].id, 0, adding_replicas=(THIRD,))
    assert replication_figures(parts).under_replicated == 1
    parts.now = after(parts.now, [adding])
    assert replication_figures(parts).under_replicated == 0


def test_what_waits_is_counted():
    async def work():
        parts = make_parts(led(*ALL), led(*ALL))
        partition, batch = parts.partitions.get("t", 0), make_batch()
        partition.append_as_leader(batch, parse_header(batch), ACKS_ALL)
        waits = [partition.delay(1, lambda _: None, 60) for _ in range(2)]
        waits.append(partition.delay_deletion(1, lambda _: None, 60))
        name = "kafka_server_delayedoperationpurgatory_purgatorysize"
        told = samples(replication_families(replication_figures(parts)))
        kinds = ("Produce", "Fetch", "DeleteRecords")
        assert [told[name, kind] for kind in kinds] == [2, 4, 1]
        for wait in waits:
            wait.cancel()
        assert replication_figures(parts).waiting == {"Produce": 0, "Fetch": 4, "DeleteRecords": 0}

    asyncio.run(work())


def test_a_log_directory_that_failed_is_counted():
    parts = make_parts(led(*ALL), led(*ALL))
    parts.partitions.get("t", 0).log.let_go()
    assert replication_figures(parts).offline_replicas == 1


def test_the_controller_tells_of_brokers_and_of_partitions_without_a_leader():
    image = with_topic(with_brokers(ALL), NewTopic("t", assignments={0: [1, 2], 1: [2, 1]}))
    topic_id, epoch = image.topics["t"].id, image.brokers[THIRD].epoch
    image = after(
        image, [PartitionChanged(topic_id, 1, leader=-1), BrokerChanged(THIRD, epoch, fenced=True)]
    )
    told = samples(controller_families(count_cluster(image)))
    assert {
        name.removeprefix("kafka_controller_kafkacontroller_"): value
        for (name,), value in told.items()
    } == {
        "activecontrollercount": 1,
        "activebrokercount": 2,
        "fencedbrokercount": 1,
        "globaltopiccount": 1,
        "globalpartitioncount": 2,
        "offlinepartitionscount": 1,
        "preferredreplicaimbalancecount": 1,
    }


def test_other_nodes_say_only_that_they_are_not_the_controller():
    parts = make_parts(led(*ALL))
    told = samples(controller_families(controller_figures(parts)))
    assert told == {("kafka_controller_kafkacontroller_activecontrollercount",): 0}
    parts.controller.is_active = True
    assert controller_figures(parts).partitions == 1
