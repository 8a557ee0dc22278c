"""Brokers on ZooKeeper among settings, commands and nodes that are wrong.

What is refused is refused with one line or an error code, and everybody else goes on.
"""

from __future__ import annotations

from pathlib import Path

from kafka_harness.ports import free_port
from kafka_harness.waiting import eventually
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.replication import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
    UpdateMetadataRequest,
)
from process.raw_client import RawClient, batch_of
from process.serving import Serving
from process.zookeeper_clusters import ZooKeeperCluster

UPDATE_VERSION, ROLES_VERSION, STOP_VERSION = 8, 7, 4
METADATA_VERSION = 12
OTHER_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"


def write(cluster: ZooKeeperCluster, topic: str) -> None:
    """Write a record with acks=all."""
    with RawClient(cluster.address(cluster.leader(topic))) as client:
        assert client.produce(topic, batch_of([b"value"])).error_code == 0


def last_line_of_refused(connect: str, folder: Path, broker_id: int) -> str:
    """Start one more broker on the tree of a cluster, which must fail; return what it says."""
    settings = {
        "broker.id": broker_id,
        "zookeeper.connect": connect,
        "zookeeper.session.timeout.ms": 3000,
        "initial.broker.registration.timeout.ms": 1000,
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "log.dirs": folder / "data",
    }
    file = folder / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    serving = Serving(folder, "--config", str(file)).launch()
    status, said = serving.wait(), serving.errors
    assert status == 1, said
    assert "Traceback" not in said
    assert " ERROR " not in said
    return said.splitlines()[-1]


def test_a_second_broker_of_an_id_is_refused_and_the_first_lives_on(on_zookeeper, tmp_path):
    cluster: ZooKeeperCluster = on_zookeeper
    cluster.create_topic("twice", [(1, 0)])
    _, before = cluster.tree.get("/brokers/ids/1")
    assert last_line_of_refused(cluster.connect, tmp_path, 1) == (
        "moldau: cannot register broker 1: another broker is registered as /brokers/ids/1"
    )
    _, after = cluster.tree.get("/brokers/ids/1")
    assert after.czxid == before.czxid
    assert cluster.leader("twice") == 1
    write(cluster, "twice")


def test_a_broker_of_another_cluster_is_refused(on_zookeeper, tmp_path):
    cluster: ZooKeeperCluster = on_zookeeper
    data = tmp_path / "data"
    data.mkdir()
    meta = data / "meta.properties"
    meta.write_text(f"version=1\nnode.id=7\ncluster.id={OTHER_CLUSTER}\n")
    line = last_line_of_refused(cluster.connect, tmp_path, 7)
    assert line.startswith("moldau: "), line
    assert f"cluster.id={OTHER_CLUSTER}" in line
    assert cluster.content("/cluster/id")["id"] in line
    assert cluster.registered == {0, 1, 2}


def test_a_broker_without_zookeeper_says_so_and_ends(tmp_path):
    connect = f"127.0.0.1:{free_port()}"
    assert last_line_of_refused(connect, tmp_path, 1) == (
        "moldau: cannot read the metadata in ZooKeeper:"
        f" no session with ZooKeeper at {connect} within 3 s"
    )


def forged(controller_id: int, epoch: int, broker_epoch: int, topic: str) -> list[tuple]:
    """Return commands that would move the leader of a partition to broker 0, and delete it."""
    sender = {
        "controller_id": controller_id, "controller_epoch": epoch, "broker_epoch": broker_epoch,
    }  # fmt: skip
    role = LeaderAndIsrPartitionState(
        partition_index=0, controller_epoch=epoch, leader=0, leader_epoch=99, isr=[0],
        partition_epoch=99, replicas=[0],
    )  # fmt: skip
    stop = StopReplicaPartitionState(0, 99, True)
    return [
        (UpdateMetadataRequest(**sender, version=1 << 60, is_last=True), UPDATE_VERSION),
        (
            LeaderAndIsrRequest(
                **sender,
                topic_states=[LeaderAndIsrTopicState(topic, partition_states=[role])],
            ),
            ROLES_VERSION,
        ),
        (
            StopReplicaRequest(**sender, topic_states=[StopReplicaTopicState(topic, [stop])]),
            STOP_VERSION,
        ),
    ]


