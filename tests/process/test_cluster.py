"""Three brokers, one voter, and what happens to records when brokers fail.

Every test writes with Moldau's producer and with librdkafka, both with idempotence and acks=all,
reads along, and holds the whole history to its promises at the end: see `cluster_history`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from process.cluster_history import traffic_on
from process.clusters import VOTER, Cluster

SPREAD = [(2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 1, 3)]
"""Every broker leads, and broker 2 leads two."""
OTHERS = {1, 3}


@pytest.fixture
def cluster(tmp_path: Path):
    with Cluster(tmp_path) as running:
        yield running


def test_a_leader_that_is_killed_takes_nothing_with_it(cluster):
    cluster.create_topic("events", SPREAD)
    with traffic_on(cluster, "events") as traffic:
        traffic.wait_for_more()
        cluster.kill(2)
        cluster.wait_for_leaders("events", OTHERS)
        traffic.wait_for_more()
        cluster.start(2)
        cluster.wait_in_sync("events")
        traffic.wait_for_more()
    traffic.history.check(cluster)


def test_a_leader_that_was_paused_is_fenced_and_follows(cluster):
    cluster.create_topic("events", SPREAD)
    with traffic_on(cluster, "events") as traffic:
        traffic.wait_for_more()
        cluster.pause(2)
        cluster.wait_for_leaders("events", OTHERS)
        traffic.wait_for_more()
        cluster.resume(2)
        cluster.wait_in_sync("events")
        traffic.wait_for_more()
    traffic.history.check(cluster)


def test_a_leader_that_stops_in_order_moves_its_leaderships_first(cluster):
    cluster.create_topic("events", SPREAD)
    with traffic_on(cluster, "events") as traffic:
        traffic.wait_for_more()
        cluster.stop(2)
        # No session has to end before others lead: it has told the controller.
        assert {one.leader for one in cluster.describe("events", VOTER).values()} <= OTHERS
        traffic.wait_for_more()
        cluster.start(2)
        cluster.wait_in_sync("events")
    traffic.history.check(cluster)
