"""Content that nobody should have written is refused: which node, what is wrong, in one line."""

from __future__ import annotations

import json

import pytest

from kits.zookeeper_nodes import (
    decode_config,
    decode_object_in_steps,
    decode_reassignment,
    decode_topic,
    usable_configs,
)
from moldau.cluster.zookeeper.nodes.broker_nodes import decode_broker
from moldau.cluster.zookeeper.nodes.cluster_nodes import (
    decode_cluster_id,
    decode_features,
    decode_producer_ids,
)
from moldau.cluster.zookeeper.nodes.config_nodes import decode_config_change
from moldau.cluster.zookeeper.nodes.consumer_nodes import decode_offset
from moldau.cluster.zookeeper.nodes.controller_nodes import (
    decode_controller,
    decode_controller_epoch,
)
from moldau.cluster.zookeeper.nodes.json_parsing import DEPTH_MAX
from moldau.cluster.zookeeper.nodes.node_content import (
    NODE_BYTES_MAX,
    SMALL_BYTES_MAX,
    MalformedNode,
    decode_object,
)
from moldau.cluster.zookeeper.nodes.state_nodes import decode_state

BROKER = {
    "version": 5,
    "host": "h",
    "port": 1,
    "jmx_port": -1,
    "timestamp": "1",
    "endpoints": ["PLAINTEXT://h:1"],
    "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    "features": {},
}
STATE = {"version": 1, "controller_epoch": 1, "leader": 1, "leader_epoch": 0, "isr": [1]}
TOPIC = {"version": 3, "partitions": {"0": [1, 2]}}


def refused(decode, content, *, path=True):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(MalformedNode) as caught:
        decode("/node", data) if path else decode(data)
    text = str(caught.value)
    assert text.startswith(f"{caught.value.path}: ")
    assert "\n" not in text
    assert len(text) < 3000
    return caught.value.problem


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is empty"),
        (b"{", "it has open brackets, or more than 8 levels"),
        (b'{"a":"\\ud800"', "it has open brackets, or more than 8 levels"),
        (b"12", "it is no JSON object"),
        (b"[1]", "it is no JSON object"),
        (b"null", "it is no JSON object"),
        (b'{"a":NaN}', "it is no JSON: NaN is no JSON"),
        (b'{"a":-Infinity}', "it is no JSON: -Infinity is no JSON"),
        (b'{"a":1,"a":1}', "it is no JSON: a key is there twice"),
        (b'{"x":{"a":1,"a":1}}', "it is no JSON: a key is there twice"),
    ],
)
def test_content_that_is_no_object(data, problem):
    assert refused(decode_object, data) == problem


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        b'{"a":"\xff"}',
        b"\xef\xbb\xbf{}",
        b'{"a":1}x',
        b"{'a':1}",
        b'{"a":' + b"1" * 5000 + b"}",
        "{}".encode("utf-16"),
    ],
)
def test_content_that_is_no_json(data):
    assert refused(decode_object, data).startswith("it is no JSON")


def test_size_is_limited():
    for decode, most in (
        (decode_object, SMALL_BYTES_MAX),
        (decode_object_in_steps, NODE_BYTES_MAX),
    ):
        padding = most - len(b'{"a":""}')
        decode("/node", b'{"a":"%b"}' % (b"x" * padding))
        problem = refused(decode, b'{"a":"%b"}' % (b"x" * (padding + 1)))
        assert problem == f"it has {most + 1} bytes, more than {most}"


def test_nesting_is_limited():
    def nested(levels):
        return b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"

    decode_object("/node", nested(DEPTH_MAX))
    decode_object("/node", b'{"a":"%b","b":"\\"[[["}' % (b"[{" * 100))
    for levels in (DEPTH_MAX + 1, 500, 30_000):
        assert "levels" in refused(decode_object, nested(levels))
    assert "levels" in refused(decode_object, b'{"a":' * 10_000)


