"""`--zookeeper` of Kafka's commands: brokers are found where they are registered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafka_harness.moldau_node import MoldauNode
from kafka_harness.ports import free_port
from kafka_harness.topics import create_topic
from kafka_harness.zookeeper_node import ZooKeeperNode
from kits.kafka_command_kit import ours
from moldau.cli.zookeeper import connection
from moldau.cluster.model import Endpoint
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, encode_broker


@pytest.fixture
def registry(zookeeper: ZooKeeperNode) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.address)
    client.start()
    yield client
    client.stop()
    client.close()


def test_commands_find_the_brokers_that_are_registered(zookeeper, registry, tmp_path: Path):
    with MoldauNode(tmp_path) as broker:
        create_topic(broker.address, "orders", 2)
        gone = Endpoint("PLAINTEXT", "127.0.0.1", free_port(), 0)
        here = Endpoint("PLAINTEXT", "127.0.0.1", broker.port, 0)
        for broker_id, endpoint in ((1, gone), (2, here)):
            path = f"/kafka/brokers/ids/{broker_id}"
            registry.create(
                path, encode_broker(BrokerNode((endpoint,))), ephemeral=True, makepath=True
            )
        connect = f"{zookeeper.address}/kafka"
        said = ours("kafka-topics", "--zookeeper", connect, "--list")
        assert (said.stdout, said.status) == ("orders\n", 0)
        assert said.stderr == (
            f"--zookeeper {connect}: clients ask brokers now,"
            f" here 127.0.0.1:{gone.port},127.0.0.1:{broker.port}\n"
        )
        words = ("--create", "--topic", "t", "--partitions", "1", "--replication-factor", "1")
        said = ours("kafka-run-class", "kafka.admin.TopicCommand", "--zookeeper", connect, *words)
        assert said.stdout == "Created topic t.\n"


def test_a_zookeeper_without_brokers_is_one_line(zookeeper):
    said = ours("kafka-log-dirs", "--zookeeper", f"{zookeeper.address}/none", "--describe")
    assert (said.stdout, said.status) == ("", 1)
    assert said.stderr == (
        f"--zookeeper: no broker is registered in ZooKeeper at {zookeeper.address}/none."
        " Use --bootstrap-server to name brokers instead.\n"
    )


def test_a_zookeeper_that_does_not_answer_is_one_line(monkeypatch):
    monkeypatch.setitem(connection.connect_to.__kwdefaults__, "connect_timeout_s", 0.2)
    connect = f"127.0.0.1:{free_port()}"
    said = ours("kafka-log-dirs", "--zookeeper", connect, "--describe")
    assert (said.stdout, said.status) == ("", 1)
    assert said.stderr == (
        f"--zookeeper: no answer from ZooKeeper at {connect} within 0.2 s."
        " Use --bootstrap-server to name brokers instead.\n"
    )
