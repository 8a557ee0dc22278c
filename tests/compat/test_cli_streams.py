"""`moldau produce`, `consume`, `bench` on Moldau or, with MOLDAU_TEST_BROKER, on Apache Kafka."""

from __future__ import annotations

import itertools
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.topics import create_topic, end_offset, send
from kafka_harness.waiting import eventually
from kits.cli_kit import Ran, moldau
from moldau import Producer

Run = Callable[..., Ran]

COMMAND = str(Path(sys.executable).with_name("moldau"))

_numbers = itertools.count()


@pytest.fixture
def run(broker: BrokerProcess) -> Run:
    return lambda *arguments: moldau(
        *arguments, environ={"MOLDAU_BOOTSTRAP_SERVERS": broker.address}
    )


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    """An empty topic of two partitions."""
    name = f"stream-{next(_numbers)}"
    create_topic(broker.address, name, 2, {})
    return name


@pytest.fixture
def numbers(broker: BrokerProcess, topic: str) -> str:
    """A topic with 0 to 9 in its first partition and a, b, c in the second."""
    send(broker.address, topic, [b"%d" % number for number in range(10)])
    send(broker.address, topic, [b"a", b"b", b"c"], partition=1)
    return topic


def started(broker: BrokerProcess, *arguments: str, **streams: int) -> subprocess.Popen[bytes]:
    """Run a command in a process of its own, with pipes unless told otherwise."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        [COMMAND, *arguments],
        **pipes | streams,
        env={**os.environ, "MOLDAU_BOOTSTRAP_SERVERS": broker.address, "MOLDAU_CONFIG": os.devnull},
    )


def lines(ran: Ran) -> list[str]:
    assert (ran.status, ran.err) == (0, "")
    return ran.out.splitlines()


def records(ran: Ran) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines(ran)]


def on_terminal(broker: BrokerProcess, stream: str, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a command to its end with one of its streams on a terminal; return what that shows."""
    ours, theirs = pty.openpty()
    try:
        with started(broker, *arguments, **{stream: theirs}) as process:
            process.communicate(stdin)
        assert process.returncode == 0
        return os.read(ours, 65_536)
    finally:
        os.close(theirs)
        os.close(ours)


# Producing


def test_bytes_from_a_pipe_come_out_of_a_pipe_as_they_were(broker, topic):
    sent = b"plain\n\n\xff\x00\x1b[2J\r\nno line end"
    with started(broker, "produce", topic, "-p", "1") as process:
        assert process.communicate(sent) == (b"", b"")
    assert process.returncode == 0
    with started(broker, "consume", topic, "-e") as process:
        assert process.communicate() == (sent + b"\n", b"")
    assert process.returncode == 0


def test_keys_headers_and_partitions_are_taken_from_lines_and_options(run, topic, tmp_path):
    file = tmp_path / "lines"
    file.write_text("a:1\nb:-\n")
    assert lines(run("produce", topic, "-i", file, "-K", ":", "-H", "h=x", "-p", 1, "--null", "-",
                     "-z", "gzip", "--acks", 1)) == []  # fmt: skip
    found = records(run("consume", topic, "-e", "-o", "json"))
    assert [(one["key"], one["value"], one["partition"]) for one in found] == [
        ("a", "1", 1),
        ("b", None, 1),
    ]
    assert found[0]["headers"] == [{"key": "h", "value": "x"}]


def test_arguments_are_records_and_a_tombstone_is_a_key_without_value(run, topic):
    lines(run("produce", topic, "one", "two", "-k", "k"))
    lines(run("produce", topic, "--tombstone", "-k", "k"))
    written = lines(run("consume", topic, "-e", "-f", r"%k=%v %S\n", "--null", "NULL"))
    assert written == ["k=one 3", "k=two 3", "k=NULL -1"]


def test_what_was_consumed_as_json_is_produced_again(run, topic, numbers, tmp_path):
    file = tmp_path / "records.json"
    file.write_text(run("consume", numbers, "-e", "-o", "json", "-p", 1).out)
    lines(run("produce", topic, "-i", file, "--json"))
    again = records(run("consume", topic, "-p", 1, "-s", -3, "-e", "-o", "json"))
    assert [one["value"] for one in again] == ["a", "b", "c"]


def test_the_first_line_that_fails_is_named_and_those_before_it_are_delivered(run, topic, tmp_path):
    file = tmp_path / "lines"
    file.write_text("a:1\nb:2\nnothing\nc:3\n")
    ran = run("produce", topic, "-i", file, "-K", ":", "-p", 0)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("moldau: line 3: ")
    assert ran.err.endswith("moldau: records delivered: 2\n")
    assert lines(run("consume", topic, "-e")) == ["1", "2"]


def test_a_record_that_the_broker_refuses_ends_with_status_one(broker, run):
    name = f"stream-{next(_numbers)}"
    create_topic(broker.address, name, 1, {"max.message.bytes": "200"})
    ran = run("produce", name, "x" * 1000)
    assert ran.status == 1
    assert "line 1: " in ran.err
    assert "records delivered: 0" in ran.err


def test_ctrl_c_delivers_what_was_read_and_says_how_much(broker, topic):
    with started(broker, "produce", topic, "-p", "0") as process:
        process.stdin.write(b"1\n2\n3\n")
        process.stdin.flush()
        eventually(lambda: end_offset(broker.address, topic) == 3, "three records")
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert said == b"moldau: records delivered: 3\n"
    assert process.returncode == 130


