"""`__consumer_offsets` and `__transaction_state`: what Kafka's tools and Kafka itself read in them.

A folder goes from Apache Kafka to the broker under test and back to Kafka. Both do the same with
groups and transactions, under names of their own, and leave one transaction open. Each must find
what the other has left; Kafka's formatters must print of both the same records; its dump tool must
be able to read every file in between.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.java import Output, run_class
from kafka_harness.kafka_node import NODE_ID, KafkaNode
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.moldau_node import MoldauNode
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from kits.kafka_command_kit import ours
from kits.tool_kit import CONSOLE_CONSUMER, DUMP, TOOLS, commit_offsets
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.data import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.groups import DescribeGroupsRequest
from moldau.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.transactions import (
    DescribeTransactionsRequest,
)
from moldau.records.batch import iter_batches, parse_header
from process.raw_client import RawClient

pytestmark = pytest.mark.java(CURRENT, OLDEST)

OFFSETS, STATES = "__consumer_offsets", "__transaction_state"
FORMATTERS = {
    "offsets": (OFFSETS, "OffsetsMessageFormatter"),
    "groups": (OFFSETS, "GroupMetadataMessageFormatter"),
    "transactions": (STATES, "TransactionLogMessageFormatter"),
}
VALUES = [b"%d" % number for number in range(5)]
DEADLINE_S = 60
STARTING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What a broker answers while it takes its partitions over."""
TRANSACTION_TIMEOUT_MS = 600_000
"""An open transaction stays open until the folder has changed hands."""

Printed = dict[str, list[Any]]
"""What a formatter printed, by the group or transactional id it is about, in order."""


class Transaction(NamedTuple):
    """What a coordinator tells of a transactional id."""

    state: str
    producer_id: int
    epoch: int
    partitions: tuple[tuple[str, int], ...]


class Seen(NamedTuple):
    """What a broker tells of the groups and transactions in its folder."""

    offsets: dict[str, dict[tuple[str, int], tuple[int, str]]]
    groups: dict[str, str]
    transactions: dict[str, Transaction]
    values: list[bytes]
    """Everything in the topic, in order, whatever became of it."""
    committed: list[bytes]
    stable_end: int


