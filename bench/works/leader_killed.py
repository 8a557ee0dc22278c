"""A leader that is not the controller is killed: how long writers wait for the next one."""

from __future__ import annotations

from tests.kafka_harness.cluster import BrokerCluster

from bench.outage import longest_waits, no_controller, wait_for_new_leader
from bench.stage import Stage


def run(stage: Stage) -> dict[str, float]:
    return longest_waits(stage, no_controller, kill)


def kill(cluster: BrokerCluster, leader: int) -> None:
    """Kill the leader, and wait for another."""
    cluster.nodes[leader].kill()
    wait_for_new_leader(cluster, leader)
