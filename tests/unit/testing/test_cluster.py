"""`TestCluster`: several brokers that replicate, killed, stopped, cut off and brought back."""

from __future__ import annotations

import threading
import time

import pytest

from moldau import Admin, Producer
from moldau.base.errors import ConfigError
from moldau.client.errors import ClientError, InvalidState
from moldau.testing import TestCluster

NO_LOSS = {"acks": "all", "delivery_timeout_ms": 60_000}


@pytest.fixture(scope="module")
def cluster():
    with TestCluster(settings={"min.insync.replicas": 2}) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def whole(cluster):
    """Leave the cluster whole to the next test."""
    yield
    cluster.heal()
    for broker_id in set(cluster.broker_ids) - set(cluster.running):
        cluster.start_broker(broker_id)
    until(lambda: brokers(cluster) == [1, 2, 3])
    until(lambda: all(len(isr) == 3 for _, isr in states(cluster)))


def brokers(cluster):
    with Admin(cluster.bootstrap_servers) as admin:
        return sorted(one.broker_id for one in admin.describe_cluster().brokers)


def states(cluster, topic=None, broker_id=None):
    """Leader and ISR of every partition; a broker that was cut off may be late with them."""
    with Admin(cluster.address(broker_id or cluster.running[0])) as admin:
        names = [topic] if topic else list(admin.list_topics(include_internal=True))
        return [
            (one.leader, tuple(one.isr))
            for name in names
            for one in admin.describe_topic(name).partitions
        ]


def until(true, patience_s=60):
    """Wait for something that takes the time it takes."""
    end = time.monotonic() + patience_s
    while True:
        try:
            if true():
                return
        except ClientError:
            pass  # a broker is away
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


def write(cluster, topic, values, broker_ids=None):
    """Write by way of these brokers: one that is cut off believes for a while that it leads."""
    servers = [cluster.address(one) for one in broker_ids or cluster.broker_ids]
    with Producer(servers, **NO_LOSS) as producer:
        for delivery in [producer.send(topic, value) for value in values]:
            delivery.result(60)


def read(cluster, topic):
    return sorted(record.value for record in cluster.records(topic))


def test_topics_are_replicated_by_default(cluster):
    cluster.create_topic("spread", 3)
    found = states(cluster, "spread")
    assert sorted(leader for leader, _ in found) == [1, 2, 3]
    assert {tuple(sorted(isr)) for _, isr in found} == {(1, 2, 3)}


def test_a_killed_leader_loses_nothing(cluster):
    cluster.create_topic("killed", 3)
    write(cluster, "killed", [b"before"] * 10)
    cluster.kill(2)
    write(cluster, "killed", [b"after"] * 10)
    assert read(cluster, "killed") == [b"after"] * 10 + [b"before"] * 10
    assert cluster.running == (1, 3)
    cluster.restart(2)
    until(lambda: all(len(isr) == 3 for _, isr in states(cluster, "killed")))


def test_a_broker_that_stops_hands_its_leaders_over(cluster):
    cluster.create_topic("stopped", 3)
    cluster.stop_broker(3)
    assert all(leader in (1, 2) for leader, _ in states(cluster, "stopped"))
    write(cluster, "stopped", [b"one", b"two"])
    assert read(cluster, "stopped") == [b"one", b"two"]


def test_a_broker_that_is_cut_off_is_fenced_and_comes_back(cluster):
    cluster.create_topic("cut", 3)
    cluster.partition([3], [1, 2])
    until(lambda: all(3 not in isr for _, isr in states(cluster, "cut", 2)))
    write(cluster, "cut", [b"meanwhile"] * 6, broker_ids=(1, 2))
    cluster.heal()
    # Broker 3 takes part again before it has heard of all that happened: it is asked once more.
    until(lambda: read(cluster, "cut") == [b"meanwhile"] * 6)
    until(lambda: all(3 in isr for _, isr in states(cluster, "cut")))


def test_the_voter_comes_back_to_its_cluster(cluster):
    cluster.create_topic("voted", 3)
    cluster.kill(1)
    cluster.start_broker(1)
    cluster.create_topic("later", 1)
    write(cluster, "later", [b"x"])
    assert read(cluster, "later") == [b"x"]


def test_one_that_does_not_run_cannot_be_ended(cluster):
    cluster.stop_broker(2)
    with pytest.raises(InvalidState, match="broker 2 does not run"):
        cluster.kill(2)


def test_one_that_runs_is_not_started_twice(cluster):
    with pytest.raises(InvalidState, match="broker 2 is already running"):
        cluster.start_broker(2)


def test_one_that_the_cluster_does_not_have_is_refused(cluster):
    for use in (cluster.start_broker, cluster.kill, cluster.address, cluster.folder):
        with pytest.raises(ConfigError, match="no broker 4: the brokers of this cluster are 1 to"):
            use(4)
    with pytest.raises(ConfigError, match="no broker 4"):
        cluster.partition([4], [1])


@pytest.mark.parametrize("brokers", [0, 10])
def test_a_test_has_a_few_brokers(brokers):
    with pytest.raises(ConfigError, match=f"brokers={brokers}"):
        TestCluster(brokers)


def test_a_folder_that_was_given_is_found_again(tmp_path):
    with TestCluster(2, topics={"kept": 2}, folder=tmp_path) as first:
        write(first, "kept", [b"value"])
    with TestCluster(2, folder=tmp_path) as again:
        assert read(again, "kept") == [b"value"]


def test_nothing_is_left_behind():
    before = set(threading.enumerate())
    with TestCluster(2) as cluster:
        folder = cluster.folder(1).parent
    assert set(threading.enumerate()) <= before
    assert not folder.exists()
