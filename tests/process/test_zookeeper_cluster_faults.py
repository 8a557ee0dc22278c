"""Three brokers on ZooKeeper that fail one after the other, while clients write and read.

Every test writes with Moldau's producer and with librdkafka, both with idempotence and acks=all,
reads along, and holds the whole history to its promises at the end: see `cluster_history`.
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
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from process.cluster_history import Traffic, traffic_on
from process.links import CLIENTS, ZOOKEEPER, Links, broker
from process.zookeeper_clusters import ZooKeeperCluster

TOPIC = "events"
SPREAD = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2)]
"""Every broker leads, and broker 1 leads two."""


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as made:
        yield made


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[ZooKeeperNode]:
    """Return a ZooKeeper that a test may kill."""
    require_zookeeper()
    with ZooKeeperNode(tmp_path / "zookeeper") as running:
        yield running


@pytest.fixture
def linked(tmp_path: Path, zookeeper: ZooKeeperNode, links: Links) -> Iterator[ZooKeeperCluster]:
    """Return brokers whose network a test may cut."""
    with ZooKeeperCluster(tmp_path, zookeeper, f"/{tmp_path.name}", links=links) as running:
        running.create_topic(TOPIC, SPREAD)
        yield running


def outgrow(cluster: ZooKeeperCluster, traffic: Traffic, broker_id: int) -> None:
    """Wait until others lead, and have written over what a broker may have of its own since."""
    others = cluster.others(broker_id)
    cluster.wait_for_leaders(TOPIC, others, via=others)
    for partition, replicas in enumerate(SPREAD):
        if replicas[0] == broker_id:
            traffic.wait_for_more(50, partition)


def become_whole(cluster: ZooKeeperCluster, traffic: Traffic) -> None:
    """Wait until all brokers are in sync, and clients go on."""
    cluster.wait_for_brokers(cluster.ids)
    cluster.wait_in_sync(TOPIC)
    traffic.wait_for_more()


def test_a_controller_and_a_leader_that_are_killed_take_nothing_with_them(on_zookeeper):
    cluster: ZooKeeperCluster = on_zookeeper
    cluster.create_topic(TOPIC, SPREAD)
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        first, epoch = cluster.controller(), cluster.controller_epoch
        cluster.kill(first)
        second = cluster.wait_for_controller(after=epoch)
        cluster.wait_for_leaders(TOPIC, cluster.others(first))
        traffic.wait_for_more()
        cluster.start(first)
        become_whole(cluster, traffic)

        leader = next(one for one in cluster.others(second) if one != first)
        cluster.kill(leader)
        cluster.wait_for_leaders(TOPIC, cluster.others(leader))
        traffic.wait_for_more()
        assert cluster.controller() == second
        cluster.start(leader)
        become_whole(cluster, traffic)
    traffic.history.check(cluster)


def test_a_controller_that_zookeeper_has_given_up_is_replaced_and_follows(linked, links):
    cluster: ZooKeeperCluster = linked
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        first, epoch = cluster.controller(), cluster.controller_epoch
        links.cut(broker(first), ZOOKEEPER)
        second = cluster.wait_for_controller(after=epoch)
        assert second != first
        outgrow(cluster, traffic, first)
        links.heal()
        become_whole(cluster, traffic)
        assert cluster.controller_epoch == epoch + 1
    traffic.history.check(cluster)


@pytest.mark.long
def test_a_connection_to_zookeeper_that_is_reset_costs_nothing(linked, links):
    """The session goes on, so that nobody is replaced and nothing moves."""
    cluster: ZooKeeperCluster = linked
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        epoch = cluster.controller_epoch
        for broker_id in cluster.ids:
            links.reset(broker(broker_id), ZOOKEEPER)
            traffic.wait_for_more(50)
            links.heal()
            traffic.wait_for_more()
        cluster.create_topic("later", partitions=3)
        assert cluster.controller_epoch == epoch
        assert {one.leader_epoch for one in cluster.describe(TOPIC, 0).values()} == {0}
    traffic.history.check(cluster)


@pytest.mark.long
def test_brokers_stop_although_zookeeper_is_away(linked, links):
    cluster: ZooKeeperCluster = linked
    for broker_id in cluster.ids:
        links.cut(broker(broker_id), ZOOKEEPER)
    controller = cluster.controller()
    cluster.stop(*cluster.others(controller), controller)
    for broker_id in cluster.ids:
        assert f"broker {broker_id} has stopped" in cluster.output(broker_id)
    links.heal()
    cluster.start()
    cluster.wait_in_sync(TOPIC)
    assert all("recovered" not in cluster.output(broker_id) for broker_id in cluster.ids)


PAUSE_S = 30


@pytest.mark.long
@pytest.mark.java(CURRENT)
def test_a_controller_that_was_paused_steps_down(linked):
    cluster: ZooKeeperCluster = linked
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        traffic.wait_for_more()
        first, epoch = cluster.controller(), cluster.controller_epoch
        cluster.pause(first)
        cluster.wait_for_controller(after=epoch)
        outgrow(cluster, traffic, first)
        time.sleep(PAUSE_S)
        cluster.resume(first)
        become_whole(cluster, traffic)
        assert cluster.controller_epoch == epoch + 1
        assert cluster.controller() != first
    traffic.history.check(cluster)


@pytest.mark.long
@pytest.mark.java(CURRENT)
def test_a_controller_without_the_other_brokers_keeps_them_as_they_are(linked, links):
    """ZooKeeper sees them all alive. Leaders without followers shrink their ISR when they can."""
    cluster: ZooKeeperCluster = linked
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        traffic.wait_for_more()
        first, epoch = cluster.controller(), cluster.controller_epoch
        others = cluster.others(first)
        links.cut(broker(first), *map(broker, others))
        time.sleep(PAUSE_S)
        assert cluster.registered == set(cluster.ids)
        links.heal()
        become_whole(cluster, traffic)
        assert cluster.controller_epoch == epoch
    traffic.history.check(cluster)


@pytest.mark.long
@pytest.mark.java(CURRENT)
@pytest.mark.parametrize("away_s", [0, 60])
def test_brokers_serve_on_while_zookeeper_is_away(tmp_path, own_zookeeper, away_s):
    with ZooKeeperCluster(tmp_path, own_zookeeper, "/away") as cluster:
        cluster.create_topic(TOPIC, SPREAD)
        with traffic_on(cluster, TOPIC, java=True) as traffic:
            traffic.wait_for_more()
            own_zookeeper.kill()
            until_s = time.monotonic() + away_s
            traffic.wait_for_more(400)
            while time.monotonic() < until_s:
                traffic.wait_for_more(50)
            own_zookeeper.start()
            eventually(lambda: cluster.tree.connected, "the test has its tree again")
            become_whole(cluster, traffic)
            cluster.create_topic("later", SPREAD)
        traffic.history.check(cluster)


@pytest.mark.long
@pytest.mark.java(CURRENT)
def test_a_rolling_restart_is_not_noticed_but_for_a_gap(linked):
    """The longest time that a producer heard nothing of a partition is printed, not asserted."""
    cluster: ZooKeeperCluster = linked
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        traffic.wait_for_more()
        for _ in range(2):
            for broker_id in cluster.ids:
                cluster.stop(broker_id)
                cluster.start(broker_id)
                cluster.wait_in_sync(TOPIC)
                traffic.wait_for_more()
    gaps = {name: f"{gap_s:.2f} s" for name, gap_s in traffic.history.longest_gaps_s.items()}
    print(f"longest gaps over a rolling restart: {gaps}")
    traffic.history.check(cluster)
    assert all("recovered" not in cluster.output(broker_id) for broker_id in cluster.ids)


ROUNDS = int(os.environ.get("MOLDAU_CLUSTER_ROUNDS", "8"))
SEED = int(os.environ.get("MOLDAU_CLUSTER_SEED", "1"))


@pytest.mark.long
@pytest.mark.timeout(120 + ROUNDS * 60)
def test_random_faults_one_after_the_other_lose_nothing(linked, links):
    """MOLDAU_CLUSTER_ROUNDS sets how many, MOLDAU_CLUSTER_SEED which.

    Each cuts some directions, between brokers, to ZooKeeper and to clients, or none, and may pause,
    kill or stop brokers meanwhile.
    """
    cluster: ZooKeeperCluster = linked
    dice = random.Random(SEED)
    brokers = [broker(broker_id) for broker_id in cluster.ids]
    directions = [
        *itertools.permutations((*brokers, CLIENTS), 2),
        *((one, ZOOKEEPER) for one in brokers),
        *((ZOOKEEPER, one) for one in brokers),
    ]
    with traffic_on(cluster, TOPIC) as traffic:
        for _ in range(ROUNDS):
            traffic.wait_for_more(dice.randint(10, 300))
            count = dice.choice((0, 1, 3, len(directions) // 2))
            cut = dice.choice((links.cut_one_way, links.cut_one_way, links.reset))
            victims = dice.sample(list(cluster.ids), dice.choice((0, 1, 1, 2, 3)))
            fault = dice.choice((cluster.kill, cluster.pause, cluster.stop))
            seconds = dice.choice((0, 0.5, 4, 8))
            began_s = time.monotonic()
            chosen = dice.sample(directions, count)
            print(f"{cut.__name__} {chosen} {seconds} s, {fault.__name__} {victims}:", flush=True)
            for sender, receiver in chosen:
                cut(sender, receiver)
            for victim in victims:
                fault(victim)
            time.sleep(seconds)
            links.heal()
            if victims:
                (cluster.resume if fault == cluster.pause else cluster.start)(*victims)
            cluster.wait_in_sync(TOPIC)
            traffic.wait_for_more(dice.randint(10, 300))
            print(f"{time.monotonic() - began_s:.1f} s", flush=True)
    traffic.history.check(cluster)
