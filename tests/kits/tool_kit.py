"""Apache Kafka and the broker under test in the same state, and what Kafka's tools print of each.

What a tool prints is compared line by line. Only what a broker must choose for itself is replaced:
its port and the random part of a member's id. The order of lines is the order of
a hash map in the tool, and the width of columns follows the widest word, so both are set aside.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_harness.broker import BrokerProcess
from kafka_harness.java import Output
from kafka_harness.kafka_node import NODE_ID
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.tool_session import ToolSession
from kafka_harness.waiting import eventually
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from process.raw_client import RawClient

TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
CONSOLE_CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"
DUMP = f"{TOOLS}.DumpLogSegments"
OLD_GROUPS = "kafka.admin.ConsumerGroupCommand"

SETTINGS = {
    "node.id": str(NODE_ID),
    "group.initial.rebalance.delay.ms": "0",
    "transaction.partition.verification.enable": "false",
}
"""What makes both alike, and lets a transaction hang: brokers that verify (KIP-890) let none."""

_COORDINATOR_STARTS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_COMMIT_VERSION = 8
"""The last but one of OffsetCommit that names topics by their names."""

_RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Twins:
    """Two brokers that were told the same, and a session of tools to ask both."""

    def __init__(self, kafka: BrokerProcess, other: BrokerProcess, session: ToolSession) -> None:
        self.brokers = (kafka, other)
        self.session = session

    def outputs(
        self, tool: str, *arguments: object, flag: str = "--bootstrap-server"
    ) -> list[Output]:
        """Run a tool on each broker; whatever its status is."""
        return [
            self.session.run(tool, flag, broker.address, *arguments, check=False)
            for broker in self.brokers
        ]

    def same(self, tool: str, *arguments: object) -> list[str]:
        """Run a tool on both; return its lines, in order, when both say the same."""
        theirs, ours = (
            (output.status, self.lines(broker, output))
            for broker, output in zip(self.brokers, self.outputs(tool, *arguments), strict=True)
        )
        assert ours == theirs, f"{tool} {' '.join(map(str, arguments))}"
        return ours[1]

    def lines(self, broker: BrokerProcess, output: Output) -> list[str]:
        """What a tool printed, without what must differ."""
        text = _RANDOM.sub("<random>", output.stdout + output.stderr)
        text = text.replace(str(broker.port), "<port>")
        lines = (" ".join(line.split()) for line in text.splitlines())
        return sorted(line for line in lines if line)


def commit_offsets(
    broker: BrokerProcess, group: str, topic: str, offsets: Mapping[int, int]
) -> None:
    """Commit offsets for a group without members; Kafka's coordinators take their time to start."""
    partitions = [
        OffsetCommitRequestPartition(partition, offset, committed_metadata="")
        for partition, offset in offsets.items()
    ]
    wanted = [OffsetCommitRequestTopic(topic, partitions=partitions)]
    request = OffsetCommitRequest(group, topics=wanted)
    with RawClient((broker.host, broker.port)) as client:

        def commit() -> set[int]:
            client.call(FindCoordinatorRequest(group), 0)  # makes the topic where there is none
            (answer,) = client.call(request, _COMMIT_VERSION).topics
            return {one.error_code for one in answer.partitions} - _COORDINATOR_STARTS

        codes = eventually(commit, f"{group} has a coordinator")
    assert codes == {ErrorCode.NONE}


@contextlib.contextmanager
def started_twins(directory: Path, session: ToolSession) -> Iterator[Twins]:
    """Start both brokers, for a session of tools."""
    kafka = make_broker("kafka", directory / "kafka", SETTINGS)
    other = make_broker(kind_under_test(), directory / "other", SETTINGS)
    with kafka, other:
        yield Twins(kafka, other, session)