@dataclass
class Handover:
    """The way of a folder: what each broker found and what it left."""

    folder: Path
    seen: dict[str, Seen] = field(default_factory=dict)
    printed: dict[str, dict[str, Printed]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def handover(tmp_path_factory: pytest.TempPathFactory, tools: ToolSession) -> Handover:
    """Lead a folder from Kafka to the broker under test and back."""
    folder = tmp_path_factory.mktemp("handover")
    found = Handover(folder)
    with KafkaNode(folder) as kafka:
        create_topic(kafka.address, "in", 2)
        create_topic(kafka.address, "out")
        send(kafka.address, "in", VALUES)
        act(kafka, "kafka")
        found.seen["left by kafka"] = seen(kafka, "kafka")
        found.printed["kafka"] = printed(tools, kafka)
    settings = {"node.id": str(NODE_ID), "group.initial.rebalance.delay.ms": "0"}
    with make_broker(kind_under_test(), folder, settings) as broker:
        found.seen["found by the broker"] = seen(broker, "kafka")
        act(broker, "moldau")
        take_over(broker, "kafka")
        found.seen["left by the broker"] = seen(broker, "kafka", "moldau")
        found.printed["moldau"] = printed(tools, broker)
    shutil.copytree(broker.data, folder / "between")
    with KafkaNode(folder) as kafka:
        found.seen["found by kafka"] = seen(kafka, "kafka", "moldau")
        take_over(kafka, "moldau")
        found.seen["in the end"] = seen(kafka, "kafka", "moldau")
    return found


# What is done on each broker


def act(broker: BrokerProcess, who: str) -> None:
    """Commit, consume and produce in transactions, under names with `who` in them."""
    commit_offsets(broker, f"committed-by-{who}", "in", {0: 4, 1: 0})
    member = Consumer({
        "bootstrap.servers": broker.address, "group.id": f"consumed-by-{who}",
        "client.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False,
    })  # fmt: skip
    member.subscribe(["in"])
    assert len(member.consume(len(VALUES), DEADLINE_S)) == len(VALUES)
    member.commit(asynchronous=False)
    one = transactional(broker, f"committing-{who}")
    one.produce("out", f"committed by {who}".encode())
    one.flush(DEADLINE_S)  # so that the partition is added before the offsets, on either broker
    one.send_offsets_to_transaction(
        [TopicPartition("in", 0, 3)], member.consumer_group_metadata(), DEADLINE_S
    )
    one.commit_transaction(DEADLINE_S)
    member.close()
    other = transactional(broker, f"aborting-{who}")
    other.produce("out", f"aborted by {who}".encode())
    other.flush(DEADLINE_S)
    other.abort_transaction(DEADLINE_S)
    left = transactional(broker, f"leaving-{who}")
    left.produce("out", f"left open by {who}".encode())
    left.flush(DEADLINE_S)
    wait_until_at_rest(broker, who)


def transactional(broker: BrokerProcess, name: str) -> Producer:
    """Begin a transaction."""
    producer = Producer({
        "bootstrap.servers": broker.address, "transactional.id": name,
        "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    })  # fmt: skip
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    return producer


def take_over(broker: BrokerProcess, who: str) -> None:
    """Come back as the producer whose transaction was left open: that ends it."""
    producer = transactional(broker, f"leaving-{who}")
    producer.produce("out", f"taken over from {who}".encode())
    producer.commit_transaction(DEADLINE_S)
    wait_until_at_rest(broker, who)


def wait_until_at_rest(broker: BrokerProcess, who: str) -> None:
    """Wait until every marker is written: a producer is told of its end before that."""
    eventually(
        lambda: not any("Prepare" in one.state for one in seen_transactions(broker, who).values()),
        "all that was decided is done",
    )


# What is seen of it


def seen(broker: BrokerProcess, *who: str) -> Seen:
    """Ask for everything that was done by some, once the coordinators have started."""
    names = [f"{how}-by-{one}" for one in who for how in ("committed", "consumed")]
    with RawClient((broker.host, broker.port)) as client:
        request = DescribeGroupsRequest(names)
        described = ask(client, request, 4, lambda all_: [one.error_code for one in all_.groups])
        return Seen(
            {name: seen_offsets(client, name) for name in names},
            {one.group_id: one.group_state for one in described.groups},
            seen_transactions(broker, *who),
            values(broker, "read_uncommitted"),
            values(broker, "read_committed"),
            end_offset(client, "out", isolation=1),
        )


def values(broker: BrokerProcess, isolation: str) -> list[bytes]:
    """Read the topic as a real client does, up to where it is told that there is no more."""
    consumer = Consumer({
        "bootstrap.servers": broker.address, "group.id": "looking", "isolation.level": isolation,
        "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    consumer.assign([TopicPartition("out", 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    try:
        while (message := consumer.poll(DEADLINE_S)) is not None:
            if message.error() is None:
                found.append(message.value())
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()
    raise AssertionError(f"no end of the topic within {DEADLINE_S} s")


def ask(client: RawClient, request: Any, version: int, codes: Callable[[Any], list[int]]) -> Any:
    """Ask until the coordinators have started."""

    def call() -> Any:
        answer = client.call(request, version)
        return None if set(codes(answer)) & STARTING else answer

    return eventually(call, f"{type(request).__name__} is answered", DEADLINE_S)


def seen_offsets(client: RawClient, group: str) -> dict[tuple[str, int], tuple[int, str]]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)])
    answer = ask(client, request, 8, lambda answer: [one.error_code for one in answer.groups])
    return {
        (topic.name, one.partition_index): (one.committed_offset, one.metadata)
        for topic in answer.groups[0].topics
        for one in topic.partitions
    }


def seen_transactions(broker: BrokerProcess, *who: str) -> dict[str, Transaction]:
    names = [f"{how}-{one}" for one in who for how in ("committing", "aborting", "leaving")]
    with RawClient((broker.host, broker.port)) as client:
        answer = ask(
            client,
            DescribeTransactionsRequest(names),
            0,
            lambda all_: [one.error_code for one in all_.transaction_states],
        )
    return {
        one.transactional_id: Transaction(
            one.transaction_state,
            one.producer_id,
            one.producer_epoch,
            tuple((topic.topic, index) for topic in one.topics for index in topic.partitions),
        )
        for one in answer.transaction_states
    }


def end_offset(
    client: RawClient, topic: str = "out", partition: int = 0, isolation: int = 0
) -> int:
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(partition, timestamp=-1)])
    answer = ask(
        client,
        ListOffsetsRequest(-1, isolation, [asked]),
        5,
        lambda answer: [answer.topics[0].partitions[0].error_code],
    )
    (found,) = answer.topics[0].partitions
    assert found.error_code == 0, ErrorCode(found.error_code).name
    return int(found.offset)


