"""The examples of the client, each run as a program against a real broker."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path

import pytest

from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.topics import create_topic
from moldau.client.consumer import Consumer
from moldau.client.processing import retry_topics as names
from moldau.client.producer import Producer
from moldau.client.records import TopicPartition
from moldau.testing import TestBroker

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PATIENCE_S = 60


class OnKafka:
    """Apache Kafka, with as much of a TestBroker's face as the tests here look at."""

    def __init__(self, node):
        self.bootstrap_servers = node.address

    def create_topic(self, name, partitions):
        create_topic(self.bootstrap_servers, name, partitions)

    def records(self, topic):
        with Consumer(
            self.bootstrap_servers, topics=[topic], auto_offset_reset="earliest"
        ) as consumer:
            ends = consumer.end_offsets(consumer.assignment())
            return list(islice(consumer, sum(ends.values())))


@pytest.fixture
def broker(tmp_path):
    """A broker for each test: Moldau, or Kafka where the suite runs on that."""
    if kind_under_test() == "moldau":
        with TestBroker() as running:
            yield running
        return
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with make_broker(kind_under_test(), tmp_path / "broker", settings) as node:
        yield OnKafka(node)


class Program:
    """A running example."""

    def __init__(self, name, *arguments):
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline()
        assert line, "the example ended"
        return line.split()

    def terminate(self):
        """End it as an operator does; return what it still said."""
        self.process.send_signal(signal.SIGTERM)
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0
        return said

    def kill(self):
        if not self.process.stdout.closed:
            self.process.kill()
            self.process.communicate()


@contextmanager
def running(name, *arguments):
    program = Program(name, *arguments)
    try:
        yield program
    finally:
        program.kill()


def send(broker, topic, records):
    with Producer(broker.bootstrap_servers) as producer:
        for key, value in records:
            producer.send(topic, value, key)


def committed(broker, group, topic, count):
    """How many records of a topic a group has committed."""
    partitions = [TopicPartition(topic, number) for number in range(count)]
    with Consumer(broker.bootstrap_servers, group_id=group) as consumer:
        return sum(one.offset for one in consumer.committed(partitions).values())


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)
    return found


def test_threads_with_a_consumer_each_share_the_partitions_and_commit_what_they_did(broker):
    broker.create_topic("orders", 3)
    with running("consumer_per_thread", broker.bootstrap_servers, "orders", "--group", "g") as it:
        threads_of = defaultdict(set)
        sent = seen = 0
        while len(set().union(*threads_of.values())) < 3:
            send(broker, "orders", [(b"%d" % number, b"v") for number in range(10)])
            sent += 10
            while seen < sent:
                thread, partition, _offset, _value = it.line()
                threads_of[partition].add(thread)
                seen += 1
        it.terminate()
    assert len(threads_of) == 3
    assert committed(broker, "g", "orders", 3) == sent


def test_worker_threads_keep_the_order_of_keys_and_commit_finished_work(broker):
    broker.create_topic("orders", 1)
    records = [(b"k%d" % (number % 8), b"%d" % number) for number in range(200)]
    send(broker, "orders", records)
    with running("worker_threads", broker.bootstrap_servers, "orders", "--group", "g") as it:
        lines = [it.line() for _ in records]
        it.terminate()
    assert len({thread for thread, *_ in lines}) > 1
    by_key = defaultdict(list)
    for _thread, _partition, _offset, value in lines:
        by_key[int(value) % 8].append(int(value))
    assert all(values == sorted(values) for values in by_key.values())
    assert sum(map(len, by_key.values())) == 200
    assert committed(broker, "g", "orders", 1) == 200


def test_totals_in_sqlite_are_exact_through_a_kill_and_a_rebalance(broker, tmp_path):
    broker.create_topic("payments", 4)
    path = tmp_path / "totals.sqlite"
    arguments = ("offsets_in_sqlite", broker.bootstrap_servers, "payments", path)

    def pay(count):
        send(broker, "payments", [(b"a%d" % (n % 10), b"%d" % n) for n in range(count)])

    def progress():
        with closing(sqlite3.connect(path)) as database, suppress(sqlite3.OperationalError):
            return database.execute("SELECT sum(next_offset) FROM offsets").fetchone()[0] or 0
        return 0  # the table is not there yet

    pay(1_000)
    with running(*arguments, "--instance", "one") as first:
        until(progress)
        first.kill()
    with running(*arguments, "--instance", "one") as second:
        second.line()
        with running(*arguments) as third:
            third.line()
            pay(1_000)
            until(lambda: progress() == 2_000)
            third.terminate()
        second.terminate()
    expected = defaultdict(int)
    for count in (1_000, 1_000):
        for number in range(count):
            expected[f"a{number % 10}"] += number
    with closing(sqlite3.connect(path)) as database:
        assert dict(database.execute("SELECT account, amount FROM totals")) == expected


def test_payments_that_fail_are_tried_again_and_end_as_dead_letters(broker):
    arguments = ("--delays-ms", "100", "200")
    send(broker, "payments", [(None, b"-3"), (None, b"many"), (None, b"5")])
    with running("retry_topics", broker.bootstrap_servers, "payments", *arguments) as it:
        assert it.line() == ["paid", "5", "from", "payments"]

        def two_letters():
            letters = broker.records("payments.bank.dead")
            return letters if len(letters) == 2 else None

        letters = {one.value: dict(one.headers) for one in until(two_letters)}
        it.terminate()
    assert letters[b"-3"][names.ERROR_TEXT] == b"the bank refuses -3"
    assert letters[b"-3"][names.FAILURES] == b"3"
    assert letters[b"many"][names.ERROR_TYPE] == b"ValueError"
    assert letters[b"many"][names.FAILURES] == b"1"
    assert len(broker.records("payments.bank.retry-2")) == 1


def test_the_program_of_the_page_on_processing_works_and_ends_in_order(broker, tmp_path):
    page = (ROOT / "docs/processing.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    path = tmp_path / "program.py"
    path.write_text(program.replace("127.0.0.1:9092", broker.bootstrap_servers))
    send(broker, "payments", [(b"k", b"1"), (b"k", b"none"), (b"k", b"2")])
    with running(path.with_suffix("")) as it:
        assert [it.line(), it.line()] == [["paid", "1"], ["paid", "2"]]
        (failed,) = until(lambda: broker.records("payments.billing.retry-1"))
        it.terminate()
    assert failed.value == b"none"
    assert committed(broker, "billing", "payments", 1) == 3


def test_the_page_on_processing_names_every_example_and_header():
    page = (ROOT / "docs/processing.md").read_text()
    shown = set(re.findall(r"`(examples/\w+\.py)`", page))
    assert shown == {f"examples/{path.name}" for path in EXAMPLES.glob("*.py")}
    for header in (
        names.ORIGIN_TOPIC,
        names.FAILURES,
        names.ERROR_TYPE,
        names.ERROR_TEXT,
        names.DUE,
    ):
        assert f"`{header}`" in page
