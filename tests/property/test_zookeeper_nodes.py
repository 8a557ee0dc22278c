"""Nodes of every kind and version survive, and no content raises anything but MalformedNode."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kits.zookeeper_nodes import (
    changed_node,
    decode_config,
    decode_partitions,
    decode_reassignment,
    decode_topic,
    encode_partitions,
    encode_reassignment,
    encode_topic,
    read_topic,
)
from moldau.base.ids import PartitionKey
from moldau.cluster.image import MetadataImage
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
    ENTITY_TYPES,
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
)
from moldau.cluster.zookeeper.nodes.log_dir_nodes import decode_log_dir_event, encode_log_dir_event
from moldau.cluster.zookeeper.nodes.node_content import MalformedNode
from moldau.cluster.zookeeper.nodes.state_nodes import StateNode, decode_state, encode_state
from moldau.cluster.zookeeper.nodes.stored_node import StoredNode
from moldau.cluster.zookeeper.nodes.topic_nodes import Assignment, TopicNode
from moldau.cluster.zookeeper.nodes.tree_image import read_tree

INT32 = st.integers(0, 2**31 - 1)
BROKER = st.integers(0, 2**31 - 1)
BROKERS = st.lists(BROKER, unique=True, max_size=4).map(tuple)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1)
TIME = st.integers(0, 2**63 - 1)
TOPIC_IDS = st.binary(min_size=16, max_size=16).filter(any)


@st.composite
def assignments(draw):
    replicas = draw(st.lists(BROKER, unique=True, min_size=1, max_size=5))
    adding = draw(st.lists(st.sampled_from(replicas), unique=True))
    removing = draw(st.lists(st.sampled_from(replicas), unique=True))
    return Assignment(tuple(replicas), tuple(adding), tuple(removing))


@st.composite
def topics(draw):
    version = draw(st.sampled_from([1, 2, 3]))
    parts = draw(st.lists(assignments(), min_size=1, max_size=30))
    if version == 1:
        parts = [Assignment(one.replicas) for one in parts]
    topic_id = draw(st.none() | TOPIC_IDS) if version == 3 else None
    return TopicNode(tuple(parts), topic_id, version)


@st.composite
def brokers(draw):
    names = draw(st.lists(st.from_regex(r"[A-Z][A-Z_]{0,9}", fullmatch=True), unique=True))
    hosts = st.sampled_from(["", "h", "a-1.example.org", "127.0.0.1", "::1", "fe80::1%eth0"])
    endpoints = tuple(
        Endpoint(name, draw(hosts), draw(st.integers(0, 65535)), draw(st.integers(0, 3)))
        for name in names
    )
    version = draw(st.sampled_from([4, 5]))
    features = [
        FeatureRange(name, *sorted(draw(st.tuples(st.integers(0, 32767), st.integers(0, 32767)))))
        for name in (draw(st.lists(TEXT, unique=True, max_size=3)) if version == 5 else [])
    ]
    rack, jmx = draw(st.none() | TEXT), draw(st.integers(-1, 65535))
    lacks = draw(st.booleans())
    return BrokerNode(endpoints, rack, tuple(features), jmx, draw(TIME), version, lacks)


@st.composite
def entities(draw):
    kind = draw(st.sampled_from(sorted(ENTITY_TYPES)))
    # Names of these types are put into paths unchanged.
    name = draw(st.none() | NAME.filter(lambda text: text != "<default>"))
    if kind == "users" and draw(st.booleans()):
        return ConfigEntity(kind, name, clients=True, client=draw(st.none() | NAME))
    return ConfigEntity(kind, name)


STATES = st.builds(
    StateNode, INT32, st.integers(-1, 2**31 - 1), INT32, BROKERS, st.booleans(), BROKERS, BROKERS
)
KEYS = st.builds(PartitionKey, TEXT, INT32)


@given(STATES)
def test_states(node):
    assert decode_state("/s", encode_state(node)) == node


@given(topics())
def test_topics(node):
    assert decode_topic("/t", encode_topic(node)) == node


@given(brokers())
def test_brokers(node):
    # Features that begin at 0 have a field of their own, and come last.
    ordered = sorted(node.features, key=lambda one: one.minimum == 0)
    assert decode_broker("/b", encode_broker(node)) == replace(node, features=tuple(ordered))


@given(BROKER, TIME, st.integers(-1, 2**31 - 1), st.sampled_from([1, 2]))
def test_controllers(broker, time, epoch, version):
    node = ControllerNode(broker, time, epoch if version == 2 else -1, version)
    assert decode_controller(encode_controller(node)) == node


@given(st.dictionaries(TEXT, TEXT))
def test_configs(configs):
    assert decode_config("/c", encode_config(configs)) == configs


@given(entities())
def test_entities(entity):
    assert config_entity(config_path(entity)) == entity
    assert decode_config_change("/n", encode_config_change(entity)) == entity


@given(st.lists(KEYS, unique=True), st.data())
def test_lists_of_partitions(keys, data):
    assert decode_partitions("/p", encode_partitions(keys)) == tuple(keys)
    replicas = BROKERS.filter(bool)
    wanted = tuple(WantedReplicas(*key, data.draw(replicas)) for key in keys)
    assert decode_reassignment(encode_reassignment(wanted)) == wanted


@given(st.dictionaries(TEXT, st.integers(1, 32767)), st.booleans(), st.sampled_from([1, 2]))
def test_features(levels, enabled, version):
    node = FeatureNode(levels, enabled, version)
    assert decode_features(encode_features(node)) == node


@given(st.integers(-1, 2**31 - 1), st.integers(0, 2**61), st.integers(0, 2**31 - 2))
def test_numbers(broker, first, size):
    block = ProducerIdBlock(broker, first, first + size)
    assert decode_producer_ids(encode_producer_ids(block)) == block
    assert decode_offset("/o", encode_offset(first)) == first
    assert decode_log_dir_event("/l", encode_log_dir_event(size)) == size
    assert decode_cluster_id(encode_cluster_id(f"c{size}")) == f"c{size}"


DECODERS = [
    lambda data: decode_broker("/x", data),
    lambda data: decode_topic("/x", data),
    lambda data: decode_state("/x", data),
    lambda data: decode_config("/x", data),
    lambda data: decode_config_change("/x", data),
    lambda data: decode_partitions("/x", data),
    lambda data: decode_log_dir_event("/x", data),
    lambda data: decode_offset("/x", data),
    decode_reassignment,
    decode_controller,
    decode_controller_epoch,
    decode_cluster_id,
    decode_producer_ids,
    decode_features,
]

FIELDS = st.sampled_from(
    [
        *("version", "id", "brokerid", "broker", "timestamp", "status", "features", "config"),
        *("controller_epoch", "leader", "leader_epoch", "isr", "leader_recovery_state"),
        *("eligible_leader_replicas", "partitions", "topic_id", "adding_replicas"),
        *("removing_replicas", "host", "port", "jmx_port", "endpoints", "rack"),
        *("listener_security_protocol_map", "block_start", "block_end", "entity_path"),
        *("entity_type", "entity_name", "topic", "partition", "replicas"),
        *("max_version_level", "min_version", "max_version", "0", "1", "PLAINTEXT"),
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["1", "PLAINTEXT", "PLAINTEXT://h:1", "topics/t", "users/%ff", "\ud800"])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(FIELDS, inner), max_leaves=12
)
OBJECTS = st.dictionaries(FIELDS, VALUES).map(lambda value: json.dumps(value).encode())
GARBAGE = st.binary(max_size=200) | OBJECTS | VALUES.map(lambda value: json.dumps(value).encode())


@settings(max_examples=200)
@given(GARBAGE)
def test_no_content_raises_anything_else(data):
    for decode in DECODERS:
        with contextlib.suppress(MalformedNode):
            decode(data)


@st.composite
def spoiled(draw):
    """A good node with a few bytes changed, cut out or doubled."""
    good = draw(
        topics().map(encode_topic) | STATES.map(encode_state) | brokers().map(encode_broker)
    )
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        end = draw(st.integers(at, min(len(data), at + 4)))
        data[at:end] = draw(st.binary(max_size=4) | st.just(bytes(data[at:end]) * 2))
        data = data or bytearray(b"{")
    return bytes(data)


@settings(max_examples=300)
@given(spoiled())
def test_no_spoiled_node_raises_anything_else(data):
    for decode in DECODERS:
        with contextlib.suppress(MalformedNode):
            decode(data)
    with contextlib.suppress(MalformedNode):
        read_topic(MetadataImage(), "t", StoredNode(data), {0: StoredNode(data)})


PATHS = (
    st.sampled_from(
        [
            paths.FEATURE,
            paths.CLUSTER_ID,
            paths.PRODUCER_ID_BLOCK,
            paths.REASSIGN_PARTITIONS,
            paths.PREFERRED_REPLICA_ELECTION,
            paths.broker(1),
            paths.topic("t"),
            paths.topic("u"),
            paths.partitions("t"),
            paths.partition("t", 0),
            paths.state("t", 0),
            paths.state("t", 1),
            paths.state("u", 0),
            paths.delete_topic("t"),
            "/config/topics/t",
            "/config/brokers/<default>",
            "/config/groups/%ff",
            "/config/users/u",
        ]
    )
    | NAME.map(lambda name: f"/brokers/ids/{name}")
    | NAME.map(paths.topic)
)
NODES = st.builds(
    StoredNode,
    GARBAGE | topics().map(encode_topic) | STATES.map(encode_state) | brokers().map(encode_broker),
    INT32,
    st.integers(0, 2**63 - 1),
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(PATHS, NODES, max_size=12))
def test_no_tree_raises_anything(nodes):
    reading = read_tree(nodes, 1)
    image = MetadataImage()
    with contextlib.suppress(StopIteration):
        while True:
            next(reading)
    for path, node in nodes.items():
        with contextlib.suppress(MalformedNode):
            image = image.apply(changed_node(image, path, node).changes, 1)
