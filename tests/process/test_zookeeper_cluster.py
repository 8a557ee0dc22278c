"""Three brokers on ZooKeeper, and what anybody sees of them in its tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.zookeeper_node import ZooKeeperNode
from kits.kafka_command_kit import ours
from process.zookeeper_clusters import SHORT_ZOOKEEPER_SESSION, ZooKeeperCluster

ALL = {0, 1, 2}
EPOCH = 12


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeperNode) -> Iterator[ZooKeeperCluster]:
    """Return brokers whose first controller is the twelfth of their cluster."""
    settings = {**SHORT_ZOOKEEPER_SESSION, "min.insync.replicas": "1"}
    made = ZooKeeperCluster(tmp_path, zookeeper, "/twelfth", settings=settings)
    made.tree.create("/controller_epoch", str(EPOCH - 1).encode())
    with made as running:
        yield running


def shown(cluster: ZooKeeperCluster, command: str, path: str) -> str:
    """Return what the shell shows of a node."""
    said = ours("zookeeper-shell", cluster.connect, command, path)
    assert said.status == 0, said
    return said.stdout.splitlines()[-1]


def kafka_topics(cluster: ZooKeeperCluster, *words: object) -> str:
    said = ours("kafka-topics", "--zookeeper", cluster.connect, *words)
    assert said.status == 0, said
    return said.stdout


def state(partition: int) -> str:
    return f"/brokers/topics/secondTopic/partitions/{partition}/state"


def test_the_tree_shows_the_states_of_partitions_the_controller_and_who_lives(cluster):
    assert shown(cluster, "ls", "/brokers/ids") == "[0, 1, 2]"
    made = ("--topic", "secondTopic", "--partitions", 3, "--replication-factor", 2)
    kafka_topics(cluster, "--create", *made)
    assert shown(cluster, "get", state(0)) == (
        '{"controller_epoch":12,"leader":0,"version":1,"leader_epoch":0,"isr":[0,1]}'
    )
    assert shown(cluster, "get", state(1)) == (
        '{"controller_epoch":12,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'
    )
    assert shown(cluster, "get", state(2)) == (
        '{"controller_epoch":12,"leader":2,"version":1,"leader_epoch":0,"isr":[2,0]}'
    )

    first = cluster.controller()
    assert_names_controller(shown(cluster, "get", "/controller"), first)
    assert shown(cluster, "get", "/controller_epoch") == "12"
    cluster.kill(first)
    second = cluster.wait_for_controller(after=EPOCH)
    assert second != first
    assert_names_controller(shown(cluster, "get", "/controller"), second)
    assert shown(cluster, "get", "/controller_epoch") == "13"
    left = cluster.others(first)
    cluster.wait_for_brokers(left)  # the new controller takes the node of the dead one away
    assert shown(cluster, "ls", "/brokers/ids") == f"[{left[0]}, {left[1]}]"
    # The partition that the first one led has the next leader of its replicas, and a new epoch.
    follower = (first + 1) % 3
    cluster.wait_for_node(
        state(first),
        b'{"controller_epoch":13,"leader":%d,"version":1,"leader_epoch":1,"isr":[%d]}'
        % (follower, follower),
    )

    cluster.start(first)
    assert shown(cluster, "ls", "/brokers/ids") == "[0, 1, 2]"
    assert cluster.controller() == second
    cluster.wait_in_sync("secondTopic")

    stopped = next(one for one in left if one != second)
    cluster.stop(stopped)
    assert shown(cluster, "ls", "/brokers/ids") == str(sorted(ALL - {stopped}))
    assert shown(cluster, "get", "/controller_epoch") == "13"
    for partition in range(3):
        assert cluster.content(state(partition))["leader"] != stopped

    # The last one has nobody to leave its leaders to, and does not wait for anybody.
    for broker_id in cluster.others(stopped):
        cluster.stop(broker_id)
        assert "stops before the controller knows" not in cluster.output(broker_id)
    assert shown(cluster, "ls", "/brokers/ids") == "[]"
    assert cluster.node("/controller") is None


def assert_names_controller(line: str, broker_id: int) -> None:
    """Compare a line with what Kafka 3.9 writes; its time is free."""
    line = re.sub(r'"timestamp":"1[0-9]{12}"', '"timestamp":"N"', line)
    assert line == (
        f'{{"version":2,"brokerid":{broker_id},"timestamp":"N","kraftControllerEpoch":-1}}'
    )
