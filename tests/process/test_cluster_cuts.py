"""Three brokers whose network is cut, between brokers, to the controller and to clients.

Moldau's client, librdkafka and Kafka's own client write with idempotence and acks=all, and read
along. Whatever was cut, and however the cut ended, the whole history is held to its promises.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.waiting import eventually
from process.cluster_history import Traffic, traffic_on
from process.clusters import VOTER, Cluster
from process.links import CLIENTS, CONTROLLER, Links, broker

pytestmark = pytest.mark.java(CURRENT)

TOPIC = "events"
SPREAD = [(2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 1, 3)]
"""Every broker leads, and broker 2 leads two."""
LED_BY_TWO = (0, 3)
ONE, TWO, THREE = broker(1), broker(2), broker(3)
OTHERS = {1, 3}


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path, links: Links) -> Iterator[Cluster]:
    with Cluster(tmp_path, links=links) as running:
        running.create_topic(TOPIC, SPREAD)
        yield running


def wait_for_isr_without(cluster: Cluster, broker_id: int, partition: int) -> None:
    """Wait until the leader of a partition knows of an ISR without a broker."""
    leader = SPREAD[partition][0]
    eventually(
        lambda: broker_id not in cluster.describe(TOPIC, leader)[partition].isr,
        f"broker {broker_id} has left the ISR of {partition}",
    )


def outgrow_two(cluster: Cluster, traffic: Traffic) -> None:
    """Wait until others lead, and have written over what broker 2 has of its own since.

    Before that a follower that does not compare epochs would be cut right by its offset alone.
    """
    cluster.wait_for_leaders(TOPIC, OTHERS, via=OTHERS)
    for partition in LED_BY_TWO:
        traffic.wait_for_more(50, partition)


def heal(cluster: Cluster, links: Links, traffic: Traffic) -> None:
    """End a cut, and wait until the cluster is whole and writes again."""
    links.heal()
    cluster.wait_in_sync(TOPIC)
    traffic.wait_for_more()


def test_cuts_and_a_kill_lose_and_repeat_nothing_of_any_client(cluster, links):
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        traffic.wait_for_more()
        links.cut(TWO, THREE)
        wait_for_isr_without(cluster, 3, 0)
        traffic.wait_for_more()
        heal(cluster, links, traffic)

        cluster.kill(2)
        cluster.wait_for_leaders(TOPIC, OTHERS)
        traffic.wait_for_more()
        cluster.start(2)
        cluster.wait_in_sync(TOPIC)

        # It goes on as a leader that its clients reach, and nobody else.
        links.cut(TWO, ONE, THREE, CONTROLLER)
        outgrow_two(cluster, traffic)
        heal(cluster, links, traffic)
    assert traffic.history.writers == {"own", "librdkafka", "java"}
    traffic.history.check(cluster)


def cut_voter(links: Links) -> None:
    for other in (TWO, THREE):
        links.cut(other, ONE, CONTROLLER)


CUTS: dict[str, Callable[[Links], None]] = {
    "pair": lambda links: links.cut(TWO, THREE),
    "pair-reset": lambda links: links.reset(TWO, THREE),
    "to-follower": lambda links: links.cut_one_way(TWO, THREE),
    "from-follower": lambda links: links.cut_one_way(THREE, TWO),
    "ring": lambda links: (links.cut_one_way(TWO, THREE), links.cut_one_way(THREE, ONE)),
    "controller": lambda links: links.cut(TWO, CONTROLLER),
    "controller-reset": lambda links: links.reset(TWO, CONTROLLER),
    "to-controller": lambda links: links.cut_one_way(TWO, CONTROLLER),
    "from-controller": lambda links: links.cut_one_way(CONTROLLER, TWO),
    "clients": lambda links: links.cut(TWO, CLIENTS),
    "clients-reset": lambda links: links.reset(TWO, CLIENTS),
    "to-clients": lambda links: links.cut_one_way(TWO, CLIENTS),
    "alone": lambda links: links.cut(TWO, *links.others(TWO)),
    "alone-reset": lambda links: links.reset(TWO, *links.others(TWO)),
    "alone-with-clients": lambda links: links.cut(TWO, ONE, THREE, CONTROLLER),
    "voter": cut_voter,
}
MOVES_LEADERS = {name for name in CUTS if "controller" in name or name.startswith("alone")}
CUT_S = 8
"""Longer than a session, the time for followers to lag, and the time-out of a client's request."""


