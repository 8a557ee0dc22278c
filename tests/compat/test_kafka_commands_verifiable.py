"""The verifiable producer and consumer: their events, line by line, beside Kafka's own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_harness.distribution import CURRENT, jars, require
from kafka_harness.java import QUICK_START, QUIET, Output, run_class
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from kits.kafka_command_kit import Commands, class_of
from kits.kafka_command_kit import ours as ours_alone

pytestmark = pytest.mark.java(CURRENT)

PRODUCER = "kafka-verifiable-producer"
CONSUMER = "kafka-verifiable-consumer"
MOLDAU = Path(sys.executable).with_name("moldau")

Event = dict[str, Any]


def theirs(commands: Commands, name: str, *arguments: object) -> Output:
    """Run Kafka's own, which has a process to itself: it tells of its end when that one ends."""
    address = commands.broker.address
    return run_class(
        CURRENT, class_of(name), "--bootstrap-server", address, *arguments, check=False
    )


def ours(commands: Commands, name: str, *arguments: object) -> Output:
    return commands.ours(name, *arguments)


BOTH: tuple[Callable[..., Output], ...] = (theirs, ours)


def events(output: Output) -> list[Event]:
    """Read the lines; the moment of each is checked and left out."""
    found = [json.loads(line) for line in output.lines]
    for event in found:
        assert list(event)[:2] == ["timestamp", "name"]
        assert event.pop("timestamp") > 1_600_000_000_000
    return found


def named(found: list[Event], name: str) -> list[Event]:
    return [event for event in found if event["name"] == name]


@pytest.fixture
def topic(commands: Commands) -> str:
    return create_topic(commands.broker.address, fresh_topic("verifiable"))


def test_both_producers_tell_the_same(commands):
    words = ("--max-messages", 5, "--value-prefix", 7, "--repeating-keys", 2, "--throughput", 1000)
    told = []
    for run in BOTH:
        topic = create_topic(commands.broker.address, fresh_topic("sent"))
        output = run(commands, PRODUCER, "--topic", topic, *words)
        assert output.status == 0
        found = events(output)
        (summary,) = named(found, "tool_data")
        assert isinstance(summary.pop("avg_throughput"), float)
        told.append(json.loads(json.dumps(found).replace(topic, "<topic>")))
    assert told[1] == told[0]
    assert told[0][1] == {
        "name": "producer_send_success", "key": "0", "value": "7.0", "offset": 0,
        "topic": "<topic>", "partition": 0,
    }  # fmt: skip
    assert told[0][-1] == {"name": "tool_data", "sent": 5, "acked": 5, "target_throughput": 1000}


@pytest.mark.parametrize(("acks", "offsets"), [(0, [-1, -1]), (1, [0, 1]), (-1, [0, 1])])
def test_offsets_are_told_where_a_broker_tells_them(commands, topic, acks, offsets):
    found = events(commands.ours(PRODUCER, "--topic", topic, "--max-messages", 2, "--acks", acks))
    sent = named(found, "producer_send_success")
    assert [event["offset"] for event in sent] == offsets
    assert [event["key"] for event in sent] == [None, None]


def test_what_cannot_be_sent_is_told_alike(commands):
    told = []
    for run in BOTH:
        output = run(commands, PRODUCER, "--topic", "no topic!", "--max-messages", 2)
        assert output.status == 0
        failed = named(events(output), "producer_send_error")
        assert all(event.pop("message") for event in failed)
        told.append(failed)
    assert told[1] == told[0]
    assert [event["value"] for event in told[0]] == ["0", "1"]


def test_records_are_created_at_the_time_that_is_given(commands, topic):
    commands.ours(
        PRODUCER, "--topic", topic, "--max-messages", 3, "--message-create-time", 1_000_000
    )
    said = commands.ours(
        "kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", 0,
        "--max-messages", 3, "--formatter-property", "print.timestamp=true",
    )  # fmt: skip
    times = [int(line.split("\t")[0].removeprefix("CreateTime:")) for line in said.lines]
    assert times[0] == 1_000_000
    assert times == sorted(times)


