"""Apache Kafka's own tools on three brokers, asked through one that does not vote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.tool_session import ToolSession
from kafka_harness.waiting import eventually
from process.cluster_history import traffic_on

pytestmark = [pytest.mark.java(CURRENT), pytest.mark.long]

TOOLS = "org.apache.kafka.tools"
OBSERVER = 3


@pytest.fixture(scope="module")
def session() -> Iterator[ToolSession]:
    with ToolSession(CURRENT) as running:
        yield running


@pytest.fixture
def tool(cluster, session):
    address = f"127.0.0.1:{cluster.ports[OBSERVER]}"

    def run(name: str, *arguments: object) -> str:
        full = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
        return session.run(full, "--bootstrap-server", address, *arguments).stdout

    return run


def test_topics_are_made_described_configured_and_deleted(cluster, tool):
    made = ("--topic", "orders", "--partitions", 3, "--replication-factor", 3)
    assert "Created topic orders." in tool("TopicCommand", "--create", *made)
    cluster.wait_in_sync("orders")
    said = tool("TopicCommand", "--describe", "--topic", "orders")
    assert "ReplicationFactor: 3" in said
    assert {line.split("Leader: ")[1][0] for line in said.splitlines()[1:]} == {"1", "2", "3"}
    which = ("--entity-type", "topics", "--entity-name", "orders")
    tool("kafka.admin.ConfigCommand", "--alter", *which, "--add-config", "retention.ms=60000")
    eventually(
        lambda: "retention.ms=60000" in tool("kafka.admin.ConfigCommand", "--describe", *which),
        "the config is described",
    )
    tool("TopicCommand", "--delete", "--topic", "orders")
    eventually(lambda: "orders" not in tool("TopicCommand", "--list"), "the topic is gone")


def test_partitions_move_and_leaders_are_elected(cluster, tool, tmp_path: Path):
    cluster.create_topic("events", [(2, 1)])
    plan = tmp_path / "plan.json"
    move = {"topic": "events", "partition": 0, "replicas": [3, 1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    reassign = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", plan)
    assert "Successfully started" in tool(*reassign, "--execute")
    eventually(lambda: set(cluster.describe("events", 1)[0].replicas) == {3, 1}, "it has moved")
    cluster.wait_in_sync("events")
    election = ("--election-type", "preferred", "--topic", "events", "--partition", 0)
    assert "events-0" in tool("LeaderElectionCommand", *election)
    cluster.wait_for_leaders("events", {3})


def test_the_quorum_has_one_voter_and_two_observers(tool):
    status = tool("MetadataQuorumCommand", "describe", "--status")
    lines = dict(line.split(":", 1) for line in status.splitlines())
    assert lines["LeaderId"].strip() == "1"
    rows = tool("MetadataQuorumCommand", "describe", "--replication").splitlines()[1:]
    assert {row.split()[0]: row.split()[-1] for row in rows} == {
        "1": "Leader", "2": "Observer", "3": "Observer",
    }  # fmt: skip


def test_kafka_reads_the_files_of_every_replica(cluster, session):
    cluster.create_topic("events", [(2, 3, 1)])
    with traffic_on(cluster, "events") as traffic:
        traffic.wait_for_more()
    traffic.history.check(cluster)
    cluster.stop(3, 2)
    cluster.stop(1)
    for broker_id in cluster.ids:
        folder = cluster.data(broker_id) / "events-0"
        dumped = dump(session, *folder.glob("*.log"))
        assert "isvalid: false" not in dumped
        assert "own 0" in dumped
        assert "producerId: 0" in dump(session, *folder.glob("*.snapshot"))


def dump(session: ToolSession, *files: Path) -> str:
    named = ",".join(map(str, files))
    output = session.run(f"{TOOLS}.DumpLogSegments", "--print-data-log", "--files", named)
    assert not output.stderr, output.stderr
    return output.stdout
