"""Partitions that move to other brokers while clients write to them.

In each round all partitions leave a broker that leads some of them. Clients of the round begin
before the move and have everything acknowledged after it.
"""

from __future__ import annotations

import os

import pytest

from kafka_harness.waiting import eventually
from process.cluster_history import History, LibrdkafkaWriter, traffic_on
from process.clusters import Cluster

ROUNDS = int(os.environ.get("MOLDAU_CLUSTER_MOVES", "20"))


def assignments(away: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return replicas of four partitions that a broker has its part in, and some without it."""
    one, other = (broker_id for broker_id in (1, 2, 3) if broker_id != away)
    before = [(away, one), (away, other), (one, away), (other, one)]
    return before, [(one, other), (other, one), (one, other), (other, one)]


@pytest.mark.long
@pytest.mark.timeout(120 + ROUNDS * 60)
def test_moves_lose_and_repeat_nothing(cluster):
    """MOLDAU_CLUSTER_MOVES sets how many rounds."""
    for number in range(ROUNDS):
        topic = f"moved-{number}"
        before, after = assignments(away=1 + number % 3)
        cluster.create_topic(topic, before)
        with traffic_on(cluster, topic) as traffic:
            traffic.wait_for_more(50)
            cluster.reassign(topic, after)
            traffic.wait_for_more(50)
        traffic.history.check(cluster)


@pytest.mark.long
@pytest.mark.timeout(120 + ROUNDS * 60)
def test_a_producer_without_idempotence_comes_to_its_end_too(cluster: Cluster):
    """Its flush waits for every record; one that waits at a broker without it would not end."""
    for number in range(ROUNDS):
        topic = f"moved-{number}"
        before, after = assignments(away=1 + number % 3)
        cluster.create_topic(topic, before)
        history = History(topic)
        writer = LibrdkafkaWriter(
            cluster.bootstrap, history, len(before), enable_idempotence=False, acks="all"
        )
        writer.begin()
        try:
            eventually(lambda at=history: at.count > 50, "the first records")
            cluster.reassign(topic, after)
        finally:
            writer.finish()
        assert not history.failures, history.failures[:5]
        assert not history.lost(cluster)