def test_commands_of_no_controller_or_for_another_life_are_refused(on_zookeeper):
    cluster: ZooKeeperCluster = on_zookeeper
    controller, epoch = cluster.controller(), cluster.controller_epoch
    led_by = cluster.others(controller)[0]
    cluster.create_topic("forged", [(led_by, controller)])
    write(cluster, "forged")
    before = cluster.describe("forged", led_by)
    cluster.expected_errors.append("a command is refused: it names controller")
    for broker_id in (led_by, controller):
        _, stat = cluster.tree.get(f"/brokers/ids/{broker_id}")
        cases = [
            *((one, ErrorCode.STALE_CONTROLLER_EPOCH) for one in (
                *forged(controller, epoch - 1, stat.czxid, "forged"),
                *forged(led_by, -1, -1, "forged"),
                # No two controllers have the same epoch.
                *forged(99, epoch, stat.czxid, "forged"),
                # Nobody was elected with these, also where another life is meant.
                *forged(controller, epoch + 1, stat.czxid, "forged"),
                *forged(99, 2**31 - 1, -1, "forged"),
                *forged(99, 2**31 - 1, stat.czxid - 1, "forged"),
            )),
            *((one, ErrorCode.STALE_BROKER_EPOCH) for one in (
                *forged(controller, epoch, stat.czxid - 1, "forged"),
                *forged(controller, epoch, stat.czxid + 1, "forged"),
            )),
        ]  # fmt: skip
        with RawClient(cluster.address(broker_id)) as client:
            for (request, version), wanted in cases:
                answer = client.call(request, version)
                assert ErrorCode(answer.error_code) is wanted, (broker_id, request)
            known = client.call(MetadataRequest([]), METADATA_VERSION)
            assert known.controller_id == controller
            assert {one.node_id for one in known.brokers} == {0, 1, 2}
    assert (cluster.controller(), cluster.controller_epoch) == (controller, epoch)
    assert cluster.describe("forged", led_by) == before
    write(cluster, "forged")


def test_a_malformed_node_leaves_out_its_topic_alone(on_zookeeper):
    cluster: ZooKeeperCluster = on_zookeeper
    cluster.create_topic("sound", [(1, 0)])
    broken = "/brokers/topics/broken"
    cluster.expected_errors.append(broken)
    controller = cluster.controller()
    cluster.tree.create(broken, b'{"version":2,"partitions":{"0":[1,')

    def complaints(broker_id: int) -> list[str]:
        return [line for line in cluster.output(broker_id).splitlines() if broken in line]

    eventually(lambda: complaints(controller), "the controller complains")
    cluster.create_topic("later", [(2, 1)])
    write(cluster, "sound")
    write(cluster, "later")
    (line,) = complaints(controller)
    assert " ERROR a node of ZooKeeper is left out: " in line
    for broker_id in cluster.ids:
        assert cluster.describe("broken", broker_id) == {}

    # The next controller finds it when it reads the whole tree.
    epoch = cluster.controller_epoch
    cluster.stop(controller)
    second = cluster.wait_for_controller(after=epoch)
    eventually(lambda: complaints(second), "the next controller complains")
    cluster.start(controller)
    cluster.wait_in_sync("sound")
    write(cluster, "sound")
    assert len(complaints(second)) == 1

    # Who repairs the node has a topic.
    cluster.tree.set(broken, b'{"version":1,"partitions":{"0":[1,0]}}')
    cluster.wait_in_sync("broken")
    write(cluster, "broken")


def test_a_malformed_node_of_the_controller_stops_nobody(on_zookeeper):
    """Somebody writes into /controller; the next election finds who is."""
    cluster: ZooKeeperCluster = on_zookeeper
    cluster.expected_errors.append("/controller")
    cluster.create_topic("controlled", [(1, 0, 2)])
    epoch = cluster.controller_epoch
    controller = cluster.controller()
    cluster.tree.set("/controller", b"nonsense")
    write(cluster, "controlled")
    cluster.create_topic("after-nonsense", [(0, 1)])
    cluster.kill(controller)
    cluster.wait_for_controller(after=epoch)
    cluster.start(controller)
    cluster.wait_in_sync("controlled")
    write(cluster, "controlled")
