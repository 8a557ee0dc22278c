"""What a broker answers new producers, and says in its log, while ZooKeeper is away."""

from __future__ import annotations

from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.transactions import InitProducerIdRequest
from process.raw_client import RawClient
from process.zookeeper_clusters import ZooKeeperCluster

LOST = "the connection to ZooKeeper is lost"
NO_IDS = "there are no producer ids, new producers have to wait"
AGAIN = "there are producer ids again"


def ask_for_id(client: RawClient) -> ErrorCode:
    return ErrorCode.of(client.call(InitProducerIdRequest(None, 1000), 4).error_code)


def test_new_producers_are_told_to_try_again_and_the_log_says_why_once(tmp_path):
    require_zookeeper()
    with (
        ZooKeeperNode(tmp_path / "zookeeper") as zookeeper,
        ZooKeeperCluster(tmp_path, zookeeper, "/away", size=1) as cluster,
        RawClient(cluster.address(0)) as client,
    ):
        zookeeper.kill()
        eventually(lambda: LOST in cluster.output(0), "the broker has noticed")
        for _ in range(3):
            assert ask_for_id(client) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        zookeeper.start()
        eventually(lambda: ask_for_id(client) is ErrorCode.NONE, "there are ids again")
        eventually(lambda: cluster.tree.connected, "the test has its tree again")
        output = cluster.output(0)
        assert [output.count(line) for line in (LOST, NO_IDS, AGAIN)] == [1, 1, 1]
        assert "Connection dropped" not in output  # a line of kazoo's for each try
