"""A leader is paused, so that no connection is reset: how long writers wait for the next one.

Their requests time out after a second. With the default of half a minute, a client would still
wait for the paused broker long after the cluster has another leader.
"""

from __future__ import annotations

import os
import signal

from tests.kafka_harness.cluster import BrokerCluster

from bench.outage import longest_waits, no_controller, wait_for_new_leader
from bench.stage import Stage

REQUEST_TIMEOUT_MS = 1_000


def run(stage: Stage) -> dict[str, float]:
    return longest_waits(stage, no_controller, _pause, REQUEST_TIMEOUT_MS)


def _pause(cluster: BrokerCluster, leader: int) -> None:
    os.kill(cluster.nodes[leader].pid, signal.SIGSTOP)
    wait_for_new_leader(cluster, leader)
