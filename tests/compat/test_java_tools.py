"""Kafka's command line tools, of today and of 1.1, run as a user would run them.

A tool is asked for the exact lines a user reads. Those of 1.1 that speak requests Kafka 4 no
longer takes are for Moldau alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.java import Output, run_class
from kafka_harness.samples import fresh_topic
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import create_topic, end_offset, send
from kits.kafka_command_kit import ours

pytestmark = pytest.mark.java(CURRENT, OLDEST)

TOOLS = "org.apache.kafka.tools"
TEN = [b"%d" % number for number in range(10)]


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.address, fresh_topic("tools"))


@pytest.fixture
def old_requests(broker: BrokerProcess) -> None:
    if broker.kind == "kafka":
        pytest.skip("Kafka 4 no longer takes the requests of this tool (KIP-896)")


Tool = Callable[..., Output]


@pytest.fixture
def tool(broker: BrokerProcess, tools: ToolSession) -> Tool:
    """Run a tool of the current Kafka against the broker."""

    def run(name: str, *arguments: object, stdin: str = "") -> Output:
        full = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
        words = (full, "--bootstrap-server", broker.address, *arguments)
        return run_class(CURRENT, *words, stdin=stdin) if stdin else tools.run(*words)

    return run


@pytest.fixture
def old_tool(broker: BrokerProcess, old_tools: ToolSession) -> Tool:
    """Run a tool of 1.1, where half of them still say `--broker-list`."""

    def run(name: str, *arguments: object, stdin: str = "") -> Output:
        flag = "--broker-list" if name in WITH_BROKER_LIST else "--bootstrap-server"
        words = (name, flag, broker.address, *arguments)
        return run_class(OLDEST, *words, stdin=stdin) if stdin else old_tools.run(*words)

    return run


SIMPLE_SHELL = "kafka-simple-consumer-shell"
WITH_BROKER_LIST = {
    "kafka.tools.ConsoleProducer",
    "kafka.tools.GetOffsetShell",
    "kafka.tools.SimpleConsumerShell",
}


def deletion_file(folder: Path, topic: str, offset: int) -> Path:
    file = folder / "delete.json"
    partition = {"topic": topic, "partition": 0, "offset": offset}
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return file


def test_topics_are_created_described_enlarged_and_deleted(tool):
    topic = fresh_topic("tools-topic")
    said = tool(
        "TopicCommand", "--create", "--topic", topic, "--partitions", 2,
        "--replication-factor", 1, "--config", "retention.ms=60000",
    )  # fmt: skip
    assert said.lines == [f"Created topic {topic}."]
    tool("TopicCommand", "--alter", "--topic", topic, "--partitions", 3)
    summary, *partitions = tool("TopicCommand", "--describe", "--topic", topic).lines
    assert "PartitionCount: 3\tReplicationFactor: 1" in summary
    assert "retention.ms=60000" in summary
    for number, line in enumerate(partitions):
        (leader,) = re.findall(r"Leader: (\d+)", line)
        assert f"Partition: {number}\t" in line
        assert f"Replicas: {leader}\tIsr: {leader}" in line
    tool("TopicCommand", "--delete", "--topic", topic)
    assert topic not in tool("TopicCommand", "--list").lines


def test_what_the_console_producer_reads_the_console_consumer_prints(tool, topic):
    typed = "one:1,two:2\tkey\tvalue\nNULL\tNULL\tno key, no headers\nh:\tgone\tNULL\n"
    reader = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    tool(
        "ConsoleProducer", "--topic", topic,
        *(part for each in reader for part in ("--reader-property", each)), stdin=typed,
    )  # fmt: skip
    formatter = tuple(f"print.{what}=true" for what in ("partition", "offset", "headers", "key"))
    printed = tool(
        "consumer.ConsoleConsumer", "--topic", topic, "--partition", 0,
        "--offset", "earliest", "--max-messages", 3,
        *(part for each in formatter for part in ("--formatter-property", each)),
    )  # fmt: skip
    assert printed.lines == [
        "Partition:0\tOffset:0\tone:1,two:2\tkey\tvalue",
        "Partition:0\tOffset:1\tNO_HEADERS\tnull\tno key, no headers",
        "Partition:0\tOffset:2\th:\tgone\tnull",
    ]


def test_offsets_deletion_and_log_directories_agree(broker, tool, topic, tmp_path):
    send(broker.address, topic, TEN)
    assert tool("GetOffsetShell", "--topic", topic).lines == [f"{topic}:0:10"]
    file = deletion_file(tmp_path, topic, 4)
    deleted = tool("DeleteRecordsCommand", "--offset-json-file", file)
    assert f"partition: {topic}-0\tlow_watermark: 4" in deleted.lines
    earliest = tool("GetOffsetShell", "--topic", topic, "--time", "earliest")
    assert earliest.lines == [f"{topic}:0:4"]
    described = tool("LogDirsCommand", "--describe", "--topic-list", topic)
    assert log_directories(described) == {
        str(broker.data): [(f"{topic}-0", log_size(broker, topic))]
    }


def log_directories(said: Output) -> dict[str, list[tuple[str, int]]]:
    """Return folder -> (partition, size) as the tool's line of JSON has it."""
    (only,) = json.loads(said.lines[-1])["brokers"]
    return {
        folder["logDir"]: [(each["partition"], each["size"]) for each in folder["partitions"]]
        for folder in only["logDirs"]
    }


def log_size(broker: BrokerProcess, topic: str) -> int:
    return sum(file.stat().st_size for file in (broker.data / f"{topic}-0").glob("*.log"))


