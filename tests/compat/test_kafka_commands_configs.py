"""kafka-configs, compared with Kafka's own on the same broker."""

from __future__ import annotations

import shlex

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic
from kits.kafka_command_kit import Commands

pytestmark = pytest.mark.java(CURRENT)

CONFIGS = "kafka-configs"


@pytest.fixture(scope="module")
def topic(commands: Commands) -> str:
    configs = {"retention.ms": "60000", "cleanup.policy": "compact,delete"}
    return create_topic(commands.broker.address, fresh_topic("configs"), 1, configs)


@pytest.mark.parametrize(
    "line",
    [
        "--entity-type topics --entity-name {topic}",
        "--topic {topic}",
        "--topic {topic} --all",
        "--topic no-such-topic",
        "--topic no-such-topic --all",
        "--entity-type topics",
        "--entity-type brokers --entity-name 1",
        "--entity-type brokers --entity-default",
        "--entity-type brokers",
        "--broker 1 --all",
        "--broker 77",
        "--group no-such-group",
    ],
)
def test_configs_are_shown_alike(commands, topic, line):
    words = shlex.split(line.format(topic=topic))
    assert commands.same(CONFIGS, "--describe", *words, order=sorted).stdout


def test_configs_are_changed_in_kafkas_words(commands, topic):
    for line in (
        "--topic {topic} --add-config retention.ms=5000",
        "--topic {topic} --add-config cleanup.policy=[compact,delete],segment.ms=80000",
        "--topic {topic} --delete-config retention.ms,segment.ms",
        "--topic {topic} --delete-config retention.ms",
        "--broker-defaults --add-config log.cleaner.backoff.ms=14000",
        "--broker-defaults --delete-config log.cleaner.backoff.ms",
    ):
        said = commands.same(CONFIGS, "--alter", *shlex.split(line.format(topic=topic)))
        assert said.stdout.startswith("Completed updating ")
        commands.same(CONFIGS, "--describe", "--topic", topic)
        commands.same(CONFIGS, "--describe", "--broker-defaults")


def test_configs_are_taken_from_a_file(commands, topic, tmp_path):
    file = tmp_path / "topic.properties"
    file.write_text("# two of them\nmax.message.bytes=70000\nsegment.bytes = 2000000\n")
    commands.ours(CONFIGS, "--alter", "--topic", topic, "--add-config-file", file)
    shown = commands.same(CONFIGS, "--describe", "--topic", topic).stdout
    assert "max.message.bytes=70000" in shown
    assert "segment.bytes=2000000" in shown


@pytest.mark.parametrize(
    "line",
    [
        "--alter --topic {topic} --add-config retention.ms=soon",
        "--alter --topic {topic} --add-config no.such.config=1",
        "--alter --topic no-such-topic --add-config retention.ms=1000",
        "--alter --topic {topic} --add-config retention.ms",
        "--alter --topic {topic}",
        "--alter --entity-type topics --add-config retention.ms=1",
        "--alter --entity-type brokers --add-config log.retention.ms=1",
        "--alter --describe --topic {topic}",
        "--describe",
        "--describe --broker one",
        "--describe --topic {topic} --entity-type topics",
        "--describe --topic {topic} --add-config a=b",
    ],
)
def test_what_cannot_be_is_refused_alike(commands, topic, line):
    assert commands.same_refusal(CONFIGS, *shlex.split(line.format(topic=topic)))


def test_what_does_not_exist_here_is_said_in_one_line(commands):
    said = commands.ours(CONFIGS, "--describe", "--user", "alice")
    assert said.status == 1
    assert said.stderr == "Moldau does not have this yet: quotas and credentials of users\n"
