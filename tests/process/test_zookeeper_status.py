"""`moldau cluster status` of a cluster on ZooKeeper, asked at a broker's address alone."""

from __future__ import annotations

from kafka_harness.ports import free_port
from kits.cli_kit import moldau
from process.zookeeper_clusters import ZooKeeperCluster


def status(cluster: ZooKeeperCluster, *options: object):
    return moldau("cluster", "status", "-b", cluster.bootstrap, *options)


def test_a_broker_tells_which_zookeeper_knows_the_controller(on_zookeeper):
    cluster: ZooKeeperCluster = on_zookeeper
    for options in ((), ("--zookeeper-connect", cluster.connect)):
        ran = status(cluster, *options, "-o", "json")
        assert (ran.status, ran.err) == (0, "")
        found = ran.data
        assert found["zookeeper"] == cluster.connect
        assert found["controller"] == cluster.controller()
        assert found["controller_epoch"] == cluster.controller_epoch
    shown = status(cluster)
    assert shown.out.splitlines()[-2].split() == ["ZOOKEEPER", "CONTROLLER", "EPOCH"]
    assert shown.out.splitlines()[-1].split() == [cluster.connect, str(cluster.controller_epoch)]


def test_a_zookeeper_that_does_not_know_the_cluster_is_not_believed(on_zookeeper):
    cluster: ZooKeeperCluster = on_zookeeper
    server = cluster.connect.partition("/")[0]
    silent = f"127.0.0.1:{free_port()}"
    for connect, note in (
        (f"{server}/elsewhere", f"ZooKeeper at {server}/elsewhere belongs to another cluster"),
        (silent, f"no controller found in ZooKeeper at {silent}"),
    ):
        ran = status(cluster, "--zookeeper-connect", connect, "-o", "json")
        assert ran.status == 0
        assert ran.err == f"moldau: {note}\n"
        assert ran.data["controller_epoch"] is None
        assert ran.data["controller"] == cluster.controller()


def test_a_folder_knows_its_own_zookeeper(tmp_path):
    ran = moldau("cluster", "status", "--data", tmp_path, "--zookeeper-connect", "h:2181")
    assert ran.status == 2
    assert "--data has its own ZooKeeper" in ran.err