def test_both_consumers_tell_the_same(commands, topic):
    sent = ("--topic", topic, "--max-messages", 5, "--repeating-keys", 3)
    commands.ours(PRODUCER, *sent)
    told = []
    for run in BOTH:
        group = fresh_topic("group")
        words = ("--topic", topic, "--group-id", group, "--max-messages", 5, "--verbose")
        output = run(commands, CONSUMER, *words)
        assert output.status == 0
        told.append(events(output))
    assert told[1] == told[0]
    assert [event["name"] for event in told[0]] == [
        "startup_complete", "partitions_assigned", *["record_data"] * 5, "records_consumed",
        "offsets_committed", "partitions_revoked", "shutdown_complete", "shutdown_requested",
    ]  # fmt: skip
    (consumed,) = named(told[0], "records_consumed")
    assert consumed["partitions"][0]["maxOffset"] == 4


def test_a_consumer_stops_at_its_number_and_the_next_goes_on_there(commands, topic):
    commands.ours(PRODUCER, "--topic", topic, "--max-messages", 10)
    words = ("--topic", topic, "--group-id", fresh_topic("group"), "--max-messages", 4)
    first = events(commands.ours(CONSUMER, *words))
    assert [event["offsets"][0]["offset"] for event in named(first, "offsets_committed")][-1] == 4
    second = events(commands.ours(CONSUMER, *words, "--enable-autocommit"))
    assert named(second, "records_consumed")[0]["partitions"][0]["minOffset"] == 4
    # What is committed now and then is not told, nor are records unless it is asked for.
    assert not named(second, "offsets_committed")
    assert not named(second, "record_data")


@pytest.mark.parametrize(
    ("make", "name"), [("kafka", CONSUMER), ("moldau", CONSUMER), ("moldau", PRODUCER)]
)
def test_a_signal_ends_them_in_good_order(commands, topic, make, name):
    words = ["--bootstrap-server", commands.broker.address, "--topic", topic]
    words += ["--throughput", "20"] if name == PRODUCER else ["--group-id", fresh_topic("group")]
    command = [MOLDAU, name]
    if make == "kafka":
        command = [
            require("java"), *QUICK_START, QUIET, "-cp", f"{jars(CURRENT)}/*", class_of(name),
        ]  # fmt: skip
    awaited = b"producer_send_success" if name == PRODUCER else b"partitions_assigned"
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if awaited in line:
                break
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line)["name"] for line in process.stdout]
    assert process.returncode == 128 + signal.SIGTERM
    if name == PRODUCER:
        assert rest[-2:] == ["shutdown_complete", "tool_data"]
    else:
        assert rest == ["shutdown_requested", "partitions_revoked", "shutdown_complete"]


def test_a_broker_that_is_not_there_yet_is_waited_for(topic):
    words = ["--bootstrap-server", "127.0.0.1:1", "--topic", topic, "--max-messages", "1"]
    with subprocess.Popen([MOLDAU, PRODUCER, *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"startup_complete" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        rest = [json.loads(line) for line in process.stdout]
    assert process.returncode == 128 + signal.SIGTERM
    assert [event["name"] for event in rest] == ["shutdown_complete", "tool_data"]
    assert rest[-1]["sent"] == 0


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (PRODUCER, ()),
        (PRODUCER, ("--topic", "t", "--acks", "2")),
        (PRODUCER, ("--topic", "t", "--max-messages", "many")),
        (PRODUCER, ("--topic", "t", "--frob")),
        (CONSUMER, ("--topic", "t")),
        (CONSUMER, ("--group-id", "g")),
    ],
)
def test_what_cannot_be_is_refused(commands, name, arguments):
    said = commands.ours(name, *arguments)
    assert (said.stdout, said.status) == ("", 1)
    assert said.stderr


def test_kafkas_own_refuses_with_the_same_status(commands):
    assert theirs(commands, PRODUCER, "--topic", "t", "--acks", "2").status == 1


@pytest.mark.parametrize("name", [PRODUCER, CONSUMER])
def test_without_any_word_the_help_is_shown(name):
    """And nothing is wrong with that: so it is in Kafka."""
    said = ours_alone(name)
    assert (said.stderr, said.status) == ("", 0)
    assert "--topic" in said.stdout
