"""The suite's own promises: a missing Java is told in one line, and CI accepts no silent skip."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from kafka_harness.distribution import CURRENT, KafkaUnavailableError, jars
from kafka_harness.java import JavaError
from kafka_harness.ports import free_port
from kafka_harness.samples import fresh_topic
from kafka_harness.tool_session import ToolSession
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from kafka_harness.wire import ask_api_versions, known_isrs, unserved_partitions

NEEDS_JAVA = Path(__file__).with_name("test_java_tools.py")
TESTS = Path(__file__).parents[1]


def test_a_missing_maven_is_told_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MOLDAU_CACHE", str(tmp_path))
    with pytest.raises(KafkaUnavailableError) as error:
        jars(CURRENT)
    assert str(error.value) == "mvn is not installed (needed to run Apache Kafka)"


def test_maven_that_fails_is_told_in_one_line(monkeypatch, tmp_path):
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no way to the repository'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("MOLDAU_CACHE", str(tmp_path))
    with pytest.raises(KafkaUnavailableError) as error:
        jars(CURRENT)
    assert str(error.value) == (
        f"Maven could not fetch Apache Kafka {CURRENT}: no way to the repository"
    )
    assert not (tmp_path / "kafka" / CURRENT).exists()


@pytest.mark.parametrize(("ci", "status", "said"), [("", 0, "1 skipped"), ("true", 1, "1 error")])
def test_without_java_its_tests_are_skipped_but_fail_in_ci(tmp_path, ci, status, said):
    environment = {
        **os.environ, "PATH": str(tmp_path), "MOLDAU_CACHE": str(tmp_path), "CI": ci,
    }  # fmt: skip
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(NEEDS_JAVA), "-k", "load_generator"],
        capture_output=True, text=True, timeout=50, check=False, env=environment,
        cwd=NEEDS_JAVA.parents[2],
    )  # fmt: skip
    assert run.returncode == status, run.stdout + run.stderr
    assert said in run.stdout
    assert "mvn is not installed" in run.stdout


def test_a_port_is_given_to_one_process_though_nobody_listens_there_yet():
    script = "from kafka_harness.ports import _claim; print(_claim({}))"
    port = free_port()
    claims = [
        subprocess.run(
            [sys.executable, "-c", script.format(one)],
            capture_output=True, text=True, check=True, cwd=TESTS,
        ).stdout.strip()
        for one in (port, free_port_of_another())
    ]  # fmt: skip
    assert claims == ["False", "True"]


def free_port_of_another() -> int:
    """Return the port of a process that has ended."""
    script = "from kafka_harness.ports import free_port; print(free_port())"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=TESTS
    )
    return int(ended.stdout)


@pytest.mark.java(CURRENT)
def test_a_session_of_tools_goes_on_with_a_new_machine_after_one_that_was_late():
    with ToolSession(CURRENT) as tools:
        with pytest.raises(JavaError, match="no answer within 0 s"):
            tools.run("kafka.tools.StorageTool", "random-uuid", timeout_s=0)
        assert len(tools.run("kafka.tools.StorageTool", "random-uuid").lines) == 1


def test_nobody_listening_is_an_os_error():
    with pytest.raises(OSError, match="refused"):
        ask_api_versions("127.0.0.1", free_port())


def test_the_first_question_is_answered_with_ranges(broker):
    ranges = ask_api_versions(broker.host, broker.port)
    assert ranges[18][0] == 0
    assert all(lowest <= highest for lowest, highest in ranges.values())


def test_partitions_that_do_not_exist_are_unserved(broker):
    topic = create_topic(broker.address, fresh_topic("harness"), 2)
    eventually(
        lambda: unserved_partitions(broker.host, broker.port, {topic: 3}) == [(topic, 2)],
        "two of three partitions are served",
    )


def test_the_replicas_in_sync_are_those_of_each_partition(broker):
    topics = [create_topic(broker.address, fresh_topic("harness"), count) for count in (2, 1)]
    isrs = known_isrs(broker.host, broker.port, topics)
    assert isrs.keys() == {(topics[0], 0), (topics[0], 1), (topics[1], 0)}
    assert {frozenset(isr) for isr in isrs.values()} == {frozenset({broker_id(broker)})}


def broker_id(broker):
    (only,) = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=30).brokers
    return only
