"""A cluster on an ensemble of three ZooKeeper servers, which fail one after the other.

Sessions move to another server. So no broker loses its life, and nobody takes over from anybody.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from kafka_harness.zookeeper_ensemble import ZooKeeperEnsemble
from kafka_harness.zookeeper_node import require_zookeeper
from process.cluster_history import traffic_on
from process.zookeeper_clusters import SHORT_ZOOKEEPER_SESSION, ZooKeeperCluster

pytestmark = pytest.mark.long

TOPIC = "events"
SPREAD = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
SETTINGS = {**SHORT_ZOOKEEPER_SESSION, "zookeeper.session.timeout.ms": "10000"}


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeperEnsemble]:
    require_zookeeper()
    with ZooKeeperEnsemble(tmp_path / "ensemble") as running:
        yield running


def lives(cluster: ZooKeeperCluster) -> dict[int, int]:
    """Return the epoch of each broker."""
    return {one: cluster.tree.get(f"/brokers/ids/{one}")[1].czxid for one in cluster.ids}


def test_servers_of_zookeeper_that_are_killed_cost_no_broker_its_life(tmp_path, ensemble):
    with ZooKeeperCluster(tmp_path, ensemble, "/in/a/chroot", settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, SPREAD)
        before, epoch = lives(cluster), cluster.controller_epoch
        controller = cluster.controller()
        with traffic_on(cluster, TOPIC) as traffic:
            for number, victim in enumerate((None, *ensemble.nodes)):
                traffic.wait_for_more(50)
                killed = victim or ensemble.wait_for_leader()
                killed.kill()
                ensemble.wait_for_leader()
                # The ensemble takes writes again: from tools, and from the controller.
                eventually(lambda: cluster.tree.connected, "the test has its tree again")
                cluster.create_topic(f"without-a-server-{number}", SPREAD)
                traffic.wait_for_more(50)
                killed.start()
                ensemble.wait_until_whole()
            traffic.wait_for_more()
        eventually(lambda: cluster.tree.connected, "the test has its tree again")
        assert lives(cluster) == before
        assert (cluster.controller(), cluster.controller_epoch) == (controller, epoch)
        states = cluster.describe(TOPIC, 0).values()
        assert {one.leader_epoch for one in states} == {0}, "nothing has moved"
        traffic.history.check(cluster)
