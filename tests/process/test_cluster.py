"""Three brokers, one voter, and what happens to records when brokers fail.

Every test writes with Moldau's producer and with librdkafka, both with idempotence and acks=all,
reads along, and holds the whole history to its promises at the end: see `cluster_history`.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition

from kafka_harness.distribution import CURRENT
from kafka_harness.waiting import eventually
from moldau.client.consumer import Consumer
from process.cluster_history import traffic_on
from process.clusters import VOTER, Cluster

SPREAD = [(2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 1, 3)]
"""Every broker leads, and broker 2 leads two."""
OTHERS = {1, 3}
ALL = {1, 2, 3}


def test_three_brokers_serve_a_topic_and_a_group_outlives_its_coordinator(cluster):
    cluster.create_topic("events", partitions=6, via=3)
    described = cluster.describe("events", 2)
    assert {one.leader for one in described.values()} == ALL
    assert all(set(one.isr) == ALL for one in described.values())
    with traffic_on(cluster, "events") as traffic:
        traffic.wait_for_more(100)
    traffic.history.check(cluster)
    group = next(
        name
        for name in map("group-{}".format, range(100))
        if eventually(lambda name=name: cluster.coordinator(name, 2) > 0, f"who coordinates {name}")
        and cluster.coordinator(name, 2) != VOTER
    )
    ends = read_and_commit(cluster, group, traffic.history.count)
    assert sum(ends.values()) == traffic.history.count
    cluster.kill(cluster.coordinator(group, 2))
    asked = [("events", partition) for partition in ends]
    with Consumer(cluster.bootstrap, group_id=group) as consumer:
        found = consumer.committed(asked, timeout_ms=30_000)
    assert {where.partition: one.offset for where, one in found.items()} == ends
    other = ConfluentConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    try:
        listed = other.committed([ConfluentPartition(*one) for one in asked], 30)
    finally:
        other.close()
    assert {one.partition: one.offset for one in listed} == ends


def read_and_commit(cluster: Cluster, group: str, count: int) -> dict[int, int]:
    """Read so many records as a member of a group, commit, and return the offsets by partition."""
    ends: dict[int, int] = {}
    with Consumer(
        cluster.bootstrap,
        group_id=group,
        topics=["events"],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        while sum(ends.values()) < count:
            for record in consumer.poll(timeout_ms=1000):
                ends[record.partition] = record.offset + 1
        consumer.commit()
    return ends


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


def test_observers_go_on_without_the_voter_and_follow_it_when_it_is_back(cluster):
    cluster.create_topic("observed", [(2, 3), (3, 2)])
    cluster.create_topic("events", SPREAD)
    with traffic_on(cluster, "observed") as traffic, traffic_on(cluster, "events") as slowed:
        traffic.wait_for_more()
        cluster.kill(VOTER)
        traffic.wait_for_more()
        cluster.start(VOTER)
        cluster.create_topic("later", [(3, 1, 2)], via=3)
        cluster.wait_in_sync("events")
        slowed.wait_for_more()
        traffic.wait_for_more()
    traffic.history.check(cluster)
    slowed.history.check(cluster)


def test_all_brokers_are_killed_at_once_and_come_back(cluster):
    cluster.create_topic("events", SPREAD)
    with traffic_on(cluster, "events") as traffic:
        traffic.wait_for_more()
        cluster.kill(*ALL)
        cluster.start()
        cluster.create_topic("later", [(3, 1, 2)], via=3)
        cluster.wait_in_sync("events")
        traffic.wait_for_more()
    traffic.history.check(cluster)


def test_all_brokers_stop_in_order_and_come_back(cluster):
    """What waits for its acknowledgement then is repeated afterwards, up to five batches each."""
    cluster.create_topic("events", SPREAD)
    with traffic_on(cluster, "events") as traffic:
        traffic.wait_for_more()
        cluster.stop(3, 2)
        cluster.stop(VOTER)
        cluster.start()
        cluster.wait_in_sync("events")
        traffic.wait_for_more()
    traffic.history.check(cluster)
    assert all("recovered" not in cluster.output(broker_id) for broker_id in ALL)


@pytest.mark.long
@pytest.mark.java(CURRENT)
def test_a_rolling_restart_is_not_noticed_but_for_a_gap(cluster):
    """The longest time that a producer heard nothing of a partition is printed, not asserted."""
    cluster.create_topic("events", SPREAD)
    with traffic_on(cluster, "events", java=True) as traffic:
        traffic.wait_for_more()
        for broker_id in (3, 2, VOTER):
            cluster.stop(broker_id)
            cluster.start(broker_id)
            cluster.wait_in_sync("events")
            traffic.wait_for_more()
    gaps = {name: f"{gap_s:.2f} s" for name, gap_s in traffic.history.longest_gaps_s.items()}
    print(f"longest gaps over a rolling restart: {gaps}")
    traffic.history.check(cluster)


@pytest.mark.long
@pytest.mark.java(CURRENT)
def test_clients_do_not_need_the_broker_of_their_bootstrap(cluster):
    """Some lose the only broker that they were told of; others never find the first of theirs."""
    cluster.create_topic("events", SPREAD)
    cluster.create_topic("later", SPREAD)
    dead, alive = (f"127.0.0.1:{cluster.ports[broker_id]}" for broker_id in (2, 3))
    with traffic_on(cluster, "events", bootstrap=dead, java=True) as traffic:
        traffic.wait_for_more()
        cluster.kill(2)
        cluster.wait_for_leaders("events", OTHERS)
        traffic.wait_for_more()
        cluster.wait_for_leaders("later", OTHERS)
        with traffic_on(cluster, "later", bootstrap=f"{dead},{alive}", java=True) as later:
            later.wait_for_more()
        cluster.start(2)
        cluster.wait_in_sync("events")
        traffic.wait_for_more()
    for history in (traffic.history, later.history):
        assert history.writers == {"own", "librdkafka", "java"}
        history.check(cluster)


ROUNDS = int(os.environ.get("MOLDAU_CLUSTER_ROUNDS", "8"))
SEED = int(os.environ.get("MOLDAU_CLUSTER_SEED", "1"))


@pytest.mark.long
@pytest.mark.timeout(120 + ROUNDS * 60)
def test_random_faults_one_after_the_other_lose_nothing(cluster):
    """MOLDAU_CLUSTER_ROUNDS sets how many, MOLDAU_CLUSTER_SEED which."""
    dice = random.Random(SEED)
    cluster.create_topic("events", SPREAD, {"segment.bytes": str(1 << 20)})
    with traffic_on(cluster, "events") as traffic:
        for _ in range(ROUNDS):
            traffic.wait_for_more(dice.randint(10, 300))
            victims = dice.sample(sorted(ALL), dice.choice((1, 1, 1, 2, 3)))
            fault = dice.choice((cluster.kill, cluster.pause, cluster.stop))
            pause_s = dice.choice((0, 0.5, 4))
            began_s = time.monotonic()
            for victim in sorted(victims, reverse=True):
                fault(victim)  # the voter last: brokers that stop tell it
            time.sleep(pause_s)
            (cluster.resume if fault == cluster.pause else cluster.start)(*victims)
            cluster.wait_in_sync("events")
            traffic.wait_for_more(dice.randint(10, 300))
            print(f"{fault.__name__} {victims} {pause_s} s: {time.monotonic() - began_s:.1f} s")
    traffic.history.check(cluster)