def test_a_path_cannot_break_the_line():
    error = MalformedNode("/a\nb" + "x" * 1000, "it is empty")
    assert str(error).startswith("/a\\nbxxx")
    assert len(str(error)) < 300


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"leader": None}, "leader is missing"),
        ({"leader": -2}, "leader is no number from -1 to 2147483647"),
        ({"leader": "1"}, "leader is no number from -1 to 2147483647"),
        ({"leader": 1.0}, "leader is no number from -1 to 2147483647"),
        ({"leader": True}, "leader is no number from -1 to 2147483647"),
        ({"leader": 2**31}, "leader is no number from -1 to 2147483647"),
        ({"leader_epoch": -1}, "leader_epoch is no number from 0 to 2147483647"),
        ({"controller_epoch": 2**31}, "controller_epoch is no number from 0 to 2147483647"),
        ({"version": 0}, "version is no number from 1 to 2147483647"),
        ({"isr": None}, "isr is missing"),
        ({"isr": {}}, "isr is no list"),
        ({"isr": [1, 1]}, "isr has a broker twice"),
        ({"isr": [-1]}, "isr has a value that is no broker id"),
        ({"isr": [True]}, "isr has a value that is no broker id"),
        ({"isr": [[1]]}, "isr has a value that is no broker id"),
        ({"isr": list(range(10_001))}, "isr has more than 10000 brokers"),
        ({"leader_recovery_state": 2}, "leader_recovery_state is no number from 0 to 1"),
        ({"eligible_leader_replicas": [-1]}, "eligible_leader_replicas has a value that is no"),
        ({"last_known_elr": 1}, "last_known_elr is no list"),
    ],
)
def test_states(changed, problem):
    assert refused(decode_state, {**STATE, **changed}).startswith(problem)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"partitions": None}, "it has no partitions"),
        ({"partitions": {}}, "it has no partitions"),
        ({"partitions": []}, "partitions is no object"),
        ({"partitions": {"0": []}}, "partition 0 has no replicas"),
        ({"partitions": {"0": [1, 1]}}, "partitions.0 has a broker twice"),
        ({"partitions": {"0": [-1]}}, "partitions.0 has a value that is no broker id"),
        ({"partitions": {"0": 1}}, "partitions.0 is no list"),
        ({"partitions": {"0": None}}, "partitions.0 is missing"),
        ({"partitions": {"1": [1]}}, "the numbers of its partitions are not 0 to 0"),
        ({"partitions": {"0": [1], "2": [1]}}, "the numbers of its partitions are not 0 to 1"),
        ({"partitions": {"00": [1]}}, "partitions has a key that is no partition"),
        ({"partitions": {"-1": [1]}}, "partitions has a key that is no partition"),
        ({"partitions": {"٣": [1]}}, "partitions has a key that is no partition"),
        ({"partitions": {"9999999999": [1]}}, "partitions has a key that is no partition"),
        ({"adding_replicas": {"1": [1]}}, "it moves replicas of partition 1, which"),
        ({"removing_replicas": {"0": [3]}}, "partition 0 moves a broker that is no replica"),
        ({"topic_id": 1}, "topic_id is no text"),
        ({"topic_id": ""}, "topic_id is no id of a topic"),
        ({"topic_id": "A" * 22}, "topic_id is no id of a topic"),
        ({"topic_id": "zeTNbNaeRS-h5yGiMZBOy!"}, "topic_id is no id of a topic"),
        ({"topic_id": "zeTNbNaeRS-h5yGiMZBOyh"}, "topic_id is no id of a topic"),
        ({"topic_id": "ä" * 22}, "topic_id is no id of a topic"),
        ({"version": -1}, "version is no number"),
    ],
)
def test_topics(changed, problem):
    assert refused(decode_topic, {**TOPIC, **changed}).startswith(problem)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"version": 0}, "version is no number"),
        ({"version": 1, "port": -1}, "port is no number from 0 to 65535"),
        ({"endpoints": None}, "endpoints is missing"),
        ({"endpoints": [1]}, "endpoints is no text"),
        ({"endpoints": ["PLAINTEXT://h"]}, "endpoints has PLAINTEXT://h, which is no address"),
        ({"endpoints": ["PLAINTEXT://h:-1"]}, "endpoints has PLAINTEXT://h:-1, which is no"),
        ({"endpoints": ["PLAINTEXT://h:65536"]}, "endpoints has PLAINTEXT://h:65536, which"),
        ({"endpoints": ["://h:1"]}, "endpoints has ://h:1, which is no address"),
        ({"endpoints": ["PLAINTEXT://a b:1"]}, "endpoints has PLAINTEXT://a b:1, which is no"),
        ({"endpoints": ["PLAINTEXT://" + "h" * 2000 + ":1"]}, "endpoints has PLAINTEXT://hhh"),
        ({"endpoints": ["PLAINTEXT://h:1"] * 2}, "endpoints has a listener twice"),
        ({"endpoints": ["SSL://h:1"]}, "the security protocol of SSL://h:1 is not known"),
        (
            {"listener_security_protocol_map": {"PLAINTEXT": "WHAT"}},
            "the security protocol of PLAINTEXT://h:1 is not known",
        ),
        (
            {"listener_security_protocol_map": {"PLAINTEXT": 0}},
            "listener_security_protocol_map.PLAINTEXT is no text",
        ),
        ({"rack": 1}, "rack is no text"),
        ({"rack": "\ud800"}, "rack is no valid Unicode text"),
        ({"timestamp": 1}, "timestamp is no text"),
        ({"timestamp": "now"}, "timestamp is no decimal text"),
        ({"jmx_port": -2}, "jmx_port is no number"),
        ({"features": {"f": {"min_version": 2, "max_version": 1}}}, "features.f.max_version is"),
        ({"features": {"f": 1}}, "features.f is no object"),
        ({"may_lack_records": 1}, "may_lack_records is neither true nor false"),
    ],
)
def test_brokers(changed, problem):
    assert refused(decode_broker, {**BROKER, **changed}).startswith(problem)