def test_a_topic_config_is_altered_and_described(tool, topic):
    about = ("--entity-type", "topics", "--entity-name", topic)
    tool("kafka.admin.ConfigCommand", *about, "--alter", "--add-config", "retention.ms=70000")
    header, *configs = tool("kafka.admin.ConfigCommand", *about, "--describe").lines
    assert header == f"Dynamic configs for topic {topic} are:"
    assert configs == [
        "  retention.ms=70000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=70000}"
    ]


def test_the_newest_data_and_topic_requests_are_usable(tool):
    said = tool("BrokerApiVersionsCommand").stdout
    usable = dict(re.findall(r"(\w+)\(\d+\): \d+(?: to \d+)? \[usable: (\d+)\]", said))
    newest = {
        "Produce": "13", "Fetch": "18", "ListOffsets": "11", "Metadata": "13", "ApiVersions": "4",
        "CreateTopics": "7", "DeleteTopics": "6", "DeleteRecords": "2", "CreatePartitions": "3",
        "InitProducerId": "5", "DescribeConfigs": "4", "IncrementalAlterConfigs": "1",
    }  # fmt: skip
    assert {name: usable.get(name) for name in newest} == newest


def test_the_load_generator_writes_all_its_records(broker, tool, topic):
    said = tool(
        "ProducerPerformance", "--topic", topic, "--num-records", 20_000,
        "--record-size", 100, "--throughput", -1,
    )  # fmt: skip
    assert said.lines[-1].startswith("20000 records sent")
    assert end_offset(broker.address, topic) == 20_000


def test_old_console_tools_write_and_read(old_tool, topic):
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    old_tool("kafka.tools.ConsoleProducer", "--topic", topic, *keyed, stdin="a:one\nb:two\n")
    printed = old_tool(
        "kafka.tools.ConsoleConsumer", "--topic", topic, "--partition", 0,
        "--offset", "earliest", "--max-messages", 2, "--property", "print.key=true",
        "--consumer-property", "enable.auto.commit=false",
    )  # fmt: skip
    assert printed.lines == ["a\tone", "b\ttwo"]


def test_old_deletion_tool_deletes(broker, old_tool, topic, tmp_path):
    send(broker.address, topic, TEN)
    file = deletion_file(tmp_path, topic, 4)
    said = old_tool("kafka.admin.DeleteRecordsCommand", "--offset-json-file", file)
    assert said.lines[-1] == f"partition: {topic}-0\tlow_watermark: 4"


def test_old_api_versions_tool_finds_its_own_versions(old_tool):
    said = old_tool("kafka.admin.BrokerApiVersionsCommand").stdout
    usable = dict(re.findall(r"(\w+)\(\d+\): \d+(?: to \d+)? \[usable: (\d+)\]", said))
    newest = {
        "Produce": "5",
        "Fetch": "7",
        "ListOffsets": "2",
        "Metadata": "5",
        "CreateTopics": "2",
    }
    assert {name: usable.get(name) for name in newest} == newest


@pytest.mark.usefixtures("old_requests")
def test_old_offset_tool_asks_in_the_first_version(broker, old_tool, topic):
    send(broker.address, topic, TEN)
    latest = old_tool("kafka.tools.GetOffsetShell", "--topic", topic, "--time", -1)
    assert latest.lines == [f"{topic}:0:10"]
    earliest = old_tool("kafka.tools.GetOffsetShell", "--topic", topic, "--time", -2)
    assert earliest.lines == [f"{topic}:0:0"]


@pytest.mark.usefixtures("old_requests")
def test_old_log_directories_tool_sees_the_folder(broker, old_tool, topic):
    send(broker.address, topic, TEN)
    said = old_tool("kafka.admin.LogDirsCommand", "--describe", "--topic-list", topic)
    assert log_directories(said) == {str(broker.data): [(f"{topic}-0", log_size(broker, topic))]}


@pytest.mark.usefixtures("old_requests")
def test_old_simple_consumer_reads_converted_messages(broker, old_tool, topic):
    """It fetches in a version that knows no batches: they are converted down for it."""
    send(broker.address, topic, TEN)
    words = ("--topic", topic, "--partition", 0, "--offset", -2, "--no-wait-at-logend")
    said = old_tool("kafka.tools.SimpleConsumerShell", *words)
    *values, last = said.lines
    assert values == [value.decode() for value in TEN]
    assert last == f"Terminating. Reached the end of partition ({topic}, 0) at offset 10"
    assert ours(SIMPLE_SHELL, "--broker-list", broker.address, *words) == said


@pytest.mark.usefixtures("old_requests")
@pytest.mark.parametrize(
    ("words", "lines", "status"),
    [
        (("--offset", 7, "--print-offsets", "--max-messages", 2), 4, 0),
        (("--offset", -1, "--no-wait-at-logend"), 1, 0),
        (("--property", "print.key=true", "--max-messages", 3), 3, 0),
        (("--partition", 9), 0, 1),
        (("--replica", 77), 0, 1),
        (("--offset", -3), 0, 1),
    ],
)
def test_our_simple_consumer_says_what_the_old_one_says(
    broker, old_tools, topic, words, lines, status
):
    for value in TEN:
        send(broker.address, topic, [value])  # the old one prints a batch from its beginning
    words = ("--broker-list", broker.address, "--topic", topic, *words)
    theirs = old_tools.run("kafka.tools.SimpleConsumerShell", *words, check=False)
    own = ours(SIMPLE_SHELL, *words)
    assert own == theirs
    assert (len(own.lines), own.status) == (lines, status)