def printed(tools: ToolSession, broker: BrokerProcess) -> dict[str, Printed]:
    """Let Kafka's formatters print both topics."""
    return {
        what: formatted(tools, broker, topic, formatter)
        for what, (topic, formatter) in FORMATTERS.items()
    }


def formatted(tools: ToolSession, broker: BrokerProcess, topic: str, formatter: str) -> Printed:
    """Let the console consumer print all that is in each partition, without a group of its own."""
    found: Printed = {}
    for partition, count in record_counts(broker, topic).items():
        output = tools.run(
            CONSOLE_CONSUMER, "--bootstrap-server", broker.address, "--topic", topic,
            "--partition", partition, "--offset", "earliest", "--max-messages", count,
            "--timeout-ms", DEADLINE_S * 1000, "--formatter", f"{TOOLS}.consumer.{formatter}",
        )  # fmt: skip
        for one in each_json(output.stdout):
            about = one["key"]["data"]
            found.setdefault(about.get("group") or about["transactionalId"], []).append(one)
    return found


def record_counts(broker: BrokerProcess, topic: str) -> dict[int, int]:
    """Count the records that a consumer is given, all but markers, where there are any."""
    counts: dict[int, int] = {}
    with RawClient((broker.host, broker.port)) as client:
        for partition in range(50):
            offset, end = 0, end_offset(client, topic, partition)
            while offset < end:
                data = bytes(client.fetch(topic, offset, partition).records)
                for span in iter_batches(data, allow_cut=True):
                    header = parse_header(data, span.position)
                    counts[partition] = counts.get(partition, 0)
                    counts[partition] += 0 if header.control else header.count
                    offset = header.next_offset
    return counts


def each_json(text: str) -> Iterator[Any]:
    """Read one JSON after the other, with nothing or a line end between them."""
    decoder, rest = json.JSONDecoder(), text.strip()
    while rest:
        value, length = decoder.raw_decode(rest)
        yield value
        rest = rest[length:].lstrip()


# What must be so


def test_the_broker_finds_what_kafka_has_left(handover):
    left, found = handover.seen["left by kafka"], handover.seen["found by the broker"]
    assert found == left
    assert found.offsets["committed-by-kafka"] == {("in", 0): (4, ""), ("in", 1): (0, "")}
    assert found.offsets["consumed-by-kafka"][("in", 0)] == (3, "")
    assert found.transactions["leaving-kafka"].state == "Ongoing"
    assert found.transactions["leaving-kafka"].partitions == (("out", 0),)
    assert found.committed == [b"committed by kafka"]
    assert len(found.values) == 3


def test_kafka_finds_what_the_broker_has_left(handover):
    left, found = handover.seen["left by the broker"], handover.seen["found by kafka"]
    assert found == left
    assert found.offsets["committed-by-moldau"] == {("in", 0): (4, ""), ("in", 1): (0, "")}
    assert found.offsets["consumed-by-moldau"][("in", 0)] == (3, "")
    assert found.transactions["leaving-moldau"].state == "Ongoing"
    assert found.transactions["leaving-kafka"].state == "CompleteCommit"


def test_a_transaction_left_open_holds_readers_back_until_its_producer_returns(handover):
    assert handover.seen["found by the broker"].stable_end == 4
    assert b"committed by moldau" not in handover.seen["left by the broker"].committed[:1]
    last = handover.seen["in the end"]
    assert last.committed == [
        b"committed by kafka",
        b"committed by moldau",
        b"taken over from kafka",
        b"taken over from moldau",
    ]
    assert not any("Ongoing" in one.state for one in last.transactions.values())


def test_a_producer_goes_on_under_its_id_and_a_later_epoch(handover):
    before = handover.seen["found by the broker"].transactions["leaving-kafka"]
    after = handover.seen["left by the broker"].transactions["leaving-kafka"]
    assert after.producer_id == before.producer_id
    assert after.epoch > before.epoch


def test_producer_ids_are_never_given_twice(handover):
    last = handover.seen["in the end"].transactions
    ids = [one.producer_id for one in last.values()]
    assert len(set(ids)) == len(ids) == 6


@pytest.mark.parametrize("what", FORMATTERS)
def test_kafkas_formatters_print_the_same_of_both(handover, what):
    theirs = without_names(handover.printed["kafka"][what], "kafka")
    ours = without_names(handover.printed["moldau"][what], "moldau")
    assert theirs
    if what == "offsets":
        # Kafka 4.3 does not look up the ids of topics in a transactional commit.
        ours["consumed-by-"][-1]["value"]["data"].pop("topicId", None)
    assert ours == theirs


