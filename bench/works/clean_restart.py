"""A leader is stopped in good order and started again: the longest wait of writers meanwhile."""

from __future__ import annotations

from tests.kafka_harness.cluster import BrokerCluster

from bench.outage import longest_waits, no_controller, wait_until_in_sync
from bench.stage import Stage


def run(stage: Stage) -> dict[str, float]:
    return longest_waits(stage, no_controller, _restart)


def _restart(cluster: BrokerCluster, leader: int) -> None:
    cluster.nodes[leader].restart()
    wait_until_in_sync(cluster)
