"""Nodes have Kafka's bytes, and nodes of all Kafkas can be read.

What Kafka's own encoders write is in a table, which `python -m tests.golden.zookeeper_nodes` makes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kits.zookeeper_nodes import (
    decode_config,
    decode_partitions,
    decode_reassignment,
    decode_topic,
    encode_partitions,
    encode_reassignment,
    encode_topic,
)
from moldau.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId, uuid_bytes
from moldau.cluster.model import Endpoint, FeatureRange
from moldau.cluster.reassignment import WantedReplicas
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, decode_broker, encode_broker
from moldau.cluster.zookeeper.nodes.cluster_nodes import (
    FeatureNode,
    ProducerIdBlock,
    decode_cluster_id,
    decode_features,
    decode_producer_ids,
    encode_cluster_id,
    encode_features,
    encode_producer_ids,
)
from moldau.cluster.zookeeper.nodes.config_nodes import (
    ConfigEntity,
    config_entity,
    config_path,
    decode_config_change,
    encode_config,
    encode_config_change,
)
from moldau.cluster.zookeeper.nodes.consumer_nodes import decode_offset, encode_offset
from moldau.cluster.zookeeper.nodes.controller_nodes import (
    ControllerNode,
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from moldau.cluster.zookeeper.nodes.log_dir_nodes import decode_log_dir_event, encode_log_dir_event
from moldau.cluster.zookeeper.nodes.state_nodes import StateNode, decode_state, encode_state
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode

TABLE = Path(__file__).parents[4] / "golden" / "zookeeper_nodes.tsv"
ROWS = [line.split("\t") for line in TABLE.read_text().splitlines() if line[0] != "#"]
AGAIN = {
    "state": lambda data: encode_state(decode_state("/n", data)),
    "topic": lambda data: encode_topic(decode_topic("/n", data)),
    "broker": lambda data: encode_broker(decode_broker("/n", data)),
    "controller": lambda data: encode_controller(decode_controller(data)),
    "controller_epoch": lambda data: encode_controller_epoch(decode_controller_epoch(data)),
    "cluster_id": lambda data: encode_cluster_id(decode_cluster_id(data)),
    "producer_ids": lambda data: encode_producer_ids(decode_producer_ids(data)),
    "feature": lambda data: encode_features(decode_features(data)),
    "reassignment": lambda data: encode_reassignment(decode_reassignment(data)),
    "election": lambda data: encode_partitions(decode_partitions("/n", data)),
    "isr_change": lambda data: encode_partitions(decode_partitions("/n", data)),
    "log_dir_event": lambda data: encode_log_dir_event(decode_log_dir_event("/n", data)),
    "config": lambda data: encode_config(decode_config("/n", data)),
    "config_change": lambda data: encode_config_change(decode_config_change("/n", data)),
    "offset": lambda data: encode_offset(decode_offset("/n", data)),
}


@pytest.mark.parametrize(("kafka", "kind", "content"), ROWS)
def test_what_kafka_wrote_is_written_again_byte_for_byte(kafka, kind, content):
    assert AGAIN[kind](content.encode()) == content.encode()


def test_every_kind_of_node_is_there():
    assert {kind for _, kind, _ in ROWS} == set(AGAIN)


PLAIN = Endpoint("PLAINTEXT", "127.0.0.1", 9092, 0)
TOPIC_ID = "zeTNbNaeRS-h5yGiMZBOyg"


def topic_id(text=TOPIC_ID):
    return TopicId(uuid_bytes(text))


def second_topic_state(leader, *isr):
    return StateNode(12, BrokerId(leader), LeaderEpoch(0), isr)


STATES = {
    b'{"controller_epoch":12,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1]}': (
        second_topic_state(0, 0, 1)
    ),
    b'{"controller_epoch":12,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}': (
        second_topic_state(1, 1, 2)
    ),
    b'{"controller_epoch":5,"leader":1,"version":1,"leader_epoch":7,"isr":[1,2]}': StateNode(
        5, BrokerId(1), LeaderEpoch(7), (1, 2)
    ),
    b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":3,"isr":[2]}': StateNode(
        1, BrokerId(-1), LeaderEpoch(3), (2,)
    ),
    b'{"controller_epoch":5,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":7,'
    b'"isr":[1]}': StateNode(5, BrokerId(1), LeaderEpoch(7), (1,), recovering=True),
}


@pytest.mark.parametrize(("data", "node"), STATES.items())
def test_state_of_a_partition(data, node):
    assert encode_state(node) == data
    assert decode_state("/s", data) == node


def test_state_with_fields_of_our_own_starts_as_kafkas():
    node = StateNode(5, BrokerId(-1), LeaderEpoch(7), (), False, (1, 2), (3,))
    data = encode_state(node)
    assert data == (
        b'{"controller_epoch":5,"leader":-1,"version":1,"leader_epoch":7,"isr":[],'
        b'"eligible_leader_replicas":[1,2],"last_known_elr":[3]}'
    )
    assert decode_state("/s", data) == node


TOPICS = [
    (b'{"version":1,"partitions":{"0":[1,2,3]}}', TopicNode((Assignment((1, 2, 3)),), None, 1)),
    (
        b'{"version":2,"partitions":{"0":[0]},"adding_replicas":{},"removing_replicas":{}}',
        TopicNode((Assignment((0,)),), None, 2),
    ),
    (
        b'{"partitions":{"0":[1,0],"1":[0,1],"2":[1,0],"3":[0,1]},"topic_id":"%b",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}' % TOPIC_ID.encode(),
        TopicNode(
            tuple(Assignment(one) for one in ((1, 0), (0, 1), (1, 0), (0, 1))), topic_id(), 3
        ),
    ),
    (
        (
            b'{"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{"0":[1]},'
            b'"version":3}'
        ),
        TopicNode((Assignment((1, 2), (2,), (1,)),), None, 3),
    ),
]


@pytest.mark.parametrize(("data", "node"), TOPICS)
def test_topic(data, node):
    assert encode_topic(node) == data
    assert decode_topic("/t", data) == node


def test_partitions_may_come_in_any_order():
    """Scala 2.12 walks through its hash map backwards."""
    data = b'{"version":1,"partitions":{"2":[0],"1":[2],"0":[1]}}'
    assert [one.replicas for one in decode_topic("/t", data).assignments] == [(1,), (2,), (0,)]


BROKERS = [
    (
        (
            b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
            b'"endpoints":["PLAINTEXT://127.0.0.1:9092"],"jmx_port":-1,"host":"127.0.0.1",'
            b'"timestamp":"1572980758106","port":9092,"version":4}'
        ),
        BrokerNode((PLAIN,), timestamp_ms=1572980758106, version=4),
    ),
    (
        (
            b'{"listener_security_protocol_map":{"SASL_SSL":"SASL_SSL","SSL":"SSL"},'
            b'"endpoints":["SASL_SSL://my-broker.host:9193","SSL://my-broker.host:9093"],'
            b'"rack":"us-east-1d","jmx_port":9999,"host":null,"timestamp":"1542127633364","port":-1,'
            b'"version":4}'
        ),
        BrokerNode(
            (
                Endpoint("SASL_SSL", "my-broker.host", 9193, 3),
                Endpoint("SSL", "my-broker.host", 9093, 1),
            ),
            "us-east-1d",
            (),
            9999,
            1542127633364,
            4,
        ),
    ),
    (
        (
            b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
            b'"endpoints":["PLAINTEXT://127.0.0.1:9092"],"jmx_port":-1,"port":9092,'
            b'"host":"127.0.0.1","version":5,"timestamp":"1633056051250"}'
        ),
        BrokerNode((PLAIN,), timestamp_ms=1633056051250),
    ),
    (
        (
            b'{"features":{"f":{"min_version":1,"max_version":3}},'
            b'"listener_security_protocol_map":{"CLIENT":"SASL_PLAINTEXT","PEER":"PLAINTEXT"},'
            b'"endpoints":["CLIENT://[::1]:9092","PEER://:9093"],"rack":"r1","jmx_port":9999,'
            b'"port":9093,"host":null,"version":5,"timestamp":"7"}'
        ),
        BrokerNode(
            (Endpoint("CLIENT", "::1", 9092, 2), Endpoint("PEER", "", 9093, 0)),
            "r1",
            (FeatureRange("f", 1, 3),),
            9999,
            7,
        ),
    ),
]


@pytest.mark.parametrize(("data", "node"), BROKERS)
def test_broker(data, node):
    assert encode_broker(node) == data
    assert decode_broker("/b", data) == node


def test_features_that_begin_at_0_are_where_kafkas_tools_do_not_look():
    """2.8's `kafka-topics --alter` fails at such a range among the features of any broker."""
    data = (
        b'{"features":{"g":{"min_version":1,"max_version":2}},"listener_security_protocol_map":'
        b'{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:9092"],"jmx_port":-1,'
        b'"port":9092,"host":"127.0.0.1","version":5,"timestamp":"7",'
        b'"optional_features":{"f":{"min_version":0,"max_version":1}}}'
    )
    features = FeatureRange("f", 0, 1), FeatureRange("g", 1, 2)
    node = BrokerNode((PLAIN,), None, features, timestamp_ms=7)
    assert encode_broker(node) == data
    assert set(decode_broker("/b", data).features) == set(features)