@pytest.mark.parametrize(
    "data", [b"", b"-1", b"+1", b"01", b" 1", b"1\n", b"2147483648", b"1" * 40, b"1_0", b"\xd9\xa3"]
)
def test_numbers_that_are_none(data):
    refused(decode_controller_epoch, data, path=False)


@pytest.mark.parametrize(
    ("decode", "content"),
    [
        (decode_controller, {"version": 1, "timestamp": "1"}),
        (decode_controller, {"version": 1, "brokerid": -1}),
        (decode_controller, {"version": 2, "brokerid": 1, "kraftControllerEpoch": -2}),
        (decode_cluster_id, {"version": "1"}),
        (decode_cluster_id, {"version": "1", "id": ""}),
        (decode_cluster_id, {"version": "1", "id": "a\nb"}),
        (decode_cluster_id, {"version": "1", "id": "a" * 101}),
        (decode_producer_ids, {"broker": -2, "block_start": "0", "block_end": "999"}),
        (decode_producer_ids, {"broker": 1, "block_start": 0, "block_end": "999"}),
        (decode_producer_ids, {"broker": 1, "block_start": "1000", "block_end": "998"}),
        (decode_producer_ids, {"broker": 1, "block_start": "0", "block_end": str(2**63 - 1)}),
        (decode_producer_ids, {"broker": 1, "block_start": "0", "block_end": str(2**31)}),
        (decode_producer_ids, {"broker": 1, "block_start": str(2**62), "block_end": str(2**62)}),
        (decode_features, {"version": 2, "features": {}}),
        (decode_features, {"version": 2, "status": 2, "features": {}}),
        (decode_features, {"version": 2, "status": 1}),
        (decode_features, {"version": 2, "status": 1, "features": {"f": {}}}),
        (
            decode_features,
            {"version": 2, "status": 1, "features": {"f": {"max_version_level": 0}}},
        ),
        (
            decode_features,
            {"version": 2, "status": 1, "features": {"f": {"max_version_level": 2**15}}},
        ),
        (decode_reassignment, {"version": 1}),
        (decode_reassignment, {"partitions": [1]}),
        (decode_reassignment, {"partitions": [{"topic": "t", "partition": 0}]}),
        (decode_reassignment, {"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}),
        (decode_reassignment, {"partitions": [{"topic": 1, "partition": 0, "replicas": [1]}]}),
        (decode_reassignment, {"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}),
        (
            decode_reassignment,
            {"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2},
        ),
    ],
)
def test_nodes_that_there_are_once(decode, content):
    refused(decode, content, path=False)


@pytest.mark.parametrize(
    ("decode", "content"),
    [
        (decode_config, {"version": 1, "config": []}),
        (decode_config, {"version": 1, "config": {"a": 1}}),
        (decode_config, {"version": 1, "config": {"a": None}}),
        (decode_config, {"version": 1, "config": {"\udfff": "a"}}),
        (decode_config_change, {"version": 2}),
        (decode_config_change, {"version": 3, "entity_path": "topics/t"}),
        (decode_config_change, {"version": 2, "entity_path": "topics"}),
        (decode_config_change, {"version": 2, "entity_path": "topics/"}),
        (decode_config_change, {"version": 2, "entity_path": "what/t"}),
        (decode_config_change, {"version": 2, "entity_path": "topics/t/clients/c"}),
        (decode_config_change, {"version": 2, "entity_path": "users/%ff"}),
        (decode_config_change, {"version": 1, "entity_type": "topics"}),
        (decode_offset, b"-1"),
        (decode_offset, b"9223372036854775808"),
    ],
)
def test_other_nodes(decode, content):
    refused(decode, content)


def test_a_config_that_decisions_cannot_use_is_left_out_alone():
    for value in ("abc", "0", "-1", "1.5", "", "1" * 5000):
        data = json.dumps({"config": {"min.insync.replicas": value, "a": "b"}}).encode()
        settings, (problem,) = usable_configs("/config/topics/t", data)
        assert settings == {"a": "b"}
        assert str(problem).startswith("/config/topics/t: min.insync.replicas is ")
    data = b'{"version":1,"config":{"min.insync.replicas":"2"}}'
    assert usable_configs("/c", data) == ({"min.insync.replicas": "2"}, [])
