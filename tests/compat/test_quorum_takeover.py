"""Three nodes of Apache Kafka are stopped, start as three of Moldau, and go back; nothing is lost.

The folders stay where they are, and so do the files with the settings: both kinds of node start
with the same `server.properties`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_harness.broker import CLUSTER_ID, START_TIMEOUT_S, BrokerProcess, HangingBrokerError
from kafka_harness.cluster import REPLICATION
from kafka_harness.distribution import CURRENT
from kafka_harness.java import Output, run_class
from kafka_harness.kafka_node import KafkaNode
from kafka_harness.memberships import in_quorum
from kafka_harness.moldau_node import MOLDAU
from kafka_harness.topics import create_topic, read_all, send, topic_config
from kafka_harness.waiting import eventually
from kafka_harness.wire import wait_until_answered
from moldau.base.clock import system_random
from moldau.base.ids import random_uuid, uuid_text

pytestmark = pytest.mark.java(CURRENT)

NODES = (1, 2, 3)
REPLICAS = len(NODES)
GROUP = "readers"
TIMEOUT_S = 60
NOT_LOADED_YET = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._WAIT_COORD,
}
CONFIG = {"retention.ms": "123456789", "max.message.bytes": "654321"}


Nodes = Mapping[int, BrokerProcess]


class Here(BrokerProcess):
    """Moldau in the folder of a node of Kafka's, with the settings that lie there."""

    kind = "moldau"

    def __init__(self, theirs: KafkaNode) -> None:
        super().__init__(theirs.directory)
        self.port = theirs.port

    def version(self) -> str:
        return "Moldau"

    def command(self) -> list[str]:
        return [str(MOLDAU), "serve", "--config", str(self.directory / "server.properties")]


class DynamicKafka(KafkaNode):
    """Kafka's node with voters in the log."""

    first_voters = ""

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.write_properties(self._configs())
        if not (self.data / "meta.properties").exists():
            words = ("format", "-t", CLUSTER_ID, "--initial-controllers", self.first_voters)
            run_class(self.release, "kafka.tools.StorageTool", *words, "-c", file)

    def _configs(self) -> dict[str, str]:
        configs = super()._configs()
        del configs["controller.quorum.voters"]
        return configs


def kafka_nodes(directory: Path, kind: type[KafkaNode] = KafkaNode) -> dict[int, KafkaNode]:
    nodes = {node: kind(directory / f"node-{node}", REPLICATION) for node in NODES}
    for node, membership in in_quorum(nodes, set(NODES)).items():
        nodes[node].join(membership)
    return nodes


def dynamic_nodes(directory: Path) -> dict[int, KafkaNode]:
    """Return nodes whose first voters the format tool writes."""
    nodes = kafka_nodes(directory, DynamicKafka)
    named = nodes[1].settings["controller.quorum.voters"].split(",")
    chance = system_random()
    DynamicKafka.first_voters = ",".join(f"{one}:{uuid_text(random_uuid(chance))}" for one in named)
    for node in nodes.values():
        node.settings["controller.quorum.bootstrap.servers"] = ",".join(
            one.partition("@")[2] for one in named
        )
    return nodes


def address(nodes: Nodes) -> str:
    return ",".join(node.address for node in nodes.values())


def start(nodes: Nodes) -> None:
    """Start all at once, and wait until they are one cluster."""
    for node in nodes.values():
        node.launch()
    wait_for_members(nodes, nodes)


def wait_for_members(nodes: Nodes, wanted: Nodes) -> None:
    for node in wanted.values():
        answered = wait_until_answered(
            node.host, node.port, lambda node=node: node.running, START_TIMEOUT_S
        )
        assert answered, node.tail()
    admin = AdminClient({"bootstrap.servers": address(wanted)})
    eventually(
        lambda: set(admin.list_topics(timeout=TIMEOUT_S).brokers) == set(wanted),
        f"brokers {set(wanted)} are there",
    )


def stop(nodes: Nodes) -> None:
    """Ask all at once to stop: the last ones have no majority to be let go by."""
    with ThreadPoolExecutor(len(nodes)) as threads:
        list(threads.map(_stop, nodes.values()))


def _stop(node: BrokerProcess) -> None:
    """Ask one to stop. A node of Kafka without a majority waits for one, and has to be killed."""
    with suppress(HangingBrokerError) if isinstance(node, KafkaNode) else nullcontext():
        node.stop()