@pytest.mark.parametrize(("data", "node"), BROKERS)
def test_a_broker_that_may_lack_records_says_so_behind_what_kafka_writes(data, node):
    node = replace(node, may_lack_records=True)
    data = data[:-1] + b',"may_lack_records":true}'
    assert encode_broker(node) == data
    assert decode_broker("/b", data) == node
    assert not decode_broker("/b", data.replace(b"true", b"false")).may_lack_records


@pytest.mark.parametrize(
    ("data", "node"),
    [
        (
            (
                b'{"jmx_port":9999,"timestamp":"2233345666","host":"localhost","version":1,'
                b'"port":9092}'
            ),
            BrokerNode((Endpoint("PLAINTEXT", "localhost", 9092, 0),), None, (), 9999, 2233345666),
        ),
        (
            (
                b'{"version":2,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"7",'
                b'"endpoints":["PLAINTEXT://host1:9092","SSL://host1:9093"]}'
            ),
            BrokerNode(
                (Endpoint("PLAINTEXT", "host1", 9092, 0), Endpoint("SSL", "host1", 9093, 1)),
                None,
                (),
                9999,
                7,
            ),
        ),
        (
            (
                b'{"jmx_port":-1,"timestamp":"1571666399659","endpoints":["PLAINTEXT://node4:6667"],'
                b'"host":"node4","version":3,"port":6667,"rack":"/default-rack"}'
            ),
            BrokerNode(
                (Endpoint("PLAINTEXT", "node4", 6667, 0),), "/default-rack", (), -1, 1571666399659
            ),
        ),
        (
            (
                b'{"version":4,"host":null,"port":-1,"jmx_port":-1,"timestamp":"7","rack":null,'
                b'"endpoints":["client://h:1"],"listener_security_protocol_map":{"CLIENT":"ssl"},'
                b'"new_field":{"a":[1.5,true,null]}}'
            ),
            BrokerNode((Endpoint("CLIENT", "h", 1, 1),), None, (), -1, 7),
        ),
    ],
)
def test_older_and_newer_brokers_can_be_read(data, node):
    read = decode_broker("/b", data)
    assert (read.endpoints, read.rack, read.jmx_port, read.timestamp_ms) == (
        node.endpoints,
        node.rack,
        node.jmx_port,
        node.timestamp_ms,
    )


