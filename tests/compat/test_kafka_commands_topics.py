"""kafka-topics and kafka-get-offsets, compared with Kafka's own on the same broker."""

from __future__ import annotations

import re

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kits.kafka_command_kit import Commands

pytestmark = pytest.mark.java(CURRENT)

TOPICS = "kafka-topics"
OFFSETS = "kafka-get-offsets"


@pytest.fixture
def pair(commands: Commands) -> tuple[str, str]:
    """Two topics whose names begin alike: one of three partitions, one with configs."""
    common = fresh_topic("pair")
    plain, tuned = f"{common}-plain", f"{common}-tuned"
    create_topic(commands.broker.address, plain, 3)
    configs = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
    create_topic(commands.broker.address, tuned, 1, configs)
    return plain, tuned


def test_a_topic_is_created_enlarged_and_deleted_in_kafkas_words(commands):
    for make, run in (("theirs", commands.theirs), ("ours", commands.ours)):
        topic = fresh_topic(make)
        created = run(
            TOPICS, "--create", "--topic", topic, "--partitions", 2, "--replication-factor", 1,
            "--config", "retention.ms=60000",
        )  # fmt: skip
        assert (created.stdout, created.status) == (f"Created topic {topic}.\n", 0)
        assert commands.same(TOPICS, "--describe", "--topic", topic)
        again = commands.same(TOPICS, "--create", "--topic", topic)
        assert again.lines == [
            f"Error while executing topic command : Topic '{topic}' already exists."
        ]
        assert again.status == 1
        commands.same(TOPICS, "--create", "--if-not-exists", "--topic", topic)
        enlarged = run(TOPICS, "--alter", "--topic", topic, "--partitions", 4)
        assert (enlarged.stdout, enlarged.status) == ("", 0)
        assert len(commands.same(TOPICS, "--describe", "--topic", topic).lines) == 5
        commands.same(TOPICS, "--alter", "--topic", topic, "--partitions", 4)
        deleted = run(TOPICS, "--delete", "--topic", topic)
        assert (deleted.stdout, deleted.status) == ("", 0)
        gone = commands.same(TOPICS, "--describe", "--topic", topic)
        assert gone.status == 1
        assert commands.same(TOPICS, "--delete", "--if-exists", "--topic", topic).status == 0


def test_topics_are_listed_and_described_alike(commands, pair):
    plain, tuned = pair
    common = plain.removesuffix("-plain")
    assert {plain, tuned} <= set(commands.same(TOPICS, "--list").lines)
    assert commands.same(TOPICS, "--list", "--topic", f"{common}.*").lines == [plain, tuned]
    assert commands.same(TOPICS, "--list", "--topic", f"{plain},{tuned}").lines == [plain, tuned]
    commands.same(TOPICS, "--list", "--exclude-internal")
    assert commands.same(TOPICS, "--list", "--topic", fresh_topic("none")).lines == [""]
    for topic in pair:
        commands.same(TOPICS, "--describe", "--topic", topic)
    both = commands.same(TOPICS, "--describe", "--topic", f"{common}.*", order=sorted)
    assert len(both.lines) == 6
    overridden = commands.same(TOPICS, "--describe", "--topics-with-overrides", "--topic", tuned)
    assert [line.split("\t")[0] for line in overridden.lines] == [f"Topic: {tuned}"]


@pytest.mark.parametrize(
    "only",
    [
        "under-replicated-partitions",
        "unavailable-partitions",
        "under-min-isr-partitions",
        "at-min-isr-partitions",
    ],
)
def test_partitions_in_need_are_picked_out_alike(commands, pair, only):
    said = commands.same(TOPICS, "--describe", f"--{only}", "--topic", pair[0])
    assert len(said.lines) == (3 if only.startswith("at-") else 0)


def test_a_topic_is_described_by_its_id(commands, pair):
    (summary, *_) = commands.ours(TOPICS, "--describe", "--topic", pair[0]).lines
    (topic_id,) = re.findall(r"TopicId: (\S+)", summary)
    by_id = commands.same(TOPICS, "--describe", "--topic-id", topic_id)
    assert by_id.lines[0] == summary
    assert commands.same(TOPICS, "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ").status == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--list", "--create"),
        ("--create",),
        ("--create", "--topic", "t", "--replica-assignment", "0", "--partitions", "1"),
        ("--alter", "--topic", "t"),
        ("--list", "--partitions", "3"),
        ("--describe", "--if-not-exists"),
        ("--describe", "--if-exists"),
        ("--list", "--unheard-of"),
        ("--create", "--topic"),
        ("--help",),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words(commands, arguments):
    assert commands.same_refusal(TOPICS, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--partitions", "0"),
        ("--partitions", "many"),
        ("--topic", "twice"),
        ("--replication-factor", "0"),
        ("--replication-factor", "40000"),
        ("--replication-factor", "3"),
        ("--config", "retention.ms"),
        ("--config", "retention.ms=soon"),
        ("--config", "no.such.config=1"),
        ("--replica-assignment", "1:1"),
    ],
)
def test_what_a_topic_cannot_be_is_said_on_standard_output(commands, arguments):
    said = commands.same(TOPICS, "--create", "--topic", fresh_topic("refused"), *arguments)
    assert said.stdout.startswith("Error while executing topic command : ")
    assert said.status == 1


def test_names_that_may_collide_are_warned_of(commands):
    name = f"warned.{fresh_topic('x')}"
    said = commands.ours(TOPICS, "--create", "--topic", name)
    assert [line[:8] for line in said.lines] == ["WARNING:", "Created "]
    commands.same(TOPICS, "--create", "--topic", name)


def test_offsets_are_told_alike(commands, pair):
    plain, tuned = pair
    send(commands.broker.address, plain, [b"one", b"two"], partition=1)
    assert commands.same(OFFSETS, "--topic", plain).lines == [
        f"{plain}:0:0",
        f"{plain}:1:2",
        f"{plain}:2:0",
    ]
    commands.same(OFFSETS)
    commands.same(OFFSETS, "--exclude-internal-topics")
    for time in (
        "earliest",
        "latest",
        "max-timestamp",
        "-1",
        "-2",
        "-3",
        "-4",
        "0",
        "4000000000000",
    ):
        commands.same(OFFSETS, "--topic", plain, "--time", time)
    commands.same(OFFSETS, "--topic", plain, "--partitions", "1,2")
    commands.same(OFFSETS, "--topic-partitions", f"{plain}:1-,{tuned}:0")
    assert commands.same(OFFSETS, "--topic-partitions", f"{plain}:-2").lines == [
        f"{plain}:0:0",
        f"{plain}:1:2",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--topic", "no-such-topic"),
        ("--time", "soon"),
        ("--partitions", "one"),
        ("--topic", "t", "--topic-partitions", "t:0"),
        ("--unheard-of",),
    ],
)
def test_offsets_that_cannot_be_told_are_refused_alike(commands, arguments):
    assert commands.same_refusal(OFFSETS, *arguments).startswith("Error occurred: ")
