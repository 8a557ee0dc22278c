"""kafka-consumer-groups.sh of today and of 1.1: every form of it, and what a user reads.

What the tool of today prints is compared with what it prints of Apache Kafka in the same state; a
test also looks for a line or two that must be there, so that two empty answers do not agree.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.kafka_node import NODE_ID
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from kits.tool_kit import GROUPS, OLD_GROUPS, Twins, commit_offsets

pytestmark = pytest.mark.java(CURRENT, OLDEST)

TOPIC, OTHER = "orders", "returns"
COUNTS = (10, 20, 0)
"""Records in the partitions of the topic."""
STEP_MS = 600_000
FIRST_MS = int(time.time() * 1000) // STEP_MS * STEP_MS - 24 * STEP_MS
"""When the first record was written: some hours ago, the others ten minutes apart from there."""


@pytest.fixture(scope="module", autouse=True)
def _groups(twins: Twins) -> Iterator[None]:
    """Give both brokers two topics, a group that has stopped and two that are at work."""
    with ExitStack() as members:
        for broker in twins.brokers:
            prepare(broker)
            members.callback(member(broker, "reading", "reader").close)
            members.callback(member(broker, "static", "fixed", instance="first").close)
        yield


def prepare(broker: BrokerProcess) -> None:
    create_topic(broker.address, TOPIC, len(COUNTS), {"retention.ms": "-1"})
    create_topic(broker.address, OTHER)
    producer = Producer({"bootstrap.servers": broker.address})
    for partition, count in enumerate(COUNTS):
        for number in range(count):
            written_ms = FIRST_MS + number * STEP_MS
            producer.produce(TOPIC, b"%d" % number, partition=partition, timestamp=written_ms)
    producer.produce(OTHER, b"only", partition=0)
    assert producer.flush(30) == 0
    commit_offsets(broker, "done", TOPIC, {0: 4, 1: 20})


def member(
    broker: BrokerProcess, group: str, client_id: str, instance: str | None = None
) -> Consumer:
    """Start a consumer and wait until it has its partitions and has committed where it is."""
    settings = {
        "bootstrap.servers": broker.address,
        "group.id": group,
        "client.id": client_id,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(settings | ({"group.instance.id": instance} if instance else {}))
    consumer.subscribe([TOPIC])
    eventually(lambda: consumer.poll(0.1) or consumer.assignment(), "partitions are assigned")
    offsets = [TopicPartition(TOPIC, partition, 3) for partition in range(2)]
    consumer.commit(offsets=offsets, asynchronous=False)
    return consumer


# Looking


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--list", "reading"),
        ("--list --state", "reading Stable"),
        ("--list --state empty", "done Empty"),
        ("--list --state stable,Dead", "static Stable"),
        ("--list --state nonsense", None),
        ("--list --type", "done Classic"),
        ("--list --type classic", "reading"),
        ("--list --type consumer", None),
        ("--list --state --type", "reading Classic Stable"),
    ],
)
def test_groups_are_listed(twins, arguments, expected):
    lines = twins.same(GROUPS, *arguments.split())
    assert expected is None or any(line.startswith(expected) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--group done", f"done {TOPIC} 0 4 10 6 - - -"),
        ("--group done --verbose", f"done {TOPIC} 0 - 4 10 6 - - -"),
        ("--group done --offsets --verbose", None),
        ("--group done --members", "Consumer group 'done' has no active members."),
        ("--group done --state", f"done 127.0.0.1:<port> ({NODE_ID}) - Empty 0"),
        ("--group reading", f"reading {TOPIC} 0 3 10 7 reader-<random> /127.0.0.1 reader"),
        ("--group reading --members", "reading reader-<random> /127.0.0.1 reader 3"),
        ("--group reading --members --verbose", None),
        ("--group reading --state", f"reading 127.0.0.1:<port> ({NODE_ID}) range Stable 1"),
        ("--group reading --state --verbose", None),
        ("--group static --members", "static first-<random> first /127.0.0.1 fixed 3"),
        ("--group static --members --verbose", None),
        ("--group static --offsets --verbose", None),
        ("--group done --group reading", None),
        ("--group nobody", None),
        ("--group nobody --members", None),
        ("--group nobody --state", None),
        ("--all-groups", None),
        ("--all-groups --members --verbose", None),
        ("--all-groups --state", None),
    ],
)
def test_groups_are_described(twins, arguments, expected):
    lines = twins.same(GROUPS, "--describe", *arguments.split())
    assert lines
    assert expected is None or expected in lines


# Deleting


def test_a_group_is_deleted_with_its_offsets(twins):
    for broker in twins.brokers:
        commit_offsets(broker, "to delete", TOPIC, {0: 1})
    deletion = ("--delete", "--group", "to delete")
    assert twins.same(GROUPS, *deletion) == [
        "Deletion of requested consumer groups ('to delete') was successful."
    ]
    assert any("GroupIdNotFoundException" in line for line in twins.same(GROUPS, *deletion))
    assert "to delete" not in twins.same(GROUPS, "--list")


def test_a_group_at_work_is_not_deleted_and_another_in_the_same_request_is(twins):
    for broker in twins.brokers:
        commit_offsets(broker, "beside", TOPIC, {0: 1})
    lines = twins.same(GROUPS, "--delete", "--group", "reading", "--group", "beside")
    assert any("is not empty" in line for line in lines)
    left = twins.same(GROUPS, "--list")
    assert "reading" in left
    assert "beside" not in left


@pytest.mark.parametrize(
    ("group", "topic", "expected"),
    [
        ("some", f"{TOPIC}:0", f"{TOPIC} 0 Successful"),
        ("some", TOPIC, f"{TOPIC} 1 Successful"),
        ("some", "nothing", "nothing - Error: org.apache.kafka.common.errors.UnknownTopic"),
        ("some", f"{TOPIC}:9", None),
        ("reading", TOPIC, f"{TOPIC} 0 Error: org.apache.kafka.common.errors.GroupSubscribed"),
        ("nobody", TOPIC, None),
    ],
)
def test_offsets_are_deleted(twins, group, topic, expected):
    if group == "some":
        for broker in twins.brokers:
            commit_offsets(broker, group, TOPIC, {0: 5, 1: 6})
    lines = twins.same(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    assert expected is None or any(line.startswith(expected) for line in lines)
    twins.same(GROUPS, "--describe", "--group", group)


# Resetting

AN_HOUR_IN = datetime.fromtimestamp((FIRST_MS + 6 * STEP_MS) / 1000, UTC)

FORMS = {
    "earliest": (("--to-earliest",), (0, 0, 0)),
    "latest": (("--to-latest",), (10, 20, 0)),
    "offset": (("--to-offset", 7), (7, 7, 0)),
    "offset beyond": (("--to-offset", 15), (10, 15, 0)),
    "forward": (("--shift-by", 2), (6, 20, None)),
    "backward": (("--shift-by", -3), (1, 17, None)),
    "backward beyond": (("--shift-by", -5), (0, 15, None)),
    "duration": (("--by-duration", "P0DT3H0M0S"), None),
    "datetime": (("--to-datetime", f"{AN_HOUR_IN:%Y-%m-%dT%H:%M:%S}.000+00:00"), (6, 6, 0)),
    "before all": (("--to-datetime", "2001-01-01T00:00:00.000"), (0, 0, 0)),
    "current": (("--to-current",), (4, 20, 0)),
}
"""Option -> offsets of the partitions; where a shift begins at no offset there is none."""


@pytest.mark.parametrize("form", FORMS)
def test_offsets_are_reset(twins, form):
    arguments, expected = FORMS[form]
    group = f"reset-{form.replace(' ', '-')}"
    for broker in twins.brokers:
        commit_offsets(broker, group, TOPIC, {0: 4, 1: 20})
    topic = TOPIC if None not in (expected or ()) else f"{TOPIC}:0,1"
    reset = ("--reset-offsets", "--group", group, "--topic", topic, *arguments)
    before = twins.same(GROUPS, "--describe", "--group", group)
    shown = twins.same(GROUPS, *reset, "--dry-run")
    assert twins.same(GROUPS, "--describe", "--group", group) == before
    if expected is not None:
        rows = [
            f"{group} {TOPIC} {partition} {offset}"
            for partition, offset in enumerate(expected)
            if offset is not None
        ]
        assert [line for line in shown if line.startswith(group)] == rows
    assert twins.same(GROUPS, *reset, "--execute") == shown
    twins.same(GROUPS, "--describe", "--group", group)


def test_a_plan_is_exported_and_read_from_a_file(twins, tmp_path):
    for broker in twins.brokers:
        commit_offsets(broker, "planned", TOPIC, {0: 4, 1: 20})
    scope = ("--reset-offsets", "--group", "planned")
    export = ("--to-offset", 2, "--export", "--dry-run")
    plan = twins.same(GROUPS, *scope, "--all-topics", *export)
    assert plan == [f"{TOPIC},0,2", f"{TOPIC},1,2"]
    file = tmp_path / "plan.csv"
    file.write_text("\n".join([*plan, f"{TOPIC},2,0", ""]))
    shown = twins.same(GROUPS, *scope, "--from-file", file, "--dry-run")
    assert [line for line in shown if line.startswith("planned")] == [
        f"planned {TOPIC} {partition} {offset}" for partition, offset in enumerate((2, 2, 0))
    ]
    assert twins.same(GROUPS, *scope, "--from-file", file, "--execute") == shown


def test_several_groups_are_reset_from_one_file(twins, tmp_path):
    for broker in twins.brokers:
        for group in ("one", "two"):
            commit_offsets(broker, group, TOPIC, {0: 4})
    scope = ("--reset-offsets", "--group", "one", "--group", "two")
    export = ("--shift-by", 1, "--export", "--dry-run")
    plan = twins.same(GROUPS, *scope, "--topic", f"{TOPIC}:0", *export)
    assert plan == [f"{group},{TOPIC},0,5" for group in ("one", "two")]
    file = tmp_path / "plan.csv"
    file.write_text("\n".join([*plan, ""]))
    lines = twins.same(GROUPS, *scope, "--from-file", file, "--execute")
    assert f"two {TOPIC} 0 5" in lines


@pytest.mark.parametrize(
    ("group", "arguments"),
    [
        ("reading", ("--topic", TOPIC, "--to-earliest", "--execute")),
        ("done", ("--topic", "nothing", "--to-earliest", "--dry-run")),
        ("done", ("--topic", f"{TOPIC}:7", "--to-earliest", "--dry-run")),
        ("nobody at all", ("--all-topics", "--to-earliest", "--dry-run")),
    ],
)
def test_what_cannot_be_reset_is_told_as_kafka_tells_it(twins, group, arguments):
    twins.same(GROUPS, "--reset-offsets", "--group", group, *arguments)
    if group != "nobody at all":
        twins.same(GROUPS, "--describe", "--group", group)


def test_a_group_begins_with_a_reset(twins):
    scope = ("--reset-offsets", "--group", "begun", "--topic", TOPIC, "--topic", OTHER)
    lines = twins.same(GROUPS, *scope, "--to-latest", "--execute")
    assert f"begun {OTHER} 0 1" in lines
    assert f"begun {TOPIC} 1 20" in lines
    assert "begun Empty" in twins.same(GROUPS, "--list", "--state")


# The tool of 1.1


def old_lines(session: ToolSession, broker: BrokerProcess, *arguments: object) -> list[str]:
    output = session.run(OLD_GROUPS, "--bootstrap-server", broker.address, *arguments)
    return [" ".join(line.split()) for line in output.lines if line.strip()]


def test_the_tool_of_1_1_lists_and_describes(twins, old_tools):
    broker = twins.brokers[1]
    assert {"done", "reading", "static"} <= set(old_lines(old_tools, broker, "--list"))
    describe = ("--describe", "--group", "reading")
    offsets = [line.split() for line in old_lines(old_tools, broker, *describe)]
    rows = [row[:5] + row[6:] for row in offsets if row[0] == TOPIC]
    assert rows == [
        [TOPIC, "0", "3", "10", "7", "/127.0.0.1", "reader"],
        [TOPIC, "1", "3", "20", "17", "/127.0.0.1", "reader"],
        [TOPIC, "2", "-", "0", "-", "/127.0.0.1", "reader"],
    ]
    (row,) = [
        line.split() for line in old_lines(old_tools, broker, *describe, "--members", "--verbose")
    ][1:]
    assert row[1:] == ["/127.0.0.1", "reader", "3", f"{TOPIC}(0,1,2)"]
    (state,) = old_lines(old_tools, broker, *describe, "--state")[1:]
    assert state == f"{broker.address} ({NODE_ID}) range Stable 1"


def test_the_tool_of_1_1_resets_and_deletes(twins, old_tools):
    broker = twins.brokers[1]
    commit_offsets(broker, "old", TOPIC, {0: 4, 1: 20})
    scope = ("--reset-offsets", "--group", "old", "--topic", TOPIC)
    for arguments, expected in (
        (("--to-earliest",), (0, 0, 0)),
        (("--to-latest",), (10, 20, 0)),
        (("--to-offset", 7), (7, 7, 0)),
        (("--shift-by", -2), (5, 5, 0)),
        (("--to-datetime", f"{AN_HOUR_IN:%Y-%m-%dT%H:%M:%S}.000+00:00"), (6, 6, 0)),
        (("--to-current",), (6, 6, 0)),
    ):
        lines = old_lines(old_tools, broker, *scope, *arguments, "--execute")
        assert sorted(line for line in lines if line.startswith(TOPIC)) == [
            f"{TOPIC} {partition} {offset}" for partition, offset in enumerate(expected)
        ]
    deleted = old_lines(old_tools, broker, "--delete", "--group", "old")
    assert deleted == ["Deletion of requested consumer groups ('old') was successful."]
    refused = old_lines(old_tools, broker, "--delete", "--group", "reading")
    assert refused[-1] == "* Group 'reading' could not be deleted due to: NON_EMPTY_GROUP"