def test_controller():
    old = b'{"version":1,"brokerid":0,"timestamp":"1535943857541"}'
    new = b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    for data, node in (
        (old, ControllerNode(BrokerId(0), 1535943857541, version=1)),
        (new, ControllerNode(BrokerId(1), 1700000000000)),
    ):
        assert encode_controller(node) == data
        assert decode_controller(data) == node
    assert encode_controller_epoch(12) == b"12"
    assert decode_controller_epoch(b"12") == 12


def test_nodes_of_the_cluster():
    data = b'{"version":"1","id":"IOejp_IKSbWbySJc0sRrKw"}'
    assert encode_cluster_id("IOejp_IKSbWbySJc0sRrKw") == data
    assert decode_cluster_id(data) == "IOejp_IKSbWbySJc0sRrKw"
    data = b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert encode_producer_ids(ProducerIdBlock(BrokerId(1), 0, 999)) == data
    assert decode_producer_ids(data) == ProducerIdBlock(BrokerId(1), 0, 999)
    assert decode_producer_ids(b"") is None


@pytest.mark.parametrize(
    ("data", "node"),
    [
        (b'{"features":{},"version":2,"status":1}', FeatureNode({})),
        (b'{"features":{},"version":1,"status":0}', FeatureNode({}, enabled=False, version=1)),
        (
            b'{"features":{"f":{"max_version_level":3}},"version":2,"status":1}',
            FeatureNode({"f": 3}),
        ),
        (
            (
                b'{"features":{"f":{"max_version_level":3,"min_version_level":3}},"version":1,'
                b'"status":1}'
            ),
            FeatureNode({"f": 3}, version=1),
        ),
    ],
)
def test_features(data, node):
    assert encode_features(node) == data
    assert decode_features(data) == node