def without_names(printed: Printed, who: str) -> dict[str, Any]:
    """Keep the records of one broker's doing, without names, times, and ids it has chosen."""
    found: dict[str, Any] = {}
    for about, records in printed.items():
        if about.endswith(who) and "leaving" not in about:
            text = json.dumps(records).replace(who, "<who>")
            text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<random>", text)
            text = re.sub(r'("\w*[tT]imestamp\w*"): \d{13}', r'\1: "<now>"', text)
            text = re.sub(r'("\w*[pP]roducerId"): \d+', r'\1: "<given>"', text)
            # The partition of a group's offsets depends on its name.
            text = re.sub(r'("__consumer_offsets", "partitionIds"): \[\d+\]', r"\1: []", text)
            found[about.removesuffix(who)] = json.loads(text)
    return found


# The files


@pytest.mark.parametrize(
    ("topic", "decoder", "expected"),
    [
        (OFFSETS, "--offsets-decoder", ("committed-by-kafka", "consumed-by-moldau")),
        (STATES, "--transaction-log-decoder", ("committing-kafka", "leaving-moldau")),
    ],
)
def test_kafkas_dump_tool_decodes_the_files_between_the_brokers(
    handover, tools, topic, decoder, expected
):
    said = tools.run(DUMP, decoder, "--files", joined(handover, f"{topic}-*/*.log")).stdout
    assert "isvalid: false" not in said
    for name in expected:
        assert re.search(rf"payload: .*{name}", said) or re.search(rf"key: .*{name}", said), said


def test_kafkas_dump_tool_finds_indexes_snapshots_and_aborted_transactions_in_order(
    handover, tools
):
    for pattern in ("*-*/*.index", "*-*/*.timeindex"):
        files = joined(handover, pattern)
        said = tools.run(DUMP, "--index-sanity-check", "--files", files).stdout
        checked = said.count("passed sanity check") + said.count("is empty")
        assert checked == files.count(",") + 1
    aborted = tools.run(DUMP, "--files", joined(handover, "out-0/*.txnindex")).stdout
    assert aborted.count("producerId") == 3, "two were aborted, a third was left open"
    snapshots = tools.run(DUMP, "--files", joined(handover, "out-0/*.snapshot")).stdout
    assert snapshots.count("producerId") >= 5


def joined(handover: Handover, pattern: str) -> str:
    files = sorted((handover.folder / "between").glob(pattern))
    assert files, pattern
    return ",".join(str(file) for file in files)


# Kafka 1.1


def test_the_formatters_of_1_1_read_what_is_written_for_them(tmp_path):
    settings = {"inter.broker.protocol.version": "1.1", "group.initial.rebalance.delay.ms": "0"}
    with MoldauNode(tmp_path, settings) as broker:
        topic = create_topic(broker.address, "read")
        send(broker.address, topic, VALUES)
        consumer = Consumer({
            "bootstrap.servers": broker.address, "group.id": "KafkaConsumerDemo",
            "client.id": "reader", "auto.offset.reset": "earliest", "enable.auto.commit": False,
        })  # fmt: skip
        consumer.subscribe([topic])
        assert len(consumer.consume(len(VALUES), DEADLINE_S)) == len(VALUES)
        consumer.commit(asynchronous=False)
        said = said_by_1_1(broker, "OffsetsMessageFormatter")
        assert "[KafkaConsumerDemo,read,0]::[OffsetMetadata[5,NO_METADATA]," in said
        group = said_by_1_1(broker, "GroupMetadataMessageFormatter")
        assert "groupId=KafkaConsumerDemo, generation=1, protocolType=Some(consumer)" in group
        assert "clientId=reader, clientHost=/127.0.0.1" in group
        consumer.close()


def said_by_1_1(broker: BrokerProcess, formatter: str) -> str:
    """Read partition 35, where the group of this name belongs, as a user of 1.1 would.

    Our command of that name prints the same.
    """
    words = (
        "kafka.tools.SimpleConsumerShell", "--broker-list", broker.address,
        "--topic", OFFSETS, "--partition", 35, "--no-wait-at-logend",
        "--formatter", f"kafka.coordinator.group.GroupMetadataManager${formatter}",
    )  # fmt: skip
    theirs = run_class(OLDEST, *words).stdout
    assert ours("kafka-run-class", *words) == Output(theirs, "", 0)
    return theirs
