"""Kafka's tools that ask a cluster about its brokers, run against one broker.

They print the same lines for Kafka, with `MOLDAU_TEST_BROKER=kafka`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT
from kafka_harness.java import Output
from kafka_harness.samples import fresh_topic
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually

pytestmark = pytest.mark.java(CURRENT)

TOOLS = "org.apache.kafka.tools"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"

Tool = Callable[..., Output]


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.address, fresh_topic("cluster-tools"))


@pytest.fixture
def tool(broker: BrokerProcess, tools: ToolSession) -> Tool:
    def run(name: str, *arguments: object, check: bool = True) -> Output:
        full = name if "." in name else f"{TOOLS}.{name}"
        return tools.run(full, "--bootstrap-server", broker.address, *arguments, check=check)

    return run


def test_a_partition_is_reassigned_to_where_it_is(tool: Tool, topic: str, tmp_path: Path) -> None:
    said = tool("TopicCommand", "--describe", "--topic", topic).stdout
    node = said.split("Leader: ")[1].split()[0]
    plan = tmp_path / "plan.json"
    move = {"topic": topic, "partition": 0, "replicas": [int(node)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    started = tool(REASSIGN, "--execute", "--reassignment-json-file", plan).stdout
    assert f"Successfully started partition reassignment for {topic}-0" in started
    verified = tool(REASSIGN, "--verify", "--reassignment-json-file", plan).stdout
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    cancelled = tool(REASSIGN, "--cancel", "--reassignment-json-file", plan).stdout
    assert "None of the specified partition reassignments are active." in cancelled
    assert tool(REASSIGN, "--list").stdout == "No partition reassignments found.\n"


def test_the_quorum_and_its_leader_are_described(tool: Tool, topic: str) -> None:
    status = tool("MetadataQuorumCommand", "describe", "--status").stdout
    lines = dict(line.split(":", 1) for line in status.splitlines())
    assert lines["MaxFollowerLag"].strip() == "0"
    assert lines["CurrentObservers"].strip() == "[]"
    (replica,) = tool("MetadataQuorumCommand", "describe", "--replication").stdout.splitlines()[1:]
    assert replica.split()[0] == lines["LeaderId"].strip()
    assert replica.split()[-1] == "Leader"
    election = ("--election-type", "preferred", "--topic", topic, "--partition", 0)
    elected = tool("LeaderElectionCommand", *election).stdout
    assert elected == f"Valid replica already elected for partitions {topic}-0\n"


def test_there_are_no_quotas_users_or_access_rules(tool: Tool) -> None:
    for entity in ("users", "clients", "ips"):
        assert tool(CONFIGS, "--describe", "--entity-type", entity).stdout == ""
    acls = tool("AclCommand", "--list", check=False)
    assert acls.status == 1
    assert "SecurityDisabledException: No Authorizer is configured on the broker" in acls.stdout


def test_configs_of_loggers_groups_and_metrics_are_kept(tool: Tool) -> None:
    (node,) = tool("BrokerApiVersionsCommand").stdout.split("(id: ")[1:]
    changes = {
        ("broker-loggers", node.split()[0]): "root=INFO",
        ("groups", fresh_topic("group")): "consumer.session.timeout.ms=50000",
        ("client-metrics", fresh_topic("metrics")): "interval.ms=1000",
    }
    for (entity, name), config in changes.items():
        which = ("--entity-type", entity, "--entity-name", name)
        tool(CONFIGS, "--alter", *which, "--add-config", config)
        eventually(
            lambda which=which, config=config: config in tool(CONFIGS, "--describe", *which).stdout,
            f"{config} is described",
        )


def test_features_are_described_and_keep_their_levels(tool: Tool) -> None:
    described = tool("FeatureCommand", "describe").stdout
    names = [line.split()[1] for line in described.splitlines()]
    assert names == [
        "eligible.leader.replicas.version", "group.version", "kraft.version", "metadata.version",
        "share.version", "streams.version", "transaction.version",
    ]  # fmt: skip
    kept = tool("FeatureCommand", "upgrade", "--feature", "metadata.version=30").stdout
    assert "metadata.version was upgraded to 30." in kept


def test_a_feature_goes_down_and_up_again(tool: Tool) -> None:
    def level() -> str:
        described = tool("FeatureCommand", "describe").stdout
        (line,) = [one for one in described.splitlines() if "transaction.version" in one]
        return line.split("FinalizedVersionLevel:")[1].split()[0]

    lower, higher = ("--feature", "transaction.version=1"), ("--feature", "transaction.version=2")
    dry = tool("FeatureCommand", "downgrade", *lower, "--dry-run").stdout
    assert "transaction.version can be downgraded to 1." in dry
    assert level() == "2"
    refused = tool("FeatureCommand", "upgrade", *lower, check=False)
    assert refused.status == 1
    assert "Can't downgrade the version of this feature" in refused.stdout
    assert "was downgraded to 1." in tool("FeatureCommand", "downgrade", *lower).stdout
    eventually(lambda: level() == "1", "the lower level is told")
    assert "was upgraded to 2." in tool("FeatureCommand", "upgrade", *higher).stdout
    eventually(lambda: level() == "2", "the higher level is told")
    lost = ("downgrade", "--feature", "metadata.version=29")
    for more in ((), ("--unsafe",)):
        kept = tool("FeatureCommand", *lost, *more, check=False)
        assert "Could not downgrade metadata.version to 29." in kept.stdout


def test_kafkas_own_compatibility_test_passes(tool: Tool, topic: str) -> None:
    expected = {
        "offsets-for-times-supported": True, "cluster-id-supported": True,
        "expect-record-too-large-exception": False, "num-cluster-nodes": 1,
        "create-topics-supported": True, "describe-acls-supported": True,
        "describe-configs-supported": True, "idempotent-producer-supported": True,
    }  # fmt: skip
    options = [word for name, value in expected.items() for word in (f"--{name}", value)]
    said = tool("ClientCompatibilityTest", "--topic", topic, *options).stdout
    assert "SUCCESS" in said