def test_lists_of_partitions():
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,5]}]}'
    wanted = (WantedReplicas("t", 0, (4, 5)),)
    assert encode_reassignment(wanted) == data
    assert decode_reassignment(data) == wanted
    data = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    assert encode_partitions([PartitionKey("t", 0)]) == data
    assert decode_partitions("/p", data) == (PartitionKey("t", 0),)
    twice = [PartitionKey("t", 1), PartitionKey("t", 0), PartitionKey("t", 1)]
    assert decode_partitions("/p", encode_partitions(twice)) == tuple(twice[:2])


def test_event_of_a_log_directory():
    data = b'{"version":1,"broker":1,"event":1}'
    assert encode_log_dir_event(BrokerId(1)) == data
    assert decode_log_dir_event("/e", data) == 1


def test_configs():
    data = b'{"version":1,"config":{"cleanup.policy":"compact","retention.ms":"1000"}}'
    settings = {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert encode_config(settings) == data
    assert decode_config("/c", data) == settings
    assert encode_config({}) == b'{"version":1,"config":{}}'
    assert decode_config("/c", b"") == decode_config("/c", None) == {}


def test_characters_are_escaped_as_jackson_does_it():
    data = encode_config({"a": '\x0b\x1f\t"\\u000b/\x7fä\U0001f600\U0010ffff'})
    text = '{"version":1,"config":{"a":"\\u000B\\u001F\\t\\"\\\\u000b/\x7fä%s"}}'
    assert data == (text % r"\uD83D\uDE00\uDBFF\uDFFF").encode()


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (ConfigEntity("topics", "t.1"), "topics/t.1"),
        (ConfigEntity("brokers", "7"), "brokers/7"),
        (ConfigEntity("brokers", None), "brokers/<default>"),
        (ConfigEntity("ips", "::1"), "ips/::1"),
        (ConfigEntity("users", "CN=a, O=b*~_-."), "users/CN%3Da%2C%20O%3Db%2A%7E_-."),
        (ConfigEntity("users", "<default>"), "users/%3Cdefault%3E"),
        (ConfigEntity("clients", None), "clients/<default>"),
        (ConfigEntity("users", "ü", clients=True, client="c/1"), "users/%C3%BC/clients/c%2F1"),
        (ConfigEntity("users", None, clients=True), "users/<default>/clients/<default>"),
    ],
)
def test_paths_of_configs(entity, path):
    assert config_path(entity) == f"/config/{path}"
    assert config_entity(f"/config/{path}") == entity
    data = encode_config_change(entity)
    assert data == b'{"version":2,"entity_path":"%b"}' % path.encode()
    assert decode_config_change("/n", data) == entity


def test_a_notification_of_kafka_0_9():
    data = b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    assert decode_config_change("/n", data) == ConfigEntity("topics", "t")


def test_offsets_of_old_consumers():
    assert encode_offset(2**63 - 1) == b"9223372036854775807"
    assert decode_offset("/o", b"9223372036854775807") == 2**63 - 1
    assert paths.consumer_offset("g", "t", 0) == "/consumers/g/offsets/t/0"
    assert paths.consumer_owner("g", "t", 0) == "/consumers/g/owners/t/0"
    assert paths.consumer_ids("g") == "/consumers/g/ids"


def test_paths():
    assert paths.state("secondTopic", 0) == "/brokers/topics/secondTopic/partitions/0/state"
    assert paths.state_owner(paths.state("t", 12)) == PartitionKey("t", 12)
    for other in (
        "/brokers/topics/t/partitions/0",
        "/brokers/topics/t/partitions/00/state",
        "/brokers/topics/t/partitions/-1/state",
        "/brokers/topics/t/partitions/2147483648/state",
        "/brokers/topics//partitions/0/state",
        "/brokers/topics/t/partitions/0/state/x",
        "/other/topics/t/partitions/0/state",
        "",
    ):
        assert paths.state_owner(other) is None
    assert paths.child(paths.TOPICS, "/brokers/topics/t") == "t"
    for other in ("/brokers/topics", "/brokers/topics/", "/brokers/topics/t/partitions", "/b"):
        assert paths.child(paths.TOPICS, other) is None
