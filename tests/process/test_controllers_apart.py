"""Controllers that are no brokers, with brokers that do not vote: Kafka's isolated mode.

While clients write, the active controller is killed and the next one is stopped; and Kafka's tools
are given a controller instead of a broker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.tool_session import ToolSession
from kits.kafka_command_kit import class_of
from kits.quorum_cluster import ControllersApart
from process.cluster_history import traffic_on

TOPIC = "events"


def test_controllers_of_their_own_come_and_go_while_clients_write(tmp_path: Path) -> None:
    with ControllersApart(tmp_path, size=2) as cluster:
        cluster.create_topic(TOPIC, [(1, 2), (2, 1)])
        with traffic_on(cluster, TOPIC) as traffic:
            traffic.wait_for_more()
            killed = cluster.active()
            assert killed.leader in cluster.voter_ids
            cluster.kill(killed.leader)
            stopped = cluster.wait_for_controller(after=killed.epoch)
            traffic.wait_for_more()
            cluster.start(killed.leader)
            cluster.stop(stopped.leader)
            third = cluster.wait_for_controller(after=stopped.epoch)
            cluster.create_topic("later", [(2, 1)])
            cluster.kill(1)
            cluster.wait_for_leaders(TOPIC, {2})
            traffic.wait_for_more()
            cluster.start(1, stopped.leader)
            cluster.wait_in_sync(TOPIC)
            traffic.wait_for_more()
            assert cluster.active() == third
        traffic.history.check(cluster)
        assert not list(cluster.data(third.leader).glob(f"{TOPIC}-*"))
        cluster.stop(third.leader)
        assert f"controller {third.leader} has stopped" in cluster.output(third.leader)


@pytest.mark.java(CURRENT)
def test_kafkas_tools_are_given_a_controller(tmp_path: Path) -> None:
    with ControllersApart(tmp_path, size=1, voters=1) as cluster, ToolSession(CURRENT) as session:
        (node,) = cluster.voter_ids
        there = ("--bootstrap-controller", f"127.0.0.1:{cluster.controller_ports[node]}")

        def told(tool: str, *words: object) -> str:
            return session.run(class_of(tool), *words).stdout

        status = told("kafka-metadata-quorum", *there, "describe", "--status")
        assert ["LeaderId:", str(node)] in [line.split() for line in status.splitlines()], status
        assert cluster.cluster_id in told("kafka-cluster", "cluster-id", *there)
        (listed,) = told("kafka-cluster", "list-endpoints", *there).splitlines()[1:]
        assert listed.split()[0] == str(node), listed
        assert "metadata.version" in told("kafka-features", *there, "describe")
