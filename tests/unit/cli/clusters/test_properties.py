"""The settings of each broker: what a broker reads out of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.base.errors import UserError
from moldau.base.properties import parse_properties
from moldau.cli.clusters.layout import ClusterFolder, ClusterShape, ZooKeeperChoice
from moldau.cli.clusters.properties import (
    FIXED,
    environment,
    properties_text,
    refuse_comma,
    refuse_fixed_keys,
    zookeeper_properties_text,
)
from moldau.cli.zookeeper.server_properties import read_server_properties
from moldau.server.configuration.quorum import NodeKind
from moldau.server.configuration.settings import BrokerSettings


def cluster(
    count: int, zookeeper: ZooKeeperChoice | None = None, controllers: int = 1
) -> ClusterFolder:
    return ClusterFolder(Path("/c d"), ClusterShape("id", 9092, count, zookeeper, controllers))


def settings(count, number, overrides=(), controllers=1):
    whole = cluster(count, controllers=controllers)
    return parse_properties(properties_text(whole, whole.node(number), dict(overrides)))


def test_the_first_broker_is_the_controller_and_the_others_are_brokers():
    first, second = settings(3, 1), settings(3, 2)
    assert first["process.roles"] == "broker,controller"
    assert first["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9102"
    assert second["process.roles"] == "broker"
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    for number, told in ((1, first), (2, second)):
        assert told["node.id"] == str(number)
        assert told["controller.quorum.voters"] == "1@127.0.0.1:9102"
        assert told["controller.listener.names"] == "CONTROLLER"
        assert told["log.dirs"] == f"/c d/broker-{number}/data"


def test_every_node_names_all_controllers():
    by_number = {number: settings(5, number, controllers=3) for number in range(1, 6)}
    for number, told in by_number.items():
        assert told["controller.quorum.voters"] == (
            "1@127.0.0.1:9102,2@127.0.0.1:9103,3@127.0.0.1:9104"
        )
        assert told["process.roles"] == ("broker,controller" if number <= 3 else "broker")
    assert by_number[3]["listeners"] == "PLAINTEXT://127.0.0.1:9094,CONTROLLER://127.0.0.1:9104"
    assert by_number[4]["listeners"] == "PLAINTEXT://127.0.0.1:9095"


def test_controllers_that_are_no_brokers_have_the_listener_of_controllers_alone():
    shape = ClusterShape("id", 9092, 2, None, 3, has_controllers_apart=True)
    whole = ClusterFolder(Path("/c d"), shape)
    for node in whole.nodes:
        text = properties_text(whole, node, {})
        read = BrokerSettings.load(text, {}, {}, strict=True, host_name=lambda: "h")
        kind = NodeKind.OBSERVER if node.is_broker else NodeKind.MEMBER
        assert (read.quorum.kind, read.quorum.is_broker) == (kind, node.is_broker)
        assert [one.node_id for one in read.quorum.voters] == [11, 12, 13]
        assert read.listeners.names == {"PLAINTEXT" if node.is_broker else "CONTROLLER"}
        assert read.listeners.inter_broker == "PLAINTEXT"


def test_controllers_are_members_of_their_quorum_and_the_others_observe_it():
    whole = cluster(4, controllers=3)
    kinds = []
    for broker in whole.brokers:
        text = properties_text(whole, broker, {})
        read = BrokerSettings.load(text, {}, {}, strict=True, host_name=lambda: "h")
        assert [str(one) for one in read.quorum.controllers] == [
            "127.0.0.1:9102", "127.0.0.1:9103", "127.0.0.1:9104",
        ]  # fmt: skip
        kinds.append(read.quorum.kind)
    assert kinds == [NodeKind.MEMBER] * 3 + [NodeKind.OBSERVER]


@pytest.mark.parametrize(("count", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 2), (5, 3, 2)])
def test_replicas_are_as_many_as_there_are_brokers_for_but_not_more_than_three(
    count, replicas, min_isr
):
    told = settings(count, 1)
    assert told["transaction.state.log.min.isr"] == str(min_isr)
    for key in (
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    ):
        assert told[key] == str(replicas)


def test_a_broker_reads_them():
    for number in (1, 2):
        whole = cluster(2)
        text = properties_text(whole, whole.node(number), {"num.partitions": "6"})
        read = BrokerSettings.load(text, {}, {}, strict=True, host_name=lambda: "h")
        assert read.node_id == number
        assert read.log_dirs == (f"/c d/broker-{number}/data",)
        assert [(one.name, one.port) for one in read.endpoints] == [("PLAINTEXT", 9091 + number)]


@pytest.mark.parametrize(
    ("choice", "servers", "chroot"),
    [
        (ZooKeeperChoice(), (("127.0.0.1", 9112),), ""),
        (ZooKeeperChoice("z1:2181,z2:2182/kafka"), (("z1", 2181), ("z2", 2182)), "/kafka"),
    ],
)
def test_brokers_on_zookeeper_have_no_voter(choice, servers, chroot):
    whole = cluster(3, choice)
    for broker in whole.brokers:
        text = properties_text(whole, broker, {"zookeeper.session.timeout.ms": "6000"})
        read = BrokerSettings.load(text, {}, {}, strict=True, host_name=lambda: "h")
        assert (read.node_id, read.quorum.kind) == (broker.node_id, NodeKind.ELECTED)
        assert (read.quorum.zookeeper.servers, read.quorum.zookeeper.chroot) == (servers, chroot)
        assert [(one.name, one.port) for one in read.endpoints] == [("PLAINTEXT", broker.port)]
        assert read.values.integer("zookeeper.session.timeout.ms") == 6000
        assert "controller" not in text


def test_sessions_with_zookeeper_are_as_long_as_those_of_kafka():
    whole = cluster(3, ZooKeeperChoice())
    read = BrokerSettings.load(properties_text(whole, whole.node(1), {}), {}, {})
    assert read.values.integer("zookeeper.session.timeout.ms") == 18_000


def test_zookeeper_grants_short_sessions_and_those_of_kafka(tmp_path):
    zookeeper = cluster(3, ZooKeeperChoice()).zookeeper
    file = tmp_path / "zookeeper.properties"
    file.write_text(zookeeper_properties_text(zookeeper))
    read = read_server_properties(file, {})
    assert (read.data, read.address) == (zookeeper.data, ("127.0.0.1", 9112))
    told = parse_properties(file.read_text())
    assert int(told["minSessionTimeout"]) <= 6_000
    assert int(told["maxSessionTimeout"]) >= 18_000


def test_a_key_can_be_set_for_all_brokers():
    assert settings(3, 2, {"default.replication.factor": "1"})["default.replication.factor"] == "1"


@pytest.mark.parametrize("key", sorted(FIXED))
def test_keys_that_make_the_cluster_cannot_be_set(key):
    with pytest.raises(UserError, match=rf"--override {re.escape(key)}: "):
        refuse_fixed_keys({"num.partitions": "6", key: "x"})


def test_variables_that_stand_for_such_keys_do_not_reach_brokers():
    inherited = {"KAFKA_LISTENERS": "x", "KAFKA_LOG_DIRS": "x", "KAFKA_NUM_PARTITIONS": "6"}
    assert environment({**inherited, "PATH": "p"}) == {"KAFKA_NUM_PARTITIONS": "6", "PATH": "p"}


def test_a_comma_in_the_path_is_refused():
    refuse_comma(Path("a b"))
    with pytest.raises(UserError, match="comma"):
        refuse_comma(Path("a,b"))
