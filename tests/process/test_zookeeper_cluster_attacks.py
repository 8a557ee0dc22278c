"""Somebody writes into the tree of a cluster by hand, while clients write and read.

Whatever is written there, nothing acknowledged is lost, brokers say what is wrong in one line, and
the cluster becomes whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.exceptions import NoNodeError

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode
from process.cluster_history import traffic_on
from process.serving import Serving
from process.zookeeper_clusters import ZooKeeperCluster

pytestmark = pytest.mark.long

TOPIC = "events"
SPREAD = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2)]
ROUNDS = 20


@pytest.fixture
def cluster(tmp_path: Path, zookeeper: ZooKeeperNode) -> Iterator[ZooKeeperCluster]:
    with ZooKeeperCluster(tmp_path, zookeeper, f"/{tmp_path.name}") as running:
        running.create_topic(TOPIC, SPREAD)
        yield running


def state_path(partition: int, topic: str = TOPIC) -> str:
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def elect_anew(cluster: ZooKeeperCluster) -> None:
    """Let a controller read the whole tree."""
    epoch = cluster.controller_epoch
    cluster.tree.delete("/controller")
    cluster.wait_for_controller(after=epoch)


def test_controllers_that_are_deposed_by_hand_again_and_again(cluster):
    cluster.expected_errors.append("/controller")
    with traffic_on(cluster, TOPIC) as traffic:
        for number in range(ROUNDS):
            traffic.wait_for_more(30)
            epoch = cluster.controller_epoch
            if number % 4 == 3:
                cluster.tree.set("/controller", b'{"version":1,"brokerid":99,"timestamp":"1"}')
            cluster.tree.delete("/controller")
            cluster.wait_for_controller(after=epoch)
        cluster.create_topic("later", SPREAD)
        cluster.wait_in_sync(TOPIC)
        traffic.wait_for_more()
    traffic.history.check(cluster)


def test_brokers_that_lose_their_nodes_by_hand_register_again(cluster):
    with traffic_on(cluster, TOPIC) as traffic:
        for number in range(ROUNDS):
            traffic.wait_for_more(30)
            with suppress(NoNodeError):
                cluster.tree.delete(f"/brokers/ids/{number % 3}")
        cluster.wait_for_brokers(cluster.ids)
        cluster.wait_in_sync(TOPIC)
        traffic.wait_for_more()
    traffic.history.check(cluster)


STATES = [
    b"nonsense",
    b"",
    b"{}",
    b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}',
    b'{"controller_epoch":1,"leader":99,"version":1,"leader_epoch":5,"isr":[99,98]}',
    b'{"controller_epoch":99,"leader":2,"version":1,"leader_epoch":1000000,"isr":[2,2,2]}',
    b'{"controller_epoch":-5,"leader":-1,"version":1,"leader_epoch":-7,"isr":[]}',
    b'{"controller_epoch":1,"leader":"0","version":1,"leader_epoch":null,"isr":{}}',
]


def test_states_of_partitions_that_are_written_by_hand_do_no_harm(cluster):
    cluster.expected_errors += ["a node of ZooKeeper is written again"]
    with traffic_on(cluster, TOPIC) as traffic:
        for number, state in enumerate([*STATES, None]):
            partition = number % len(SPREAD)
            traffic.wait_for_more(50)
            if state is None:
                cluster.tree.delete(f"/brokers/topics/{TOPIC}/partitions/{partition}/state")
            else:
                cluster.tree.set(state_path(partition), state)
            elect_anew(cluster)
            traffic.wait_for_more(20, partition)
        cluster.kill(0)
        cluster.wait_for_leaders(TOPIC, {1, 2})
        cluster.start(0)
        cluster.wait_in_sync(TOPIC)
    traffic.history.check(cluster)


def test_nodes_of_topics_that_are_written_by_hand_do_no_harm(cluster):
    path = f"/brokers/topics/{TOPIC}"
    cluster.expected_errors += ["a node of ZooKeeper is"]
    fewer = cluster.content(path)
    del fewer["partitions"]["3"]
    with traffic_on(cluster, TOPIC) as traffic:
        for content in (b"nonsense", b"", json.dumps(fewer).encode()):
            traffic.wait_for_more(50)
            cluster.tree.set(path, content)
            elect_anew(cluster)
            for partition in range(len(SPREAD)):
                traffic.wait_for_more(20, partition)
            cluster.wait_in_sync(TOPIC)
    traffic.history.check(cluster)


def test_a_topic_that_no_broker_can_read_at_its_start_is_kept_until_its_node_is_repaired(cluster):
    cluster.expected_errors += ["a node of ZooKeeper is left out"]
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
    cluster.wait_in_sync(TOPIC)
    cluster.stop(*cluster.ids)
    sound = cluster.node(state_path(1))
    cluster.tree.set(state_path(1), b"nonsense")
    cluster.start()
    cluster.create_topic("later", SPREAD)
    assert cluster.describe(TOPIC, 0) == {}
    for broker_id in cluster.ids:
        assert cluster.output(broker_id).count(f"{TOPIC}-1 is kept, and not served") == 1
    cluster.tree.set(state_path(1), sound)
    elect_anew(cluster)
    cluster.wait_in_sync(TOPIC)
    traffic.history.check(cluster)


def test_all_topics_are_deleted_under_load_and_made_again(cluster):
    """A deletion is one: what was acknowledged goes with its topic, and nothing else does."""
    names = [f"deleted-{number}" for number in range(20)]
    for name in names:
        cluster.create_topic(name, [(0, 1), (1, 2), (2, 0)], in_sync=False)
    for name in names:
        cluster.wait_in_sync(name)
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more(50)
        for name in (*names, "never-there", "not a name"):
            cluster.tree.create(f"/admin/delete_topics/{name}")
        eventually(lambda: not cluster.tree.get_children("/admin/delete_topics"), "all are gone")
        left = {"__consumer_offsets", TOPIC}
        eventually(lambda: set(cluster.tree.get_children("/brokers/topics")) <= left, "as topics")
        for name in names:
            cluster.create_topic(name, [(2, 1)])
        traffic.wait_for_more(50)
    traffic.history.check(cluster)


MANY = 18_000


def test_an_enormous_reassignment_is_carried_out_or_refused_while_others_are_served(cluster):
    """Most of it names partitions that there are not; the node is as large as ZooKeeper takes."""
    wanted = [{"topic": TOPIC, "partition": 0, "replicas": [2, 1]}] + [
        {"topic": "nowhere", "partition": number, "replicas": [0, 1]} for number in range(MANY)
    ]
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more(50)
        data = json.dumps({"version": 1, "partitions": wanted}, separators=(",", ":")).encode()
        assert 800_000 < len(data) < 1_040_000
        cluster.tree.create("/admin/reassign_partitions", data)
        cluster.wait_for_node("/admin/reassign_partitions", None)
        eventually(lambda: set(cluster.describe(TOPIC, 1)[0].replicas) == {1, 2}, "it has moved")
        traffic.wait_for_more(50)
        cluster.tree.create("/admin/reassign_partitions", b'{"version":1,"partitions":[{"top')
        traffic.wait_for_more(50)
        cluster.tree.delete("/admin/reassign_partitions")
    cluster.expected_errors.append("/admin/reassign_partitions")
    traffic.history.check(cluster)
    said = [len(line) for b in cluster.ids for line in cluster.output(b).splitlines()]
    assert len(said) < 500, "one clear line"
    assert max(said) < 2000, "one clear line"


def twin(folder: Path, connect: str) -> Serving:
    """Prepare a broker with the id of another one, and a port and a folder of its own."""
    folder.mkdir()
    settings = {
        "broker.id": 7,
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": 3000,
        "initial.broker.registration.timeout.ms": 3000,
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "log.dirs": folder / "data",
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return Serving(folder, "--config", str(file))


def test_of_brokers_with_one_id_that_start_at_once_one_is_left(tmp_path, zookeeper):
    connect = f"{zookeeper.address}/{tmp_path.name}"
    twins = [twin(tmp_path / str(number), connect) for number in range(4)]
    try:
        for one in twins:
            one.launch()
        ready = [one.read_line().startswith("ready ") for one in twins]
        assert sum(ready) == 1, [one.errors for one in twins]
        for one, is_ready in zip(twins, ready, strict=True):
            if not is_ready:
                assert one.wait() == 1
                assert one.errors.splitlines()[-1] == (
                    "moldau: cannot register broker 7: another broker is registered as"
                    " /brokers/ids/7"
                )
    finally:
        for one in twins:
            one.kill()
