"""MirrorMaker 2 of Kafka 4.3.1 with one broker as its target.

Its defaults ask for three replicas, which one broker refuses: Moldau in the same words as Kafka.
With replication factors of 1 it mirrors records, and the offsets that groups have committed.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, MIRROR_MAKER
from kafka_harness.java import class_command
from kafka_harness.kinds import make_broker
from kafka_harness.topics import create_topic, end_offset, read_all, send
from kafka_harness.waiting import PATIENCE_S, eventually

pytestmark = [pytest.mark.java(CURRENT, MIRROR_MAKER), pytest.mark.long]

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
TOPIC, MIRRORED = "orders", "source.orders"
TOLD = "org.slf4j.simpleLogger.log.org.apache.kafka.connect.util.TopicAdmin"
TOO_FEW = (
    "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be "
    "reached because only 1 broker(s) are registered or some brokers have all their log "
    "directories cordoned."
)
GIVEN_UP = "Timeout expired while trying to create topic(s)"
HERDERS = ("source->target", "target->source")
"""Each direction has one, also where nothing is mirrored. It needs topics on its target."""
GROUP = "readers"
VALUES = [b"order %d" % number for number in range(1000)]
COMMITTED = 400
START_TIMEOUT_S = 180
"""It scans its jars first, which takes seconds on idle cores."""

ONE_REPLICA = dict.fromkeys(
    [
        "replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "offset-syncs.topic.replication.factor",
        "config.storage.replication.factor",
        "offset.storage.replication.factor",
        "status.storage.replication.factor",
    ],
    "1",
)
SOON = {
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "offset.lag.max": "0",
}


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], BrokerProcess]]:
    """Return how a broker of a kind is started."""
    with contextlib.ExitStack() as stack:
        numbers = itertools.count()
        yield lambda kind: stack.enter_context(make_broker(kind, tmp_path / f"{next(numbers)}"))


def properties(
    path: Path,
    source: BrokerProcess,
    target: BrokerProcess,
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Write the settings of a mirror from one cluster to another."""
    written = {
        "clusters": "source,target",
        "source.bootstrap.servers": source.address,
        "target.bootstrap.servers": target.address,
        "source->target.enabled": "true",
        **(settings or {}),
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in written.items()))
    return path


@contextlib.contextmanager
def mirroring(settings: Path) -> Iterator[Path]:
    """Run MirrorMaker; gives the file that its log goes to."""
    log = settings.with_suffix(".log")
    command = class_command(MIRROR_MAKER, MAIN, settings, properties={TOLD: "info"})
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
        )
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()


def complaints(log: Path) -> set[str]:
    """Return what it says of topics that it cannot create, once it has given up."""
    text = log.read_text()
    refused = re.findall(r"('mm2-.*\.internal' topic creation failed .*), \d+ms remaining", text)
    given_up = re.findall(r"(\[Worker .*), exiting: \n(.*)\n", text)
    return {*refused, *map(" ".join, given_up)} if len(given_up) == len(HERDERS) else set()


def test_its_defaults_ask_for_more_brokers_than_one(tmp_path, started):
    """It asks again for a minute, and gives up."""
    source = started("moldau")
    targets = [started("kafka"), started("moldau")]
    with contextlib.ExitStack() as stack:
        logs = []
        for target in targets:
            settings = properties(tmp_path / f"{target.kind}.properties", source, target)
            logs.append(stack.enter_context(mirroring(settings)))
        theirs, ours = (
            eventually(partial(complaints, log), f"{log} has an end", START_TIMEOUT_S)
            for log in logs
        )
    assert ours == theirs
    assert sum(TOO_FEW in one for one in ours) == len(HERDERS)
    assert sum(GIVEN_UP in one for one in ours) == len(HERDERS)
    assert [topics_of(target) for target in targets] == [set(), set()]


@pytest.mark.parametrize("kind", ["kafka", "moldau"])
def test_with_one_replica_it_mirrors_records_and_committed_offsets(tmp_path, started, kind):
    source, target = started(kind), started("moldau")
    create_topic(source.address, TOPIC)
    send(source.address, TOPIC, VALUES)
    commit(source, TOPIC, COMMITTED)
    written = properties(tmp_path / "mm2.properties", source, target, ONE_REPLICA | SOON)
    with mirroring(written):
        eventually(lambda: MIRRORED in topics_of(target), "the topic is there", START_TIMEOUT_S)
        eventually(lambda: end_offset(target.address, MIRRORED) == len(VALUES), "all are there")
        assert read_all(target.address, MIRRORED) == VALUES
        eventually(lambda: committed(target, MIRRORED) > 0, "the group is there")
    # It commits at the last offset up to here whose counterpart it knows.
    assert committed(target, MIRRORED) <= COMMITTED


def topics_of(broker: BrokerProcess) -> set[str]:
    found = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=PATIENCE_S)
    return set(found.topics)


LOADING = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


def commit(broker: BrokerProcess, topic: str, offset: int) -> None:
    """Commit for a group, whose coordinator may still be loading."""

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in LOADING:
                raise
            return False
        return True

    with group(broker) as consumer:
        eventually(is_committed, "the group's offset is committed")


def committed(broker: BrokerProcess, topic: str) -> int:
    with group(broker) as consumer:
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_S)
    return int(found.offset)


@contextlib.contextmanager
def group(broker: BrokerProcess) -> Iterator[Consumer]:
    """Speak for a group without being a member of it."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": GROUP})
    try:
        yield consumer
    finally:
        consumer.close()
