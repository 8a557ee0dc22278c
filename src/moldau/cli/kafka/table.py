"""Which of Kafka's names is which command here, and how a name is recognised.

A command is asked for by its script (`kafka-topics`, with or without `.sh` or `.bat`) or, as
`kafka-run-class` is, by the Java class that people have in their scripts. Nothing is imported to
look a name up.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final, NamedTuple

from moldau.cli.kafka.console import Console


class Tool(NamedTuple):
    """One command: where it lives, and the Java classes that were it."""

    module: str
    classes: tuple[str, ...] = ()


TOOLS: Final[dict[str, Tool]] = {
    "kafka-topics": Tool(
        "topics", ("kafka.admin.TopicCommand", "org.apache.kafka.tools.TopicCommand")
    ),
    "kafka-get-offsets": Tool(
        "get_offsets", ("kafka.tools.GetOffsetShell", "org.apache.kafka.tools.GetOffsetShell")
    ),
    "kafka-consumer-groups": Tool(
        "consumer_groups",
        (
            "kafka.admin.ConsumerGroupCommand",
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        ),
    ),
    "kafka-configs": Tool(
        "configs", ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand")
    ),
    "kafka-console-consumer": Tool(
        "console_consumer",
        ("kafka.tools.ConsoleConsumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    ),
    "kafka-console-producer": Tool(
        "console_producer",
        ("kafka.tools.ConsoleProducer", "org.apache.kafka.tools.ConsoleProducer"),
    ),
    "kafka-delete-records": Tool(
        "delete_records",
        ("kafka.admin.DeleteRecordsCommand", "org.apache.kafka.tools.DeleteRecordsCommand"),
    ),
    "kafka-log-dirs": Tool(
        "log_dirs", ("kafka.admin.LogDirsCommand", "org.apache.kafka.tools.LogDirsCommand")
    ),
    "kafka-groups": Tool("groups", ("org.apache.kafka.tools.GroupsCommand",)),
    "kafka-broker-api-versions": Tool(
        "api_versions",
        ("kafka.admin.BrokerApiVersionsCommand", "org.apache.kafka.tools.BrokerApiVersionsCommand"),
    ),
    "kafka-cluster": Tool(
        "cluster", ("kafka.tools.ClusterTool", "org.apache.kafka.tools.ClusterTool")
    ),
    "kafka-leader-election": Tool(
        "leader_election",
        ("kafka.admin.LeaderElectionCommand", "org.apache.kafka.tools.LeaderElectionCommand"),
    ),
    "kafka-transactions": Tool("transactions", ("org.apache.kafka.tools.TransactionsCommand",)),
    "kafka-features": Tool(
        "features", ("kafka.admin.FeatureCommand", "org.apache.kafka.tools.FeatureCommand")
    ),
    "kafka-metadata-quorum": Tool(
        "metadata_quorum",
        ("kafka.admin.MetadataQuorumCommand", "org.apache.kafka.tools.MetadataQuorumCommand"),
    ),
    "kafka-dump-log": Tool(
        "dump_log", ("kafka.tools.DumpLogSegments", "org.apache.kafka.tools.DumpLogSegments")
    ),
    "kafka-run-class": Tool("run_class"),
    "kafka-server-start": Tool("server_start", ("kafka.Kafka",)),
    "kafka-server-stop": Tool("server_stop"),
    "kafka-producer-perf-test": Tool(
        "producer_perf", ("org.apache.kafka.tools.ProducerPerformance",)
    ),
    "kafka-consumer-perf-test": Tool(
        "consumer_perf",
        ("kafka.tools.ConsumerPerformance", "org.apache.kafka.tools.ConsumerPerformance"),
    ),
    "kafka-simple-consumer-shell": Tool("simple_consumer", ("kafka.tools.SimpleConsumerShell",)),
    "kafka-storage": Tool("storage", ("kafka.tools.StorageTool",)),
    "kafka-e2e-latency": Tool(
        "e2e_latency", ("kafka.tools.EndToEndLatency", "org.apache.kafka.tools.EndToEndLatency")
    ),
    "kafka-verifiable-producer": Tool(
        "verifiable_producer", ("org.apache.kafka.tools.VerifiableProducer",)
    ),
    "kafka-verifiable-consumer": Tool(
        "verifiable_consumer", ("org.apache.kafka.tools.VerifiableConsumer",)
    ),
    "zookeeper-server-start": Tool(
        "zookeeper_start", ("org.apache.zookeeper.server.quorum.QuorumPeerMain",)
    ),
    "zookeeper-server-stop": Tool("zookeeper_stop"),
    "zookeeper-shell": Tool(
        "zookeeper_shell",
        (
            "org.apache.zookeeper.ZooKeeperMain",
            "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka",
        ),
    ),
}

ABSENT: Final[dict[str, str]] = {
    "kafka-acls": "access control lists",
    "kafka-client-metrics": "client metrics subscriptions",
    "kafka-console-share-consumer": "share groups",
    "kafka-delegation-tokens": "delegation tokens",
    "kafka-jmx": "JMX (metrics are served for Prometheus)",
    "kafka-metadata-shell": "a shell for metadata snapshots",
    "kafka-reassign-partitions": "moving replicas",
    "kafka-replica-verification": "comparing replicas",
    "kafka-share-consumer-perf-test": "share groups",
    "kafka-share-groups": "share groups",
    "kafka-streams-application-reset": "resetting Streams applications",
    "kafka-streams-groups": "streams groups",
    "kafka-verifiable-share-consumer": "share groups",
}
"""Names of Kafka's for what does not exist here: what they are about."""


def tool_name(given: str) -> str | None:
    """Return the command a script's name or path means; None if it is none of Kafka's."""
    name = PurePath(given).name
    for ending in (".sh", ".bat"):
        name = name.removesuffix(ending)
    return name if name in TOOLS or name in ABSENT else None


def called_tool(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the command of Kafka's that a process was called as, and its arguments.

    The name is that of a link to `moldau`, or the first word after it, as in a script of
    `install-shims`.
    """
    for place, word in enumerate(words[:2]):
        if (name := tool_name(word)) is not None:
            return name, list(words[place + 1 :])
    return None


def tool_of_class(class_name: str) -> str | None:
    """Return the command that a Java class was."""
    return next((name for name, tool in TOOLS.items() if class_name in tool.classes), None)


def run_tool(name: str, arguments: Sequence[str], console: Console | None = None) -> int:
    """Run a command to its end; return its exit status."""
    from moldau.cli.kafka.running import main  # noqa: PLC0415 - looking a name up costs nothing

    console = console or Console.of_process()
    if name in ABSENT:
        console.warn(f"{name}: Moldau does not have this yet: {ABSENT[name]}")
        return 1
    return main(f"moldau.cli.kafka.{TOOLS[name].module}", arguments, console)
