"""What `moldau` shows is what Kafka's own tools show of the same broker."""

from __future__ import annotations

import csv
import io
import re

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import create_topic, send
from kits.cli_kit import Ran, moldau
from kits.tool_kit import GROUPS, TOOLS, commit_offsets

pytestmark = pytest.mark.java(CURRENT)

TOPIC, GROUP = "cli-like-kafka", "cli-like-kafka-group"
TOPICS = f"{TOOLS}.TopicCommand"
OFFSETS = f"{TOOLS}.GetOffsetShell"


@pytest.fixture(scope="module")
def session(broker: BrokerProcess, tools: ToolSession) -> ToolSession:
    """Kafka's tools, and something that they can look at."""
    create_topic(broker.address, TOPIC, 3, {"retention.ms": "-1", "segment.bytes": "1048576"})
    for partition, count in enumerate((10, 20)):
        send(broker.address, TOPIC, [b"x"] * count, partition=partition)
    commit_offsets(broker, GROUP, TOPIC, {0: 4, 1: 20})
    return tools


def ours(broker: BrokerProcess, *arguments: object) -> Ran:
    ran = moldau(*arguments, "-b", broker.address)
    assert (ran.status, ran.err) == (0, "")
    return ran


def theirs(broker: BrokerProcess, session: ToolSession, tool: str, *arguments: object) -> list[str]:
    return session.run(tool, "--bootstrap-server", broker.address, *arguments).lines


def test_the_same_topics_are_listed(broker: BrokerProcess, session: ToolSession) -> None:
    listed = ours(broker, "topic", "list", "--internal", "-o", "name").out.split()
    assert TOPIC in listed
    assert listed == sorted(theirs(broker, session, TOPICS, "--list"))


def test_a_topic_is_described_alike(broker: BrokerProcess, session: ToolSession) -> None:
    (told,) = ours(broker, "topic", "describe", TOPIC, "-o", "json").data
    head, *lines = theirs(broker, session, TOPICS, "--describe", "--topic", TOPIC)
    words = dict(re.findall(r"(\w+): ([^\t\s]+)", head))
    assert words["TopicId"] == told["topic_id"]
    assert int(words["PartitionCount"]) == told["partition_count"]
    assert int(words["ReplicationFactor"]) == told["replication_factor"]
    configs = dict(one.split("=") for one in words["Configs"].split(","))
    assert configs.items() >= told["configs"].items()
    partitions = [dict(re.findall(r"(\w+): (\S+)", line)) for line in lines]
    assert [
        (int(one["Partition"]), int(one["Leader"]), one["Replicas"], one["Isr"])
        for one in partitions
    ] == [
        (one["partition"], one["leader"], _joined(one["replicas"]), _joined(one["isr"]))
        for one in told["partitions"]
    ]


def _joined(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


@pytest.mark.parametrize(("end", "time"), [("earliest", "-2"), ("latest", "-1")])
def test_partitions_begin_and_end_alike(
    broker: BrokerProcess, session: ToolSession, end: str, time: str
) -> None:
    rows = ours(broker, "topic", "offsets", TOPIC, "-o", "json").data
    lines = theirs(broker, session, OFFSETS, "--topic", TOPIC, "--time", time)
    assert [f"{TOPIC}:{row['partition']}:{row[end]}" for row in rows] == sorted(lines)


def lag_of(lines: list[str]) -> set[tuple[str, ...]]:
    """Topic, partition, committed offset, end and lag, as the tool prints them."""
    words = [line.split() for line in lines]
    return {tuple(line[1:6]) for line in words if line and line[0] == GROUP}


def test_a_group_is_as_far_for_both(broker: BrokerProcess, session: ToolSession) -> None:
    text = ours(broker, "group", "describe", GROUP, "-o", "csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    described = theirs(broker, session, GROUPS, "--describe", "--group", GROUP)
    assert lag_of(described) == {
        (row["topic"], row["partition"], row["committed"], row["latest"], row["lag"])
        for row in rows
    }
    assert {row["lag"] for row in rows} == {"6", "0"}


def test_kafkas_tool_finds_a_group_where_it_was_set(
    broker: BrokerProcess, session: ToolSession
) -> None:
    ours(broker, "group", "seek", GROUP, "--to", "-2", "-t", f"{TOPIC}:0", "--yes")
    described = lag_of(theirs(broker, session, GROUPS, "--describe", "--group", GROUP))
    assert (TOPIC, "0", "2", "10", "8") in described
    reset = ("--reset-offsets", "--group", GROUP, "--topic", f"{TOPIC}:0", "--shift-by", "2")
    theirs(broker, session, GROUPS, *reset, "--execute")
    (told,) = ours(broker, "group", "describe", GROUP, "-o", "json").data
    assert [one["committed"] for one in told["offsets"]] == [4, 20]
