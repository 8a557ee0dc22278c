"""Voters that fail one after the other, or all at once, while clients write and read.

Every test writes with Moldau's producer and with librdkafka, both with idempotence and acks=all,
reads along, and holds the whole history to its promises at the end: see `cluster_history`.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafka_harness.waiting import eventually
from kits.quorum_cluster import QuorumCluster, controller, cut_from_voters
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from process.cluster_history import Traffic, traffic_on
from process.clusters import SHORT_SESSION
from process.links import CLIENTS, Links, broker
from process.raw_client import RawClient

pytestmark = pytest.mark.long

TOPIC = "events"
SPREAD = [(1, 2, 3), (2, 3, 1), (3, 1, 2), (2, 1, 3)]
"""Every node leads, and node 2 leads two."""
PAUSE_S = 30
WRONG = 1
"""The node whose clock is a day off."""
UNDECIDED = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER}
TRIES = "this node is prospective"
CREATE_VERSION = 5


@pytest.fixture
def links() -> Iterator[Links]:
    with Links() as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[QuorumCluster]:
    with QuorumCluster(tmp_path) as running:
        running.create_topic(TOPIC, SPREAD)
        yield running


@pytest.fixture
def linked(tmp_path: Path, links: Links) -> Iterator[QuorumCluster]:
    """Return nodes whose network a test may cut."""
    with QuorumCluster(tmp_path, links=links) as running:
        running.create_topic(TOPIC, SPREAD)
        yield running


def outgrow(cluster: QuorumCluster, traffic: Traffic, node_id: int) -> None:
    """Wait until others lead, and have written over what a node may have of its own since."""
    others = cluster.others(node_id)
    cluster.wait_for_leaders(TOPIC, others, via=others)
    for partition, replicas in enumerate(SPREAD):
        if replicas[0] == node_id:
            traffic.wait_for_more(50, partition)


def become_whole(cluster: QuorumCluster, traffic: Traffic) -> None:
    """Wait until all nodes are in sync, and clients go on."""
    cluster.wait_in_sync(TOPIC)
    traffic.wait_for_more()


def creation(name: str, *replicas: int) -> CreateTopicsRequest:
    """Ask for a topic of one partition."""
    topic = CreatableTopic(name, -1, -1, [CreatableReplicaAssignment(0, list(replicas))])
    return CreateTopicsRequest([topic])


def test_a_controller_that_was_paused_steps_down_and_commits_nothing(cluster):
    """A request waits for it all the while: it may not be carried out in the old epoch."""
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        first = cluster.active()
        others = cluster.others(first.leader)
        cluster.pause(first.leader)
        late_wish = creation("late", *others)
        with RawClient(cluster.address(first.leader)) as waiting:
            waiting.send(late_wish, CREATE_VERSION)
            second = cluster.wait_for_controller(after=first.epoch)
            outgrow(cluster, traffic, first.leader)
            cluster.create_topic("meanwhile", [others], via=others[0])
            time.sleep(PAUSE_S)
            cluster.resume(first.leader)
            (late,) = waiting.receive(late_wish, CREATE_VERSION).topics
        become_whole(cluster, traffic)
        assert cluster.active() == second
        cluster.wait_in_sync("meanwhile")
        # Whoever was asked at last has decided, for all alike.
        if late.error_code == 0:
            cluster.wait_in_sync("late")
        else:
            assert not any(cluster.describe("late", node_id) for node_id in cluster.ids)
    traffic.history.check(cluster)


def test_a_controller_without_the_other_voters_is_replaced_and_follows(linked, links):
    """It reaches the brokers still, and they it."""
    cluster: QuorumCluster = linked
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        first = cluster.active()
        other = cluster.others(first.leader)[0]
        cut_from_voters(links, cluster, first.leader)
        second = cluster.wait_for_controller(after=first.epoch, via=other)
        assert second.leader != first.leader
        outgrow(cluster, traffic, first.leader)
        links.heal()
        become_whole(cluster, traffic)
        assert cluster.active() == second
    traffic.history.check(cluster)


def test_a_voter_without_the_others_disturbs_nobody_when_it_is_back(linked, links):
    """It asks for votes all the while, and raises no epoch: pre-votes are refused."""
    cluster: QuorumCluster = linked
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        first = cluster.active()
        lonely = cluster.others(first.leader)[0]
        tries = cluster.output(lonely).count(TRIES)
        cut_from_voters(links, cluster, lonely)
        outgrow(cluster, traffic, lonely)
        eventually(lambda: cluster.output(lonely).count(TRIES) > tries, "it asks for votes")
        links.heal()
        become_whole(cluster, traffic)
        assert cluster.active() == first
    traffic.history.check(cluster)


def test_a_controller_without_the_other_brokers_stays(linked, links):
    """Followers cannot fetch, so that leaders shrink their ISR; it is for the voters to judge."""
    cluster: QuorumCluster = linked
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        first = cluster.active()
        links.cut(broker(first.leader), *map(broker, cluster.others(first.leader)))
        time.sleep(PAUSE_S)
        assert cluster.active() == first
        links.heal()
        become_whole(cluster, traffic)
        assert cluster.active() == first
    traffic.history.check(cluster)


def test_writes_go_on_without_a_majority_and_changes_of_metadata_wait_for_one(tmp_path):
    """Where the last controller had begun to commit, nobody can say what becomes of it."""
    with QuorumCluster(tmp_path, size=4) as cluster, ExitStack() as waiting:
        first = cluster.active()
        left, dead = first.leader, [one for one in cluster.voter_ids if one != first.leader]
        cluster.create_topic(TOPIC, [(left, 4), (4, left)], via=4)
        cluster.create_topic("waits", [(left, *dead)], via=4)
        with traffic_on(cluster, TOPIC, bootstrap=bootstrap(cluster, left, 4)) as traffic:
            traffic.wait_for_more()
            cluster.kill(*dead)
            clients = {via: RawClient(cluster.address(via)) for via in (left, 4)}
            wishes = {via: creation(f"wanted-at-{via}", left, 4) for via in clients}
            for via, client in clients.items():
                waiting.enter_context(client)
                client.send(wishes[via], CREATE_VERSION)
            eventually(
                lambda: "no longer the controller" in cluster.output(left), "it has resigned"
            )
            traffic.wait_for_more()
            assert not cluster.describe("wanted-at-4", 4)
            cluster.start(*dead)
            for via, client in clients.items():
                (told,) = client.receive(wishes[via], CREATE_VERSION).topics
                if told.error_code == ErrorCode.NONE:
                    cluster.wait_in_sync(f"wanted-at-{via}")
                else:
                    assert told.error_code in UNDECIDED, told
            cluster.wait_in_sync("waits")
            traffic.wait_for_more()
            cluster.create_topic("later", [(left, *dead)], via=4)
        traffic.history.check(cluster)


def bootstrap(cluster: QuorumCluster, *node_ids: int) -> str:
    return ",".join(f"127.0.0.1:{cluster.ports[node_id]}" for node_id in node_ids)


def test_all_nodes_are_killed_at_once_and_have_everything_again(cluster):
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        first = cluster.active()
        for number in range(3):
            cluster.create_topic(f"before-{number}", [(1, 2, 3)], in_sync=False)
            cluster.kill(*cluster.ids)
            cluster.start()
            become_whole(cluster, traffic)
        assert cluster.active().epoch > first.epoch
        for number in range(3):
            cluster.wait_in_sync(f"before-{number}")
    traffic.history.check(cluster)


def test_a_rolling_restart_is_not_noticed_but_for_a_gap(cluster):
    """The longest time that a producer heard nothing of a partition is printed, not asserted."""
    with traffic_on(cluster, TOPIC) as traffic:
        traffic.wait_for_more()
        for _ in range(2):
            for node_id in cluster.ids:
                cluster.stop(node_id)
                cluster.start(node_id)
                become_whole(cluster, traffic)
    gaps = {name: f"{gap_s:.2f} s" for name, gap_s in traffic.history.longest_gaps_s.items()}
    print(f"longest gaps over a rolling restart: {gaps}")
    traffic.history.check(cluster)
    assert all("recovered" not in cluster.output(node_id) for node_id in cluster.ids)


SHIFTED = """
import time
real = time.time_ns
time.time_ns = lambda: real() + {days} * 86_400_000_000_000
time.time = lambda: time.time_ns() / 1e9
"""
ANY_TIME = {**SHORT_SESSION, "log.message.timestamp.after.max.ms": str(2**63 - 1)}
"""Records of today are of the future for a broker whose clock is late."""


@pytest.mark.parametrize("days", [1, -1])
def test_a_clock_that_is_a_day_off_moves_nobody(tmp_path, days):
    """Who leads is a matter of epochs and of time that has passed, not of the hour."""
    (tmp_path / "sitecustomize.py").write_text(SHIFTED.format(days=days))
    with QuorumCluster(tmp_path, settings=ANY_TIME) as cluster:
        cluster.create_topic(TOPIC, SPREAD)
        cluster.stop(WRONG)
        cluster.start_with(WRONG, {"PYTHONPATH": str(tmp_path)})
        with traffic_on(cluster, TOPIC) as traffic:
            wrong = cluster.elect(WRONG)
            become_whole(cluster, traffic)
            victim = cluster.others(WRONG)[0]
            cluster.kill(victim)
            cluster.wait_for_leaders(TOPIC, cluster.others(victim))
            traffic.wait_for_more()
            cluster.start(victim)
            become_whole(cluster, traffic)
            assert cluster.active() == wrong
            right = cluster.elect(victim)
            become_whole(cluster, traffic)
            assert cluster.active() == right
        traffic.history.check(cluster)


ROUNDS = int(os.environ.get("MOLDAU_CLUSTER_ROUNDS", "8"))
SEED = int(os.environ.get("MOLDAU_CLUSTER_SEED", "1"))


@pytest.mark.timeout(120 + ROUNDS * 60)
def test_random_faults_one_after_the_other_lose_nothing(linked, links):
    """MOLDAU_CLUSTER_ROUNDS sets how many, MOLDAU_CLUSTER_SEED which.

    Each cuts some directions, between brokers, to voters and to clients, or none, and may pause,
    kill or stop nodes meanwhile.
    """
    cluster: QuorumCluster = linked
    dice = random.Random(SEED)
    brokers = [broker(node_id) for node_id in cluster.ids]
    to_voters = [
        (broker(one), controller(other)) for one, other in itertools.permutations(cluster.ids, 2)
    ]
    directions = [
        *itertools.permutations((*brokers, CLIENTS), 2),
        *to_voters,
        *((voter, one) for one, voter in to_voters),
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
