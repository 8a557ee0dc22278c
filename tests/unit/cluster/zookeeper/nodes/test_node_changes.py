"""One changed node becomes the changes that follow from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kits.metadata_samples import topic_id
from kits.zookeeper_nodes import changed_node
from moldau.base.ids import BrokerId, PartitionKey
from moldau.cluster.changes import (
    BrokerRegistered,
    BrokerUnregistered,
    ConfigChanged,
    FeatureLevelSet,
    PartitionCreated,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
)
from moldau.cluster.image import MetadataImage
from moldau.cluster.model import Broker, ConfigResource, Endpoint, Partition, ResourceType
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, encode_broker
from moldau.cluster.zookeeper.nodes.node_changes import NOTHING, NodeReading, registration_at
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.tool_requests import (
    DeletionWanted,
    PreferredElectionWanted,
    ReassignmentWanted,
)

ID = topic_id(1)
STATE = "/brokers/topics/t/partitions/0/state"
TOPIC = ConfigResource(ResourceType.TOPIC, "t")
IMAGE = MetadataImage().apply(
    [
        TopicCreated("t", ID),
        PartitionCreated(ID, Partition(0, (1, 2), (1, 2), 1, 3, 5)),
        ConfigChanged(TOPIC, "a", "b"),
        ConfigChanged(TOPIC, "c", "d"),
        FeatureLevelSet("f", 1),
        FeatureLevelSet("g", 1),
        ProducerIdsAllocated(BrokerId(1), -1, 1000),
    ],
    1,
)


def state(data, version=6):
    return StoredNode(b'{"controller_epoch":1,"version":1,%b}' % data, version)


def test_a_state_is_stated_as_a_whole():
    node = state(b'"leader":2,"leader_epoch":7,"isr":[2]', version=9)
    changed = PartitionCreated(ID, Partition(0, (1, 2), (2,), 2, 7, 9))
    assert changed_node(IMAGE, STATE, node) == NodeReading((changed,))


def test_a_state_that_is_known_or_older_or_gone_changes_nothing():
    same = b'"leader":1,"leader_epoch":3,"isr":[1,2]'
    assert changed_node(IMAGE, STATE, state(same, version=5)) == NOTHING
    assert changed_node(IMAGE, STATE, state(b'"leader":2', version=4)) == NOTHING
    assert changed_node(IMAGE, STATE, None) == NOTHING


def test_a_state_that_cannot_be_judged_alone_has_its_topic_read():
    node = state(b'"leader":3,"leader_epoch":4,"isr":[3]')
    read_it = NodeReading(topic_to_read="t")
    assert changed_node(IMAGE, STATE, node) == read_it
    assert changed_node(IMAGE, "/brokers/topics/t/partitions/1/state", node) == read_it
    assert changed_node(MetadataImage(), STATE, node) == read_it
    assert changed_node(IMAGE, "/brokers/topics/t", StoredNode(b"")) == read_it


def test_a_topic_node_that_is_gone_is_a_topic_that_is_gone():
    assert changed_node(IMAGE, "/brokers/topics/t", None) == NodeReading((TopicRemoved(ID),))
    assert changed_node(IMAGE, "/brokers/topics/u", None) == NOTHING


def test_brokers_come_change_and_go():
    plain = Endpoint("PLAINTEXT", "h", 9092, 0)
    other = Endpoint("PLAINTEXT", "h", 9093, 0)

    def follow(image, endpoint, created):
        node = StoredNode(encode_broker(BrokerNode((endpoint,), "r")), 1, created)
        changes = changed_node(image, "/brokers/ids/7", node).changes
        return list(changes), image.apply(changes, image.version + 1)

    broker = Broker(BrokerId(7), 258, bytes(14) + b"\x01\x02", (plain,), "r", fenced=False)
    changes, image = follow(IMAGE, plain, 258)
    assert changes == [BrokerRegistered(broker)]
    assert follow(image, plain, 258)[0] == []
    leaving = replace(image, brokers={BrokerId(7): replace(broker, in_controlled_shutdown=True)})
    changes, _ = follow(leaving, other, 258)
    moved = replace(broker, endpoints=(other,), in_controlled_shutdown=True)
    assert changes == [BrokerRegistered(moved)]
    changes, again = follow(leaving, plain, 259)
    assert changes[0].broker.epoch == 259
    assert changes[0].broker.active
    assert follow(again, other, 258)[0] == []
    gone = changed_node(image, "/brokers/ids/7", None)
    assert gone == NodeReading((BrokerUnregistered(BrokerId(7), 258),))
    assert changed_node(IMAGE, "/brokers/ids/7", None) == NOTHING


@pytest.mark.parametrize("lacks", [True, False])
def test_a_registration_tells_whether_records_may_be_lacking(lacks):
    node = StoredNode(encode_broker(BrokerNode((), may_lack_records=lacks)), 1, 258)
    broker = Broker(BrokerId(7), 258, bytes(14) + b"\x01\x02", fenced=False)
    assert registration_at("/brokers/ids/7", node) == (broker, lacks)
    assert changed_node(IMAGE, "/brokers/ids/7", node).changes == (BrokerRegistered(broker),)


@pytest.mark.parametrize("name", ["x", "-1", "01", "2147483648", "99999999999999", "٣"])
def test_a_node_that_no_broker_can_have(name):
    with pytest.raises(MalformedNode, match="its name is no id of a broker"):
        changed_node(IMAGE, f"/brokers/ids/{name}", StoredNode(b""))


def test_configs():
    path = "/config/topics/t"
    node = StoredNode(b'{"version":1,"config":{"a":"x","e":"f","min.insync.replicas":"x"}}')
    reading = changed_node(IMAGE, path, node)
    assert reading.changes == (
        ConfigChanged(TOPIC, "c", None),
        ConfigChanged(TOPIC, "a", "x"),
        ConfigChanged(TOPIC, "e", "f"),
    )
    assert [str(one) for one in reading.refused] == [
        f"{path}: min.insync.replicas is x, which is no number from 1 on"
    ]
    gone = changed_node(IMAGE, path, None)
    assert gone.changes == (ConfigChanged(TOPIC, "a", None), ConfigChanged(TOPIC, "c", None))
    node = StoredNode(b'{"version":1,"config":{"a":"1"}}')
    everywhere = ConfigResource(ResourceType.BROKER, "")
    reading = changed_node(IMAGE, "/config/brokers/<default>", node)
    assert reading.changes == (ConfigChanged(everywhere, "a", "1"),)
    for other in (
        "/config/topics/<default>",
        "/config/topics/not-yet-there",
        "/config/users/u",
        "/config/users/u/clients/c",
        "/config/groups/a+b",
        "/config/topics",
        "/config/changes/config_change_0000000001",
    ):
        assert changed_node(IMAGE, other, node) == NOTHING


def test_features():
    node = StoredNode(b'{"features":{"f":{"max_version_level":3}},"version":2,"status":1}')
    reading = changed_node(IMAGE, "/feature", node)
    assert reading.changes == (FeatureLevelSet("g", 0), FeatureLevelSet("f", 3))
    off = (FeatureLevelSet("f", 0), FeatureLevelSet("g", 0))
    disabled = StoredNode(node.data.replace(b'"status":1', b'"status":0'))
    assert changed_node(IMAGE, "/feature", disabled).changes == off
    assert changed_node(IMAGE, "/feature", None).changes == off


def test_producer_ids_only_grow():
    path = "/latest_producer_id_block"

    def block(first, last):
        return StoredNode(b'{"broker":2,"block_start":"%d","block_end":"%d"}' % (first, last))

    reading = changed_node(IMAGE, path, block(5000, 5999))
    assert reading.changes == (ProducerIdsAllocated(BrokerId(2), -1, 6000),)
    assert changed_node(IMAGE, path, block(0, 999)) == NOTHING
    assert changed_node(IMAGE, path, None) == NOTHING
    for node in (block(0, 998), StoredNode(b"")):
        with pytest.raises(MalformedNode, match="the next producer id would go from 1000 back"):
            changed_node(IMAGE, path, node)


def test_requests_of_tools():
    def requested(path, data=b""):
        reading = changed_node(IMAGE, path, StoredNode(data))
        assert not reading.changes
        return reading.requests

    assert requested("/admin/delete_topics/t") == (DeletionWanted("t"),)
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]}]}'
    assert requested("/admin/reassign_partitions", data) == (
        ReassignmentWanted((WantedReplicas("t", 0, (2, 3)),)),
    )
    assert requested("/admin/preferred_replica_election", data) == (
        PreferredElectionWanted((PartitionKey("t", 0),)),
    )
    for path in ("/admin/delete_topics/t", "/admin/reassign_partitions", "/controller", "/x"):
        assert changed_node(IMAGE, path, None) == NOTHING
