"""The smaller commands about a cluster, compared with Kafka's own on the same broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kafka_harness.distribution import CURRENT
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kits.kafka_command_kit import Commands, class_of, ours

pytestmark = pytest.mark.java(CURRENT)


@pytest.fixture
def topic(commands: Commands) -> str:
    name = create_topic(commands.broker.address, fresh_topic("cluster"), 3)
    for partition in range(3):
        send(commands.broker.address, name, [b"x"] * (5 + partition), partition=partition)
    return name


def offsets_file(folder: Path, partitions: list[tuple[str, int, int]], version: int = 1) -> Path:
    file = folder / "offsets.json"
    listed = [dict(zip(("topic", "partition", "offset"), one, strict=True)) for one in partitions]
    file.write_text(json.dumps({"version": version, "partitions": listed}))
    return file


def test_records_are_deleted_in_kafkas_words(commands, topic, tmp_path):
    file = offsets_file(tmp_path, [(topic, 0, 2), (topic, 1, -1), (topic, 2, 0)])
    said = commands.same("kafka-delete-records", "--offset-json-file", file, order=sorted)
    assert f"partition: {topic}-1\tlow_watermark: 6" in said.lines


def test_deletions_that_cannot_be_are_refused_alike(commands, topic, tmp_path):
    file = offsets_file(tmp_path, [(topic, 0, 2), (topic, 0, 3)])
    assert commands.same_refusal("kafka-delete-records", "--offset-json-file", file)
    file = offsets_file(tmp_path, [], version=2)
    assert commands.same_refusal("kafka-delete-records", "--offset-json-file", file)
    assert commands.same_refusal("kafka-delete-records")


def test_log_directories_are_the_same_json(commands, topic):
    for arguments in (("--topic-list", topic), ("--broker-list", "1"), ("--broker-list", "7")):
        commands.same("kafka-log-dirs", "--describe", *arguments)
    assert commands.same_refusal("kafka-log-dirs")


@pytest.mark.parametrize(
    "arguments",
    [(), ("--group-type", "classic"), ("--consumer",), ("--share",), ("--protocol", "consumer")],
)
def test_groups_are_listed_alike(commands, arguments):
    assert commands.same("kafka-groups", "--list", *arguments, order=sorted).lines


def test_versions_are_told_alike_but_for_what_the_client_knows(commands):
    theirs, own = (
        re.sub(r" \[usable: \d+\]", "", run("kafka-broker-api-versions").stdout)
        for run in (commands.theirs, commands.ours)
    )
    newer = re.sub(r"\w+(\((93|94)\))", r"UNKNOWN\1", own)  # what Kafka 4.3 has no name for
    assert newer == theirs


@pytest.mark.parametrize("action", ["cluster-id", "list-endpoints"])
def test_the_cluster_is_told_of_alike(commands, action):
    words = (action, "--bootstrap-server", commands.broker.address)
    theirs = commands.session.run(class_of("kafka-cluster"), *words)
    said = ours("kafka-cluster", *words)
    assert (said.stdout, said.status) == (theirs.stdout, 0)


def test_a_broker_that_is_not_registered_is_refused_alike(commands):
    words = ("unregister", "--bootstrap-server", commands.broker.address, "--id", 77)
    theirs = commands.session.run(class_of("kafka-cluster"), *words, check=False)
    said = ours("kafka-cluster", *words)
    assert (said.stdout, said.status) == (theirs.stdout, theirs.status)
    # Kafka's client logs a line of its own before.
    assert said.stderr.split("\n")[0] in theirs.stderr.split("\n")


def test_elections_end_alike(commands, topic, tmp_path):
    preferred, unclean = (
        ("kafka-leader-election", "--election-type", one) for one in ("preferred", "UNCLEAN")
    )
    said = commands.same(*preferred, "--topic", topic, "--partition", 0)
    assert said.lines == [f"Valid replica already elected for partitions {topic}-0"]
    commands.same(*unclean, "--topic", topic, "--partition", 7)
    commands.same(*preferred, "--topic", "no-such-topic", "--partition", 0)
    commands.same(*preferred, "--all-topic-partitions")
    file = tmp_path / "partitions.json"
    for partitions in ([1], [2, 2]):
        named = [{"topic": topic, "partition": one} for one in partitions]
        file.write_text(json.dumps({"partitions": named}))
        commands.same(*preferred, "--path-to-json-file", file)
    for arguments in ((), ("--topic", topic), ("--all-topic-partitions", "--partition", 1)):
        commands.same_refusal(*preferred, *arguments)


def test_features_are_described_alike(commands):
    theirs, own = (
        # The epoch is the end of the metadata log, which grows by itself in Kafka.
        re.sub(r"Epoch: \d+", "", run("kafka-features", "describe").stdout)
        for run in (commands.theirs, commands.ours)
    )
    assert own == theirs


@pytest.mark.parametrize(
    "arguments",
    [
        ("upgrade", "--feature", "transaction.version=9"),
        ("upgrade", "--feature", "cats=1", "--dry-run"),
        ("downgrade", "--feature", "metadata.version=7", "--unsafe"),
        ("disable", "--feature", "metadata.version"),
        ("disable", "--feature", "transaction.version", "--dry-run"),
    ],
)
def test_levels_are_changed_or_refused_in_kafkas_words(commands, arguments):
    commands.same("kafka-features", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("upgrade",),
        ("upgrade", "--feature", "transaction.version"),
        ("downgrade", "--feature", "transaction.version=x"),
        ("disable", "--feature", "a", "--feature", "a"),
        ("upgrade", "--release-version", "4.0", "--feature", "a=1"),
    ],
)
def test_what_is_no_change_of_features_is_refused_alike(commands, arguments):
    assert commands.same_refusal("kafka-features", *arguments)


def test_transactions_are_shown_alike(commands, topic):
    transactional_id = fresh_topic("shown")
    producer = Producer(
        {"bootstrap.servers": commands.broker.address, "transactional.id": transactional_id}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(30)
    place = ("--topic", topic, "--partition", 0)
    for words in (("describe-producers", *place), ("find-hanging", *place)):
        assert commands.same("kafka-transactions", *words, order=sorted).lines
    assert_listed_alike(commands, "--transactional-id-pattern", f"{transactional_id}.*")
    theirs, own = (
        run("kafka-transactions", "describe", "--transactional-id", transactional_id).lines
        for run in (commands.theirs, commands.ours)
    )
    assert without_duration(own) == without_duration(theirs)
    producer.abort_transaction(30)


def assert_listed_alike(commands: Commands, *pattern: str) -> None:
    """Compare lists; a broker before 4.1 knows no patterns, and all would be too many."""
    words = ("kafka-transactions", "list", *pattern)
    if commands.is_since(4, 1):
        assert commands.same(*words, order=sorted).lines
        return
    for said in (commands.theirs(*words), commands.ours(*words)):
        assert (said.stdout, said.status) == ("", 1)
        assert said.stderr.startswith("Failed to list transactions: ")


def without_duration(lines: list[str]) -> list[list[str]]:
    columns = [line.split("\t") for line in lines]
    place = [title.strip() for title in columns[0]].index("TransactionDurationMs")
    return [[*row[:place], *row[place + 1 :]] for row in columns]


@pytest.mark.parametrize(
    "words", [("find-hanging",), ("abort", "--topic", "t", "--partition", "0")]
)
def test_what_transactions_need_is_said_alike(commands, words):
    assert commands.same_refusal("kafka-transactions", *words)


def test_a_script_with_kafkas_name_is_kafkas_command(commands, topic, tmp_path):
    moldau = Path(sys.executable).with_name("moldau")
    subprocess.run([moldau, "install-shims", tmp_path], check=True, capture_output=True)
    for command in (
        [tmp_path / "kafka-get-offsets.sh"],
        ["sh", tmp_path / "kafka-get-offsets.sh"],
        [moldau, "kafka-get-offsets"],
        [moldau, "kafka-run-class.sh", "kafka.tools.GetOffsetShell"],
    ):
        told = subprocess.run(
            [*command, "--broker-list", commands.broker.address, "--topic", topic],
            check=True,
            capture_output=True,
            text=True,
        )
        assert told.stdout.splitlines()[1] == f"{topic}:1:6"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("kafka-configs", ("--describe", "--topic", "t")),
        ("kafka-cluster", ("cluster-id",)),
        ("kafka-features", ("describe",)),
        ("kafka-broker-api-versions", ()),
    ],
)
def test_who_asks_controllers_is_told_to_ask_brokers(commands, name, words):
    said = ours(name, *words, "--bootstrap-controller", commands.broker.address)
    assert (said.stdout, said.status) == ("", 1)
    assert said.stderr.endswith("with --bootstrap-server instead of --bootstrap-controller\n")
    assert said.stderr.count("\n") == 1
