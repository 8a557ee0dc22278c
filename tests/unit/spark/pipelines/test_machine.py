"""What Spark's virtual machine says: the reason why it does not start, and what comes later."""

from __future__ import annotations

import errno
import os
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError

from kafka_harness.waiting import eventually
from moldau.spark.pipelines.session.machine import (
    MachineEnded,
    Said,
    reason_in,
    telling_of_its_end,
    without_ends_of_queries,
)

GATEWAY = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
CALLED = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: "


@pytest.mark.parametrize(
    ("lines", "error", "reason"),
    [
        (
            [
                "WARNING: Using incubator modules: jdk.incubator.vector\n",
                'Exception in thread "main" org.apache.spark.SparkException: no such master\n',
                "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1068)\n",
            ],
            GATEWAY,
            "no such master",
        ),
        (["Setting Spark log level\n"], GATEWAY, GATEWAY),
        (
            [],
            f"{CALLED}org.apache.spark.SparkException: Could not parse Master URL: 'x'\n\tat x",
            "Could not parse Master URL: 'x'",
        ),
        ([], "", "no reason given"),
    ],
)
def test_the_reason_is_found_in_what_java_says(lines, error, reason):
    assert reason_in(lines, error) == reason


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("[Errno 111] Connection refused"),
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o302.isActive"),
    ],
)
def test_silence_is_the_end_of_the_machine(error):
    with pytest.raises(MachineEnded) as told, telling_of_its_end():
        raise error
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "error",
    [
        Py4JError("An error occurred while calling o1.x. Trace:\npy4j.Py4JException: no x"),
        Py4JError("org.x.Y does not exist in the JVM"),
        OSError("No space left on device"),
        BrokenPipeError("[Errno 32] Broken pipe"),
    ],
)
def test_what_the_machine_answers_and_what_is_not_its_own_stays_what_it_is(error):
    with pytest.raises(type(error)) as told, telling_of_its_end():
        raise error
    assert told.value is error


def test_a_start_is_kept_and_what_follows_is_passed_on(capsys):
    said = Said()
    with os.fdopen(said.writing, "w", buffering=1) as machine:
        machine.write("java.io.IOException: no disk\n")
        eventually(lambda: said.reason(ValueError("none")) == "no disk", "it is kept")
        said.pass_on()
        machine.write("an executor is lost\n")
    heard = []
    eventually(lambda: heard.append(capsys.readouterr().err) or "".join(heard), "it is passed on")
    assert "".join(heard) == "an executor is lost\n"


def test_a_line_that_cannot_be_written_does_not_end_the_listening(monkeypatch):
    heard = []

    def write(line):
        heard.append(line)
        if line == "first\n":
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=write))
    said = Said()
    said.pass_on()
    with os.fdopen(said.writing, "w", buffering=1) as machine:
        machine.write("first\n")
        machine.write("second\n")
    eventually(lambda: heard == ["first\n", "second\n"], "both are heard")


def test_the_trace_of_a_query_that_has_ended_is_not_passed_on():
    thread = "stream execution thread for landing [id = 1, runId = 2]"
    trace = [
        f'Exception in thread "{thread}" java.lang.StackOverflowError\n',
        *["\tat scala.collection.immutable.List.map(List.scala:247)\n"] * 1024,
        "Caused by: java.lang.InterruptedException: sleep\n",
        "\tat java.base/java.lang.Thread.sleep(Native Method)\n",
        "\tSuppressed: java.io.IOException: closed\n",
        "\t\tat x.Y.close(Y.java:1)\n",
        "\t... 12 more\n",
    ]
    other = ['Exception in thread "dispatcher" java.lang.Error: x\n', "\tat x.Y.run(Y.java:1)\n"]
    said = ["an executor is lost\n", *trace, *other, "another one is lost\n", *trace, *trace]
    told = ["an executor is lost\n", *other, "another one is lost\n"]
    assert list(without_ends_of_queries(said)) == told
