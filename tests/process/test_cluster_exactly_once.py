"""Exactly once on three brokers whose network is cut and which are killed, one after the other.

Copiers of librdkafka and of Kafka's own client are members of one group. They read numbered records
and write them on in transactions, with their offsets. Group coordinator, transaction coordinators
and partitions are on all three brokers. Whoever reads the output as it is committed must at all
times see the input from its beginning, each record once and in order; in the end all of it.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.waiting import eventually
from process.clusters import SHORT_SESSION, Cluster
from process.copier import INPUT, OUTPUT, SESSION_MS, Feeder, Instances, Reader
from process.java_copier import JavaCopier
from process.links import Links
from process.zookeeper_clusters import SHORT_ZOOKEEPER_SESSION, ZooKeeperCluster

pytestmark = [pytest.mark.java(CURRENT), pytest.mark.long]

ROUNDS = int(os.environ.get("MOLDAU_CLUSTER_ROUNDS", "6"))
SEED = int(os.environ.get("MOLDAU_CLUSTER_SEED", "1"))
PARTITIONS, COPIERS = 4, 2
PAUSE_S = 0.02
CATCH_UP_S = 100
SETTINGS = {
    **SHORT_SESSION,
    **SHORT_ZOOKEEPER_SESSION,
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.initial.rebalance.delay.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
}


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as made:
        yield made


@pytest.fixture(params=["quorum", "zookeeper"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, links: Links) -> Iterator[Cluster]:
    if request.param == "quorum":
        made = Cluster(tmp_path, settings=SETTINGS, links=links)
    else:
        server = request.getfixturevalue("zookeeper")
        made = ZooKeeperCluster(tmp_path, server, "/copied", settings=SETTINGS, links=links)
    with made as running:
        for topic in (INPUT, OUTPUT):
            running.create_topic(topic, partitions=PARTITIONS)
        yield running


@pytest.mark.timeout(120 + ROUNDS * 60 + 2 * CATCH_UP_S)
def test_the_output_is_the_input_once_and_in_order_at_all_times(cluster, links, tmp_path):
    """MOLDAU_CLUSTER_ROUNDS sets how many faults, MOLDAU_CLUSTER_SEED which."""
    feeder = Feeder(cluster.bootstrap, PARTITIONS, PAUSE_S)
    reader = Reader(cluster.bootstrap, PARTITIONS)
    java = JavaCopier(cluster.bootstrap)
    try:
        with Instances(cluster.bootstrap, COPIERS, tmp_path) as copiers:
            copiers.start_missing()
            wait_for_more(reader, copiers)
            for fault in faults(cluster, links):
                print(fault)
                reader.check()
                wait_for_more(reader, copiers)
            feeder.finish()
            wait_until(lambda: reader.counts == feeder.counts, reader, copiers, "all is copied")
    finally:
        java.close()
        links.heal()
        feeder.close()
        reader.close()
    assert java.broken is None


def faults(cluster: Cluster, links: Links) -> Iterator[str]:
    """Do one thing after the other to a cluster; it is whole again when its name is returned."""
    dice = random.Random(SEED)
    directions = list(itertools.permutations(links.others(), 2))
    for _ in range(ROUNDS):
        chosen = dice.sample(directions, dice.randint(0, 8))
        fault = dice.choice((None, cluster.pause, cluster.kill, cluster.kill))
        victim, seconds = dice.choice(list(cluster.ids)), dice.choice((0.5, 3, 6))
        for sender, receiver in chosen:
            links.cut_one_way(sender, receiver)
        if fault is not None:
            fault(victim)
        time.sleep(seconds)
        links.heal()
        if fault is not None:
            (cluster.resume if fault == cluster.pause else cluster.start)(victim)
        for topic in (INPUT, OUTPUT):
            cluster.wait_in_sync(topic)
        name = "no fault" if fault is None else f"{fault.__name__} {victim}"
        yield f"{len(chosen)} directions cut for {seconds} s, {name}"


def wait_for_more(reader: Reader, copiers: Instances, count: int = 50) -> None:
    goal = sum(reader.counts) + count
    wait_until(lambda: sum(reader.counts) >= goal, reader, copiers, f"{count} more copies")


def wait_until(look, reader: Reader, copiers: Instances, what: str) -> None:
    """Wait for something; copiers that gave up are started again."""

    def found() -> bool:
        reader.check()
        copiers.start_missing()
        return look()

    try:
        eventually(found, what, CATCH_UP_S)
    except AssertionError as late:
        raise AssertionError(f"{late}: {reader.counts}\n{copiers.said()}") from None
