"""Three voters of which one is killed and one is stopped, while clients write and read.

The test writes with Moldau's producer and with librdkafka, both with idempotence and acks=all,
reads along, and holds the whole history to its promises at the end: see `cluster_history`.
"""

from __future__ import annotations

from pathlib import Path

from kits.quorum_cluster import QuorumCluster
from process.cluster_history import traffic_on

TOPIC = "events"
SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
"""Every node leads, whichever is the controller."""


def test_a_controller_that_is_killed_or_stops_takes_nothing_with_it(tmp_path: Path) -> None:
    with QuorumCluster(tmp_path) as cluster:
        cluster.create_topic(TOPIC, SPREAD)
        with traffic_on(cluster, TOPIC) as traffic:
            traffic.wait_for_more()
            killed = cluster.active()
            cluster.kill(killed.leader)
            stopped = cluster.wait_for_controller(after=killed.epoch)
            cluster.wait_for_leaders(TOPIC, cluster.others(killed.leader))
            traffic.wait_for_more()
            cluster.start(killed.leader)
            cluster.wait_in_sync(TOPIC)

            cluster.stop(stopped.leader)
            third = cluster.wait_for_controller(after=stopped.epoch)
            assert third.leader != stopped.leader
            cluster.wait_for_leaders(TOPIC, cluster.others(stopped.leader))
            traffic.wait_for_more()
            cluster.create_topic("later", [cluster.others(stopped.leader)], via=third.leader)
            cluster.start(stopped.leader)
            cluster.wait_in_sync(TOPIC)
            traffic.wait_for_more()
            assert cluster.active() == third
        traffic.history.check(cluster)
        assert "recovered" not in cluster.output(stopped.leader)
        for node_id in cluster.ids:
            assert cluster.describe("later", node_id)[0].replicas == tuple(
                cluster.others(stopped.leader)
            )
