"""The load and latency commands: the lines people parse have Kafka's form."""

from __future__ import annotations

import re

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, end_offset
from kits.kafka_command_kit import Commands

pytestmark = pytest.mark.java(CURRENT)

PRODUCER = "kafka-producer-perf-test"
CONSUMER = "kafka-consumer-perf-test"


def form(stdout: str) -> list[str]:
    """Return lines with every number taken out: digits after a point are kept in their count."""
    return [
        re.sub(r"\d+", "0", re.sub(r"\.(\d+)", lambda part: "." + "d" * len(part[1]), line))
        for line in stdout.splitlines()
    ]


@pytest.fixture
def topic(commands: Commands) -> str:
    return create_topic(commands.broker.address, fresh_topic("load"))


def test_the_summary_of_the_producer_has_kafkas_form(commands, topic):
    words = (
        "--topic", topic, "--num-records", 2000, "--record-size", 100, "--throughput", -1,
        "--command-property", "acks=1", "linger.ms=0",
    )  # fmt: skip
    theirs, own = (run(PRODUCER, *words) for run in (commands.theirs, commands.ours))
    assert form(own.stdout) == form(theirs.stdout)
    assert end_offset(commands.broker.address, topic) == 4000


def test_the_producer_slows_down_warms_up_and_commits(commands, topic):
    said = commands.ours(
        PRODUCER, "--topic", topic, "--num-records", 300, "--payload-monotonic", "--throughput",
        1000, "--warmup-records", 100, "--transaction-duration-ms", 100,
    )  # fmt: skip
    assert [line.split(",")[0] for line in said.lines] == [
        "300 records sent",
        "200 steady state records sent",
    ]
    read = commands.ours(
        "kafka-console-consumer", "--topic", topic, "--partition", 0, "--offset", 0,
        "--isolation-level", "read_committed", "--max-messages", 300,
    )  # fmt: skip
    assert read.lines == [str(number) for number in range(300)]


def test_the_summary_of_the_consumer_has_kafkas_form(commands, topic):
    commands.ours(
        PRODUCER, "--topic", topic, "--num-records", 1000, "--record-size", 100,
        "--throughput", -1,
    )  # fmt: skip
    theirs, own = (
        run(CONSUMER, "--topic", topic, "--num-records", 1000)
        for run in (commands.theirs, commands.ours)
    )
    assert form(own.stdout) == form(theirs.stdout)
    assert own.lines[1].split(", ")[4] == "1000"


def test_a_consumer_that_waits_in_vain_says_so(commands, topic):
    said = commands.ours(
        CONSUMER, "--topic", topic, "--messages", 10, "--timeout", 100, "--hide-header"
    )
    assert said.lines[0].startswith("WARNING: Exiting before consuming the expected number")


def test_latency_is_told_in_kafkas_form(commands, topic):
    words = (
        "--topic", topic, "--num-records", 5, "--producer-acks", "all", "--record-size", 100,
    )  # fmt: skip
    theirs, own = (run("kafka-e2e-latency", *words) for run in (commands.theirs, commands.ours))
    assert form(own.stdout)[1:] == form(theirs.stdout)[1:]
    assert re.fullmatch(
        r"0\t\d+\.\d+", own.lines[0]
    )  # the first record, of as many digits as it has


def test_required_words_are_asked_for(commands):
    assert commands.ours(PRODUCER, "--topic", "t").status == 1
    assert commands.ours(CONSUMER, "--topic", "t").status == 1
    refused = commands.ours(
        "kafka-e2e-latency", "--topic", "t", "--num-records", 1, "--producer-acks", "0",
        "--record-size", 1,
    )  # fmt: skip
    assert "synchronous acknowledgement" in refused.stderr


def test_a_topic_that_brokers_refuse_ends_the_producer(commands):
    refused = commands.ours(
        PRODUCER, "--topic", "no/topic", "--num-records", 3, "--record-size", 1,
        "--throughput", -1,
    )  # fmt: skip
    assert (refused.status, refused.stdout) == (1, "")
    assert len(refused.stderr.splitlines()) == 1
