"""A broker on ZooKeeper takes over the folder of Kafka 3.9, and Kafka can take it back."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from kafka_harness.distribution import ZOOKEEPER_ERA
from kafka_harness.kafka_node import KafkaNode
from kafka_harness.moldau_node import MoldauNode
from kafka_harness.topics import create_topic, led_partitions, read_all, send
from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from moldau.storage.checkpoints import read_meta_properties
from moldau.storage.disk import Disk

pytestmark = pytest.mark.java(ZOOKEEPER_ERA)


class KafkaOnZooKeeper(KafkaNode):
    """Kafka 3.9 as it was run before KRaft."""

    kind = "kafka-3.9-zookeeper"
    release = ZOOKEEPER_ERA
    machine = ("-Xmx512m",)

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.write_properties(self._configs())

    def _configs(self) -> dict[str, str]:
        return {
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            **self.settings,
        }


def remove_features(connect):
    """Remove /feature: ours names features of Kafka 4, and Kafka 3.9 refuses to start with them."""
    client = KazooClient(connect)
    client.start()
    client.delete("/feature")
    client.stop()
    client.close()


def test_a_folder_goes_from_kafka_to_moldau_and_back(tmp_path):
    require_zookeeper()
    with ZooKeeperNode(tmp_path / "zookeeper") as zookeeper:
        settings = {"broker.id": "3", "zookeeper.connect": f"{zookeeper.address}/kafka"}
        with KafkaOnZooKeeper(tmp_path / "broker", settings) as kafka:
            create_topic(kafka.address, "t")
            send(kafka.address, "t", [b"of Kafka"])
            kafka.stop()
        before = read_meta_properties(Disk(), str(kafka.data))
        assert (before.version, before.node_id) == (0, 3)
        with MoldauNode(tmp_path / "broker", settings) as moldau:
            assert read_all(moldau.address, "t") == [b"of Kafka"]
            send(moldau.address, "t", [b"of Moldau"])
            moldau.stop()
        after = read_meta_properties(Disk(), str(kafka.data))
        assert (after.version, after.cluster_id, after.node_id) == (0, before.cluster_id, 3)
        remove_features(settings["zookeeper.connect"])
        with KafkaOnZooKeeper(tmp_path / "broker", settings) as kafka:
            admin = AdminClient({"bootstrap.servers": kafka.address})
            eventually(lambda: led_partitions(admin, "t"), "the partition has a leader")
            assert read_all(kafka.address, "t") == [b"of Kafka", b"of Moldau"]