@pytest.mark.long
@pytest.mark.parametrize("name", CUTS)
def test_a_cut_that_outlasts_every_timeout(cluster, links, name):
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        traffic.wait_for_more()
        CUTS[name](links)
        began_s = time.monotonic()
        if name in MOVES_LEADERS:
            outgrow_two(cluster, traffic)
        elif name == "voter":
            cluster.wait_for_leaders(TOPIC, {VOTER}, via={VOTER})
        time.sleep(max(0, began_s + CUT_S - time.monotonic()))
        heal(cluster, links, traffic)
    traffic.history.check(cluster)


@pytest.mark.long
def test_connections_that_fall_silent_are_given_up(cluster, links):
    """No cut: who opens a new connection finds everybody, and nobody tells him to."""
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        traffic.wait_for_more()
        links.forget(TWO, *links.others(TWO))
        cluster.wait_for_leaders(TOPIC, OTHERS, via=OTHERS)
        traffic.wait_for_more()
        cluster.wait_in_sync(TOPIC)
        traffic.wait_for_more()
    traffic.history.check(cluster)


PAUSE_S = 30


@pytest.mark.long
def test_a_kill_a_long_pause_and_a_cut_one_after_the_other(cluster, links):
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        traffic.wait_for_more()
        cluster.kill(2)
        cluster.wait_for_leaders(TOPIC, OTHERS)
        traffic.wait_for_more()
        cluster.start(2)
        cluster.wait_in_sync(TOPIC)

        leader = cluster.leader(TOPIC)
        cluster.pause(leader)
        time.sleep(PAUSE_S)
        cluster.resume(leader)
        cluster.wait_in_sync(TOPIC)
        traffic.wait_for_more()

        links.cut(TWO, *links.others(TWO))
        outgrow_two(cluster, traffic)
        heal(cluster, links, traffic)
    traffic.history.check(cluster)


ROUNDS = int(os.environ.get("MOLDAU_CLUSTER_ROUNDS", "8"))
SEED = int(os.environ.get("MOLDAU_CLUSTER_SEED", "1"))


@pytest.mark.long
@pytest.mark.timeout(120 + ROUNDS * 60)
def test_random_cuts_one_after_the_other_lose_nothing(cluster, links):
    """MOLDAU_CLUSTER_ROUNDS sets how many, MOLDAU_CLUSTER_SEED which.

    Each cuts some directions, at once or in turn, and may pause or kill a broker meanwhile.
    """
    dice = random.Random(SEED)
    directions = list(itertools.permutations((ONE, TWO, THREE, CONTROLLER, CLIENTS), 2))
    with traffic_on(cluster, TOPIC, java=True) as traffic:
        for _ in range(ROUNDS):
            traffic.wait_for_more(dice.randint(10, 300))
            chosen = dice.sample(directions, dice.randint(1, len(directions)))
            cut = dice.choice((links.cut_one_way, links.cut_one_way, links.reset))
            fault = dice.choice((None, None, cluster.pause, cluster.kill))
            victim = dice.choice(list(cluster.ids))
            in_turn_s, seconds = dice.choice((0, 0, 0.2)), dice.choice((0.5, 3, CUT_S))
            name = "no fault" if fault is None else f"{fault.__name__} {victim}"
            print(f"{cut.__name__} for {seconds} s: {len(chosen)} directions; {name}")
            for sender, receiver in chosen:
                cut(sender, receiver)
                time.sleep(in_turn_s)
            if fault is not None:
                fault(victim)
            time.sleep(seconds)
            links.heal()
            if fault is not None:
                (cluster.resume if fault == cluster.pause else cluster.start)(victim)
            cluster.wait_in_sync(TOPIC)
    traffic.history.check(cluster)