def test_progress_is_shown_on_a_terminal(broker, topic):
    shown = on_terminal(broker, "stderr", "produce", topic, stdin=b"1\n2\n")
    assert b"2 records read, 2 B" in shown
    shown = on_terminal(broker, "stderr", "consume", topic, "-e")
    assert b"2 records printed (100 %), 4 B" in shown


# Consuming


def test_a_terminal_is_shown_nothing_that_it_would_obey(broker, topic):
    with started(broker, "produce", topic) as process:
        process.communicate(b"\x1b[2J\xff")
    assert on_terminal(broker, "stdout", "consume", topic, "-e") == b"\\x1b[2J\\xff\r\n"
    assert b"\x1b[2J\xff" in on_terminal(broker, "stdout", "consume", topic, "-e", "-o", "raw")


def test_places_say_where_reading_begins_and_ends(run, numbers):
    def read(*options: object) -> list[str]:
        return lines(run("consume", numbers, "-p", 0, *options))

    assert read("-e") == list("0123456789")
    assert read("-s", -2, "-e") == ["8", "9"]
    assert read("-s", "+7", "-e") == ["7", "8", "9"]
    assert read("-s", 3, "-u", 5) == ["3", "4"]
    assert read("-s", "1h", "-n", 2) == ["0", "1"]
    assert read("-s", "@0", "-u", "+1") == ["0"]
    assert read("-s", "end", "-e") == []
    assert read("-s", 5, "-u", 5) == []
    assert read("-u", 1000, "--grep", "[39]") == ["3", "9"]


def test_a_partition_and_a_topic_that_are_not_there_are_refused(run, numbers):
    ran = run("consume", numbers, "-p", "0,7", "-e")
    assert (ran.status, ran.out) == (1, "")
    assert "has no partition 7" in ran.err
    ran = run("consume", f"{numbers}-not", "-e", "-X", "default.api.timeout.ms=1000")
    assert (ran.status, ran.out) == (1, "")
    assert f"{numbers}-not" not in lines(run("topic", "list", "-o", "name"))


@pytest.mark.parametrize(
    ("option", "given", "complaint"),
    [
        ("-p", "one", "-p one: expected numbers of partitions, as in 0,2-4"),
        ("-s", "soon", "'soon' is not a position: expected start, end, an offset"),
        ("--command-config", "none", "cannot read none: No such file or directory"),
    ],
)
def test_what_an_option_takes_is_said_in_its_own_words(run, option, given, complaint):
    ran = run("consume", "t", option, given)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith(f"moldau: {complaint}")
    assert ran.err.count("\n") == 1


def test_patterns_name_topics(run, numbers):
    found = run("consume", "-r", f"none|.*{numbers[3:]}", "-e", "-f", r"%t %v\n", "--grep", "^c$")
    assert lines(found) == [f"{numbers} c"]


def test_a_group_goes_on_behind_what_was_printed(run, numbers):
    group = f"of-{numbers}"
    first = lines(run("consume", numbers, "-g", group, "-n", 4))
    rest = lines(run("consume", "-r", numbers, "-g", group, "-e"))
    assert len(first) == 4
    assert sorted(first + rest) == sorted("0123456789abc")


def test_an_aborted_transaction_is_read_only_by_who_wants_to(broker, run, topic):
    with Producer(broker.address, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0).result()
        producer.abort_transaction()
    assert lines(run("consume", topic, "-e")) == ["aborted"]
    assert lines(run("consume", topic, "-e", "--read-committed")) == []


def test_a_reader_that_has_seen_enough_ends_the_reading_quietly(broker, numbers):
    with started(broker, "consume", numbers, "-p", "0") as process:
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        send(broker.address, numbers, [b"more"])
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (1, b"")


def test_a_partition_that_is_added_is_read_from_its_first_record(broker, run, numbers):
    follow = ("consume", numbers, "-s", "-1", "-X", "metadata.max.age.ms=100")
    with started(broker, *follow) as process:
        assert {process.stdout.readline() for _ in range(2)} == {b"9\n", b"c\n"}
        lines(run("topic", "alter", numbers, "-p", 3, "--yes"))
        eventually(lambda: end_offset(broker.address, numbers, 2) == 0, "it is led")
        send(broker.address, numbers, [b"first", b"second"], partition=2)
        assert [process.stdout.readline() for _ in range(2)] == [b"first\n", b"second\n"]
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().strip() == b""
    assert process.returncode == 130


def test_ctrl_c_ends_following(broker, numbers):
    with started(broker, "consume", numbers, "-p", "0", "-s", "-1") as process:
        assert process.stdout.readline() == b"9\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().strip() == b""
    assert process.returncode == 130


# Measuring


def test_what_is_measured_is_what_was_sent_and_read(run, topic):
    (sent,) = run("bench", "produce", topic, "-n", 2_000, "--size", 50, "-o", "json").data
    assert (sent["records"], sent["bytes"]) == (2_000, 100_000)
    assert 0 < sent["p50_ms"] <= sent["p99_ms"] <= sent["max_ms"]
    (read,) = run("bench", "consume", topic, "-o", "json").data
    assert (read["records"], read["bytes"]) == (2_000, 100_000)
    (some,) = run("bench", "consume", topic, "-n", 10, "-o", "json").data
    assert some["records"] == 10
    assert min(sent["records_per_s"], read["records_per_s"], some["records_per_s"]) > 0


def test_a_round_trip_ends_no_sooner_than_its_acknowledgement(run, topic):
    acknowledged, consumed = run("bench", "latency", topic, "-n", 20, "-o", "json").data
    assert (acknowledged["until"], consumed["until"]) == ("acknowledged", "consumed")
    assert 0 < acknowledged["p50_ms"] <= consumed["p50_ms"]