@contextmanager
def running(nodes: Nodes) -> Iterator[str]:
    """Run nodes together, and stop them in good order; return where clients find them."""
    try:
        start(nodes)
        yield address(nodes)
        stop(nodes)
    finally:
        for node in nodes.values():
            node.kill()


def commit(at: str, topic: str, offset: int) -> None:
    """Commit an offset of a group, as soon as its coordinator has loaded."""
    ask_coordinator(
        at,
        lambda consumer: consumer.commit(
            offsets=[TopicPartition(topic, 0, offset)], asynchronous=False
        ),
    )


def committed(at: str, topic: str) -> int:
    asked = [TopicPartition(topic, 0)]
    (found,) = ask_coordinator(at, lambda consumer: consumer.committed(asked, timeout=TIMEOUT_S))
    return int(found.offset)


Ask = Callable[[Consumer], list[TopicPartition]]


def ask_coordinator(at: str, ask: Ask) -> list[TopicPartition]:
    consumer = Consumer({"bootstrap.servers": at, "group.id": GROUP})

    def answered() -> list[TopicPartition]:
        try:
            return ask(consumer)
        except KafkaException as refused:
            if refused.args[0].code() not in NOT_LOADED_YET:
                raise
            return []

    try:
        return eventually(answered, "the group has a coordinator")
    finally:
        consumer.close()


def leader(at: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": at})
    return int(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions[0].leader)


def wait_in_sync(at: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": at})
    eventually(
        lambda: all(
            len(one.isrs) == REPLICAS
            for one in admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions.values()
        ),
        f"{topic} is in sync",
    )


def assert_has(at: str, topic: str, values: list[bytes], offset: int) -> None:
    """Compare the records, the settings and the group's offset of a topic."""
    wait_in_sync(at, topic)
    assert read_all(at, topic) == values
    assert {name: topic_config(at, topic, name) for name in CONFIG} == CONFIG
    assert committed(at, topic) == offset


def fill(at: str, topic: str, values: list[bytes]) -> None:
    """Create a topic, write to it, and commit an offset of a group."""
    create_topic(at, topic, 1, CONFIG, REPLICAS)
    send(at, topic, values)
    commit(at, topic, 1)


def assert_decoded(dump: Callable[..., Output], nodes: Nodes, topics: list[str]) -> None:
    """Let Kafka's own tool read the metadata log and the snapshots of every node."""
    for node in nodes.values():
        folder = node.data / "__cluster_metadata-0"
        logs, snapshots = sorted(folder.glob("*.log")), sorted(folder.glob("*.checkpoint"))
        said = dump(
            "--files", ",".join(map(str, [*logs, *snapshots])), "--cluster-metadata-decoder"
        ).stdout
        assert "isvalid: false" not in said
        for topic in topics:
            assert f'"name":"{topic}"' in said


@pytest.mark.timeout(480)
@pytest.mark.parametrize(
    "make",
    [
        kafka_nodes,
        pytest.param(dynamic_nodes, marks=pytest.mark.long),
    ],
    ids=["voters in the settings", "voters in the log"],
)
def test_three_nodes_go_from_kafka_to_moldau_and_back(tmp_path, dump, make):
    theirs = make(tmp_path)
    with running(theirs) as at:
        fill(at, "theirs", [b"one", b"two"])

    moldau = {node: Here(one) for node, one in theirs.items()}
    with running(moldau) as at:
        assert_has(at, "theirs", [b"one", b"two"], offset=1)
        send(at, "theirs", [b"three"])
        commit(at, "theirs", 2)
        fill(at, "ours", [b"four"])
        killed = leader(at, "theirs")
        moldau[killed].kill()
        left = {node: one for node, one in moldau.items() if node != killed}
        wait_for_members(moldau, left)
        send(address(left), "theirs", [b"five"])
        moldau[killed].start()
        wait_for_members(moldau, moldau)
        for topic in ("theirs", "ours"):
            wait_in_sync(at, topic)
    assert_decoded(dump, moldau, ["theirs", "ours"])

    with running(theirs) as at:
        assert_has(at, "theirs", [b"one", b"two", b"three", b"five"], offset=2)
        assert_has(at, "ours", [b"four"], offset=1)
        send(at, "ours", [b"six"])
        assert read_all(at, "ours") == [b"four", b"six"]
    assert_decoded(dump, theirs, ["theirs", "ours"])
