"""The formatters of the console consumer for internal topics, compared with Kafka's own."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer

from kafka_harness.distribution import CURRENT
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, end_offset, send
from kafka_harness.waiting import eventually
from kits.kafka_command_kit import Commands
from kits.tool_kit import commit_offsets
from moldau.coordination.hashing import partition_of

pytestmark = pytest.mark.java(CURRENT)

CONSUMER = "kafka-console-consumer"
PACKAGE = "org.apache.kafka.tools.consumer"
OFFSETS, STATES = "__consumer_offsets", "__transaction_state"
PARTITION_COUNT = 50
"""Of either topic, unless a broker is told otherwise."""


def coordinated(commands: Commands, topic: str, key: str) -> tuple[int, int]:
    """Return where in an internal topic what comes next of a group or a producer is written."""
    partition = partition_of(key, PARTITION_COUNT)
    return partition, end_offset(commands.broker.address, topic, partition)


def since(commands: Commands, topic: str, place: tuple[int, int]) -> tuple[object, ...]:
    """Return the words by which the console consumer reads what was written since."""
    partition, begin = place
    count = end_offset(commands.broker.address, topic, partition) - begin
    assert count > 0
    return (
        "--topic", topic, "--partition", partition, "--offset", begin, "--max-messages", count,
    )  # fmt: skip


@pytest.fixture
def topic(commands: Commands) -> str:
    return create_topic(commands.broker.address, fresh_topic("formatted"), 2)


@pytest.fixture(scope="module")
def of_group(commands: Commands) -> tuple[object, ...]:
    """What a group leaves behind: offsets, one that is deleted, a member that comes and goes."""
    topic = create_topic(commands.broker.address, fresh_topic("grouped"), 2)
    group = f"group-of-{topic}"
    commit_offsets(commands.broker, group, topic, {0: 0})
    place = coordinated(commands, OFFSETS, group)
    commit_offsets(commands.broker, group, topic, {0: 3, 1: 4})
    deleted = commands.ours(
        "kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{topic}:1"
    )
    assert deleted.lines[0].startswith("Request succeeded")
    member = Consumer({"bootstrap.servers": commands.broker.address, "group.id": group})
    member.subscribe([topic])
    eventually(lambda: member.poll(0.1) or member.assignment(), "partitions are assigned")
    member.close()
    return since(commands, OFFSETS, place)


@pytest.mark.parametrize(
    ("formatter", "expected"),
    [
        ("OffsetsMessageFormatter", '{"key":{"type":1,"data":{"group":"'),
        ("GroupMetadataMessageFormatter", '{"key":{"type":2,"data":{"group":"'),
    ],
)
def test_what_groups_leave_is_shown_alike(commands, of_group, formatter, expected):
    said = commands.same(CONSUMER, *of_group, "--formatter", f"{PACKAGE}.{formatter}")
    assert said.status == 0
    assert expected in said.stdout
    assert '"value":null' in said.stdout or "Group" in formatter


def test_what_transactions_leave_is_shown_alike(commands, topic):
    settings = {"bootstrap.servers": commands.broker.address, "transactional.id": f"by-{topic}"}
    Producer(settings).init_transactions(60)
    place = coordinated(commands, STATES, f"by-{topic}")
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=1)
    producer.commit_transaction(60)
    said = commands.same(
        CONSUMER, *since(commands, STATES, place),
        "--formatter", f"{PACKAGE}.TransactionLogMessageFormatter",
    )  # fmt: skip
    assert f'"data":{{"transactionalId":"by-{topic}"}}' in said.stdout
    assert f'"topic":"{topic}","partitionIds":[1]' in said.stdout


@pytest.mark.parametrize(
    "name",
    [
        "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter",
        "kafka.coordinator.GroupMetadataManager$OffsetsMessageFormatter",
    ],
)
def test_names_of_earlier_releases_are_understood(commands, of_group, name):
    today = commands.ours(CONSUMER, *of_group, "--formatter", f"{PACKAGE}.OffsetsMessageFormatter")
    assert commands.ours(CONSUMER, *of_group, "--formatter", name) == today
    assert today.stdout


@pytest.mark.parametrize("formatter", ["LoggingMessageFormatter", "NoOpMessageFormatter"])
def test_any_records_are_shown_alike(commands, topic, formatter):
    send(commands.broker.address, topic, [b"one", b"two"])
    said = commands.same(
        CONSUMER, "--topic", topic, "--partition", 0, "--offset", 0, "--max-messages", 2,
        "--formatter", f"{PACKAGE}.{formatter}", "--formatter-property", "print.offset=true",
    )  # fmt: skip
    assert said.lines == (["Offset:0\tone", "Offset:1\ttwo"] if "Logging" in formatter else [])


@pytest.mark.parametrize(
    ("key", "status"),
    [(None, 0), (b"\0\x63key of another type", 0), (b"\0\1cut", 1), (b"", 1)],
)
def test_what_is_no_such_record_is_passed_over_or_ends_it_alike(commands, topic, key, status):
    producer = Producer({"bootstrap.servers": commands.broker.address})
    producer.produce(topic, b"\0\1value", key=key, partition=0)
    assert producer.flush(60) == 0
    said = commands.same(
        CONSUMER, "--topic", topic, "--partition", 0, "--offset", 0, "--max-messages", 1,
        "--formatter", f"{PACKAGE}.OffsetsMessageFormatter",
    )  # fmt: skip
    assert (said.stdout, said.status) == ("", status)


def test_a_formatter_that_is_none_is_refused_with_those_there_are(commands):
    said = commands.ours(CONSUMER, "--topic", "t", "--formatter", "org.example.Frob")
    assert said.status == 1
    first = said.stderr.partition("\n")[0]
    assert first.startswith("Moldau has no formatter org.example.Frob; it has DefaultMessageForm")
    assert first.endswith(" TransactionLogMessageFormatter")
