"""What of a tree is taken over into the quorum, what stops the move, and what is compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import after, directory_id, registration, topic_id
from kits.zookeeper_tree import tree_of
from moldau.cluster.brokers import register_broker, unfence_broker
from moldau.cluster.changes import (
    BrokerRegistered,
    ConfigChanged,
    FeatureLevelSet,
    PartitionChanged,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.configs import EVERY_BROKER, MIN_INSYNC_REPLICAS
from moldau.cluster.formatting import FIRST_FEATURES
from moldau.cluster.image import MetadataImage
from moldau.cluster.migration import (
    TreeNodes,
    brokers_with_replicas,
    differences,
    first_of,
    obstacles,
    taken_over,
)
from moldau.cluster.model import (
    MIGRATING_DIRECTORY,
    NO_LEADER,
    Broker,
    ConfigResource,
    Partition,
    ResourceType,
)
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode

A, B = topic_id(1), topic_id(2)
EPOCHS = {1: 5_000, 2: 5_010, 3: 5_020}
END = 6_000
TOPIC_CONFIG = ConfigResource(ResourceType.TOPIC, "a")


def tree(*changes, features=FIRST_FEATURES):
    """A cluster whose brokers have left one after the other; the last one is still on record."""
    image = MetadataImage(cluster_id="a-cluster")
    return after(
        image,
        [
            *features,
            TopicCreated("a", A),
            PartitionCreated(A, Partition(0, (1, 2, 3), (3,), 3, 7, 12, eligible_leaders=(1, 2))),
            PartitionCreated(A, Partition(1, (2, 3), (3, 2), 2, 4, 4)),
            TopicCreated("b", B),
            PartitionCreated(B, Partition(0, (1,), (1,), 1, 0, 0)),
            ConfigChanged(TOPIC_CONFIG, "retention.ms", "1000"),
            ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, "2"),
            ProducerIdsAllocated(-1, -1, 3000),
            *changes,
        ],
    )


def left(broker_id, directories=1):
    """A broker whose last life is over."""
    more = (bytes([number]) * 16 for number in range(1, directories))
    epoch = EPOCHS[broker_id]
    return Broker(
        broker_id, epoch, epoch.to_bytes(16), log_directories=(directory_id(broker_id), *more)
    )


def taken(image, *brokers, minimum=1):
    return taken_over(image, brokers or [left(1), left(2), left(3)], END, minimum)


def nodes_of(read, untranslated=(), **more):
    settings = {"broker_epochs": EPOCHS, "controller_epoch": 9, "newest_transaction": 5_999}
    return TreeNodes(read, dict(untranslated), **{**settings, **more})


def problems_of(stored, untranslated=()):
    return list(obstacles(nodes_of(stored.nodes, untranslated), stored.read()))


# What is taken over


def test_topics_configs_features_and_producer_ids_are_taken_over():
    before = tree()
    found = taken(before)
    assert (found.cluster_id, found.version) == ("a-cluster", END)
    assert found.configs == before.configs
    assert found.features == before.features
    assert found.next_producer_id == 3000
    assert [topic.id for topic in found.topics.values()] == [A, B]
    assert list(differences(before, found, found)) == []


def test_nobody_leads_until_brokers_come_and_whoever_is_complete_may():
    first, second = taken(tree()).topics["a"].partitions
    assert (first.leader, first.isr, set(first.eligible_leaders)) == (NO_LEADER, (), {1, 2, 3})
    assert (first.leader_epoch, first.partition_epoch) == (8, 13)
    assert (second.leader, set(second.eligible_leaders)) == (NO_LEADER, {2, 3})


def test_a_replica_that_was_not_complete_may_not_lead():
    change = PartitionChanged(A, 0, eligible_leaders=(2,))
    partition = taken(tree(change)).topics["a"].partitions[0]
    assert set(partition.eligible_leaders) == {2, 3}


def test_without_eligible_leaders_the_last_one_in_sync_stays_on_record():
    before = tree(FeatureLevelSet("eligible.leader.replicas.version", 0))
    cleared = PartitionChanged(A, 0, eligible_leaders=())
    partition = taken(after(before, [cleared])).topics["a"].partitions[0]
    assert (partition.leader, partition.isr) == (NO_LEADER, (3,))


def test_a_move_of_replicas_under_way_goes_on():
    change = PartitionChanged(
        A, 1, replicas=(2, 3, 1), adding_replicas=(1,), removing_replicas=(2,)
    )
    before = tree(change)
    found = taken(before)
    partition = found.topics["a"].partitions[1]
    assert (partition.adding_replicas, partition.removing_replicas) == ((1,), (2,))
    assert list(differences(before, found, found)) == []


def test_a_tree_of_kafka_gets_the_features_that_kafka_has_in_settings():
    before = tree(ConfigChanged(EVERY_BROKER, MIN_INSYNC_REPLICAS, None), features=())
    found = taken(before, minimum=2)
    assert found.features == {one.name: one.level for one in FIRST_FEATURES}
    assert found.config(EVERY_BROKER) == {MIN_INSYNC_REPLICAS: "2"}
    assert list(differences(before, found, found)) == []


def test_the_directory_of_a_replica_is_stated_where_its_broker_has_only_one():
    found = taken(tree(), left(1), left(2, directories=2))
    partition = found.topics["a"].partitions[0]
    assert partition.directory_of(1) == left(1).log_directories[0]
    assert partition.directory_of(2) == partition.directory_of(3) == MIGRATING_DIRECTORY


def test_all_brokers_that_have_replicas_are_named():
    assert brokers_with_replicas(tree()) == {1, 2, 3}
    assert brokers_with_replicas(MetadataImage()) == frozenset()


# Brokers


def registered(image, broker_id, previous_epoch):
    changes = register_broker(image, registration(broker_id, previous_epoch=previous_epoch))
    return after(image, [one for one in changes if one is not None])


def test_a_broker_that_has_stopped_in_order_stays_eligible_and_leads():
    image = registered(taken(tree()), 1, EPOCHS[1])
    assert 1 in image.topics["a"].partitions[0].eligible_leaders
    changes = unfence_broker(image, image.brokers[1])
    image = after(image, [one for one in changes if one is not None])
    assert image.topics["a"].partitions[0].leader == 1


def test_a_broker_that_may_have_lost_records_is_eligible_no_more():
    image = registered(taken(tree()), 1, -1)
    assert 1 not in image.topics["a"].partitions[0].eligible_leaders


def test_each_registration_in_the_quorum_has_a_larger_epoch_than_any_on_zookeeper():
    image = registered(taken(tree()), 3, EPOCHS[3])
    assert image.brokers[3].epoch == END > max(EPOCHS.values())


def test_the_log_begins_behind_the_newest_transaction_and_in_a_later_epoch():
    assert nodes_of({}).snapshot == (6_000, 9)
    assert nodes_of({}, newest_transaction=0).snapshot == (5_021, 9)
    empty = nodes_of({}, newest_transaction=0, broker_epochs={}, controller_epoch=0)
    assert empty.snapshot == (1, 0)


# What stops the move


def test_a_tree_that_is_whole_is_no_obstacle():
    stored = tree_of(tree())
    empty = StoredNode(b'{"version":1,"config":{}}')
    left_behind = {"/config/users/alice": empty, "/kafka-acl/Topic": StoredNode(b"")}
    assert problems_of(stored, left_behind) == []
    assert stored.read().image.topics == tree().topics


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/brokers/topics/a/partitions/0/state", b"{"),
        ("/brokers/topics/a", b'{"version":3,"partitions":{"0":[1]}}'),
        ("/config/topics/a", b"no json"),
        ("/config/topics/<default>", b'{"version":1,"config":{"retention.ms":"1"}}'),
        ("/cluster/id", b"{}"),
        ("/feature", b"[]"),
        ("/latest_producer_id_block", b"{}"),
        ("/admin/delete_topics/a", b""),
        (
            "/admin/preferred_replica_election",
            b'{"version":1,"partitions":[{"topic":"a","partition":0}]}',
        ),
        (
            "/admin/reassign_partitions",
            b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}',
        ),
        (
            "/brokers/topics/new",
            b'{"version":3,"partitions":{"0":[1]},"topic_id":"%b"}' % (b"B" * 22),
        ),
    ],
)
def test_what_cannot_be_read_or_is_not_done_stops_the_move_by_name(path, data):
    stored = tree_of(tree())
    stored.put(path, data)
    named = [line for line in problems_of(stored) if path.removesuffix("/state") in line]
    assert named, problems_of(stored)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"salt"}}'),
        ("/config/clients/c", b'{"version":1,"config":{"producer_byte_rate":"1"}}'),
        ("/kafka-acl/Topic/a", b'{"version":1,"acls":[{"principal":"User:a"}]}'),
        ("/delegation_token/tokens/t", b"not even json"),
    ],
)
def test_what_the_quorum_has_no_place_for_stops_the_move_without_its_content(path, data):
    (line,) = problems_of(tree_of(tree()), {path: StoredNode(data)})
    assert line.startswith(f"{path}: ")
    assert "salt" not in line


def test_a_folder_that_is_no_tree_of_a_cluster_is_told():
    stored = tree_of(replace(tree(), cluster_id=""))
    assert first_of(problems_of(stored)).startswith(paths.CLUSTER_ID)


# What is compared


def spoiled(found, **parts):
    """The same metadata with another state of one partition."""
    partition = replace(found.topics["a"].partitions[0], **parts)
    topic = found.topics["a"]
    topics = {**found.topics, "a": replace(topic, partitions=(partition, *topic.partitions[1:]))}
    return replace(found, topics=topics)


SPOILS = {
    "another cluster": lambda found: replace(found, cluster_id="other"),
    "another offset": lambda found: replace(found, version=END - 1),
    "a topic is lost": lambda found: after(found, [TopicRemoved(B)]),
    "a topic too many": lambda found: after(found, [TopicCreated("c", topic_id(3))]),
    "replicas": lambda found: spoiled(found, replicas=(1, 2)),
    "a leader epoch goes back": lambda found: spoiled(found, leader_epoch=6),
    "a partition epoch goes back": lambda found: spoiled(found, partition_epoch=11),
    "nobody may lead": lambda found: spoiled(found, eligible_leaders=()),
    "an incomplete replica may lead": lambda found: spoiled(found, eligible_leaders=(4,)),
    "a config": lambda found: after(found, [ConfigChanged(TOPIC_CONFIG, "retention.ms", "2")]),
    "a config is lost": lambda found: replace(found, configs={}),
    "producer ids": lambda found: replace(found, next_producer_id=2000),
    "a feature": lambda found: after(found, [FeatureLevelSet("transaction.version", 1)]),
    "a broker": lambda found: after(found, [BrokerRegistered(replace(left(1), epoch=9_999))]),
}  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_what_was_read_back_differently_is_noticed(spoil):
    before = tree()
    written = taken(before)
    assert list(differences(before, written, spoil(written)))


@pytest.mark.parametrize(
    "name",
    [
        "a topic is lost", "a topic too many", "replicas", "a leader epoch goes back",
        "a partition epoch goes back", "nobody may lead", "an incomplete replica may lead",
        "a config", "a config is lost", "producer ids", "a feature",
    ],
)  # fmt: skip
def test_what_was_made_wrongly_is_noticed_by_the_tree_although_it_was_read_back_the_same(name):
    before = tree()
    wrong = SPOILS[name](taken(before))
    assert list(differences(before, wrong, wrong))


def test_of_many_problems_the_first_is_told_and_how_many_follow():
    assert first_of([]) is None
    assert first_of(["one"]) == "one"
    assert first_of(["one", "two", "three"]) == "one (and 2 more)"
