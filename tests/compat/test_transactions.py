"""Transactions as real clients see them: librdkafka, aiokafka, kafka-python, Java of three ages.

Java 4.3.1 speaks transaction version 2: the broker adds partitions and gives out an epoch with
every end (KIP-890). All others add partitions by request and keep their epoch. Each scenario runs
with each of them; both isolation levels are read with the client that wrote.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, OLDEST, ZOOKEEPER_ERA
from kafka_harness.java import run_class
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from kafka_harness.waiting import eventually
from kits.transactional_clients import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    AioKafka,
    Confluent,
    Java,
    JavaMachine,
    KafkaPython,
    Refused,
    TransactionalClient,
    read_to_the_end,
)
from moldau.storage.disk import Disk
from moldau.storage.indexes import AbortedTransaction
from moldau.storage.transaction_index import read_aborted
from process.raw_client import RawClient

pytestmark = pytest.mark.java(CURRENT, ZOOKEEPER_ERA, OLDEST)

TIMEOUT_S = 60
PATIENT_MS, IMPATIENT_MS = 60_000, 3_000
"""The second is time for one record even where others use the cores; then it is waited for."""
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "100",
}
"""What takes its time in a broker is hurried along; nothing else is changed."""

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "delete.retention.ms": "0",
}
"""A topic that is compacted as soon as there is anything to compact."""

PYTHON = {"confluent": Confluent, "aiokafka": AioKafka, "kafka-python": KafkaPython}
JAVA = (CURRENT, ZOOKEEPER_ERA, OLDEST)
KINDS = (*PYTHON, *JAVA)
SLOW_KINDS = (*PYTHON, CURRENT, OLDEST)
"""Clients whose transactions all end together by their time-out."""

FENCED = {"_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "ProducerFencedException",
          "InvalidProducerEpochException", "ProducerFenced", "ProducerFencedError",
          "InvalidProducerEpoch", "InvalidProducerEpochError"}  # fmt: skip
"""What clients call it when somebody else has taken their transactional id."""

INCOMPRESSIBLE = random.Random(1).randbytes(2500).hex()
"""A word that no codec brings under a kilobyte."""

Open = Callable[..., TransactionalClient]


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[BrokerProcess]:
    """A broker of this module's own, which does not wait long before it ends a transaction."""
    directory = tmp_path_factory.mktemp("transactions")
    with make_broker(kind_under_test(), directory, SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def machine_of(broker) -> Iterator[Callable[[str], JavaMachine]]:
    """Java processes, one of a version, started when they are first asked for."""
    machines: dict[str, JavaMachine] = {}

    def get(version: str) -> JavaMachine:
        if version not in machines:
            machines[version] = JavaMachine(version, broker.address)
        return machines[version]

    yield get
    for machine in machines.values():
        machine.close()


def _sampled(kinds):
    """Return kinds for a matrix: clients between the newest and the oldest are its long part."""
    between = {ZOOKEEPER_ERA, "aiokafka"}
    return [
        pytest.param(kind, marks=pytest.mark.long) if kind in between else kind for kind in kinds
    ]


@pytest.fixture(params=_sampled(KINDS))
def kind(request) -> str:
    return request.param


@pytest.fixture
def open_client(broker, machine_of) -> Iterator[Open]:
    """Opens clients by their kind and transactional id, and closes them."""
    clients: list[TransactionalClient] = []

    def get(kind: str, transactional_id: str, timeout_ms: int = PATIENT_MS) -> TransactionalClient:
        if kind in PYTHON:
            client = PYTHON[kind](broker.address, transactional_id, timeout_ms)
        else:
            client = Java(machine_of(kind), transactional_id, timeout_ms)
        clients.append(client)
        return client

    yield get
    for client in clients:
        client.close()


@pytest.fixture
def opened(open_client, kind) -> Open:
    """Opens clients of the kind under test."""
    return partial(open_client, kind)


@pytest.fixture
def client(opened) -> TransactionalClient:
    """A client that has its transactional id."""
    client = opened(fresh_topic("copier"))
    client.init()
    return client


@pytest.fixture
def topic(broker) -> str:
    return create_topic(broker.address, fresh_topic("transactional"))


def ends(broker: BrokerProcess, topic: str, partition: int = 0) -> tuple[int, int]:
    """Ask for the last stable offset and the high watermark."""
    with RawClient((broker.host, broker.port)) as client:
        return (
            client.offset(topic, partition, isolation=1),
            client.offset(topic, partition),
        )


def seen(
    broker: BrokerProcess, client: TransactionalClient, topic: str, partition: int = 0
) -> tuple[list[str], list[str]]:
    """Read a partition as it is committed, and as it is."""
    stable, end = ends(broker, topic, partition)
    return (
        client.read(topic, partition, READ_COMMITTED, stable),
        client.read(topic, partition, READ_UNCOMMITTED, end),
    )


def settled(broker: BrokerProcess, topic: str, end: int, partition: int = 0) -> None:
    """Wait for the markers: they follow the answer to a commit."""
    wanted, found = (end, end), [(-1, -1)]

    def reached() -> bool:
        found[0] = ends(broker, topic, partition)
        return found[0] == wanted

    try:
        eventually(reached, f"{topic}-{partition} is decided up to {end}")
    except AssertionError as late:
        raise AssertionError(f"{late}; it is {found[0]}") from None


def aborted(broker: BrokerProcess, topic: str, partition: int = 0) -> list[AbortedTransaction]:
    """Read the index of aborted transactions beside the first segment of a partition."""
    path = broker.data / f"{topic}-{partition}" / f"{0:020}.txnindex"
    return list(read_aborted(Disk(), str(path)))


def committed_offset(broker: BrokerProcess, group: str, topic: str) -> int | None:
    """Ask for a group's offset in partition 0; None if there is none."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    (answer,) = admin.list_consumer_group_offsets([asked]).values()
    (found,) = answer.result(TIMEOUT_S).topic_partitions
    assert found.error is None, found.error
    return found.offset if found.offset >= 0 else None


def test_what_is_committed_is_read_and_what_is_aborted_is_not(broker, client):
    orders = create_topic(broker.address, fresh_topic("orders"), 2)
    audit = create_topic(broker.address, fresh_topic("audit"))
    places = [(orders, 0), (orders, 1), (audit, 0)]
    for number, end in enumerate(
        [client.commit, client.abort, client.commit, client.commit, client.abort]
    ):
        client.begin()
        for topic, partition in places:
            client.send(topic, partition, f"first-{number}")
            client.send(topic, partition, f"second-{number}")
        end()
    everything = [f"{which}-{number}" for number in range(5) for which in ("first", "second")]
    committed = [*everything[:2], *everything[4:8]]
    for topic, partition in places:
        settled(broker, topic, 15, partition)
        assert client.read(topic, partition, READ_COMMITTED, 15) == committed
        index = aborted(broker, topic, partition)
        assert [(one.first_offset, one.last_offset) for one in index] == [(3, 5), (12, 14)]
    assert client.read(audit, 0, READ_UNCOMMITTED, 15) == everything


def test_nothing_behind_an_open_transaction_is_stable(broker, client, topic):
    send(broker.address, topic, [b"before"])
    client.begin()
    client.send(topic, 0, "inside")
    send(broker.address, topic, [b"behind"])
    assert ends(broker, topic) == (1, 3)
    assert seen(broker, client, topic) == (["before"], ["before", "inside", "behind"])
    client.commit()
    settled(broker, topic, 4)
    assert client.read(topic, 0, READ_COMMITTED, 4) == ["before", "inside", "behind"]


def test_who_takes_the_id_ends_the_transaction_of_the_one_before_and_fences_it(
    broker, opened, topic
):
    transactional_id = fresh_topic("fenced")
    zombie, successor = opened(transactional_id), opened(transactional_id)
    zombie.init()
    zombie.begin()
    zombie.send(topic, 0, "unfinished")
    successor.init()
    settled(broker, topic, 2)
    successor.begin()
    successor.send(topic, 0, "finished")
    successor.commit()
    with pytest.raises(Refused) as refused:
        zombie.send_and_commit(topic, 0, "too-late")
    assert refused.value.name in FENCED
    settled(broker, topic, 4)
    assert seen(broker, successor, topic) == (["finished"], ["unfinished", "finished"])


def test_offsets_are_committed_with_the_transaction_or_not_at_all(broker, client, topic):
    group, target = fresh_topic("group"), create_topic(broker.address, fresh_topic("target"))
    send(broker.address, topic, [b"a", b"b", b"c"])
    client.join(group, topic)
    polled = client.poll(3)
    assert polled == ["a", "b", "c"]
    for end, expected in ((client.abort, None), (client.commit, 3)):
        client.begin()
        for value in polled:
            client.send(target, 0, value.upper())
        client.send_offsets()
        assert committed_offset(broker, group, topic) is None
        end()
        eventually(
            lambda expected=expected: committed_offset(broker, group, topic) == expected,
            f"the group is at {expected}",
        )
    settled(broker, target, 8)
    assert seen(broker, client, target) == (["A", "B", "C"], ["A", "B", "C"] * 2)


@pytest.mark.parametrize("kind", _sampled(["confluent", "kafka-python", CURRENT, ZOOKEEPER_ERA]))
def test_a_member_that_left_commits_no_offsets_any_more(broker, client, topic):
    """With those clients that name the member beside its group (KIP-447)."""
    group = fresh_topic("left")
    send(broker.address, topic, [b"a"])
    client.join(group, topic)
    client.poll(1)
    client.leave()
    client.begin()
    with pytest.raises(Refused):
        client.send_offsets_and_commit()
    client.abort()
    assert committed_offset(broker, group, topic) is None


def test_transactions_that_take_too_long_are_aborted(broker, open_client):
    """Those of all clients at once, because it is a test of waiting."""
    slow = {}
    for kind in SLOW_KINDS:
        topic = create_topic(broker.address, fresh_topic("slow"))
        slow[topic] = client = open_client(kind, topic, IMPATIENT_MS)
        client.init()
        client.begin()
        client.send(topic, 0, "abandoned")
    for (topic, client), kind in zip(slow.items(), SLOW_KINDS, strict=True):
        settled(broker, topic, 2)
        with pytest.raises(Refused):
            client.send_and_commit(topic, 0, "too-late")
        successor = open_client(kind, topic)
        successor.init()
        successor.begin()
        successor.send_and_commit(topic, 0, "finished")
        settled(broker, topic, 4)
        assert successor.read(topic, 0, READ_COMMITTED, 4) == ["finished"]


@pytest.mark.parametrize("kind", _sampled(JAVA))
def test_a_producer_goes_on_after_a_transaction_that_failed(broker, client):
    """A refused batch leaves a gap in the sequences: the epoch rises with the abort (KIP-360).

    The other clients do not come out of it at once, with Kafka neither.
    """
    topic = create_topic(
        broker.address, fresh_topic("narrow"), config={"max.message.bytes": "1000"}
    )
    client.begin()
    client.send(topic, 0, "small")
    with pytest.raises(Refused):
        client.send_and_commit(topic, 0, INCOMPRESSIBLE)
    client.abort()
    for number in range(2):
        client.begin()
        client.send_and_commit(topic, 0, f"again-{number}")
    settled(broker, topic, 6)
    assert seen(broker, client, topic) == (["again-0", "again-1"], ["small", "again-0", "again-1"])


@pytest.mark.parametrize("kind", ["confluent", CURRENT])
def test_compaction_keeps_the_last_committed_value_and_nothing_that_was_aborted(
    broker, client, kind
):
    topic = create_topic(broker.address, fresh_topic("compacted"), config=COMPACTED)
    for key, value, end in (
        ("a", "first", client.commit),
        ("b", "only", client.commit),
        ("a", "second", client.commit),
        ("a", "aborted", client.abort),
    ):
        client.begin()
        client.send(topic, 0, value, key)
        end()
    settled(broker, topic, 8)

    def compacted() -> bool:
        client.begin()
        client.send(topic, 0, "later", "c")
        client.commit()
        stored, _ = read_to_the_end(broker.address, topic, 0, READ_UNCOMMITTED)
        return not {"first", "aborted"} & {*stored}

    eventually(compacted, "what does not count is gone", TIMEOUT_S)
    stable = eventually(lambda: decided_end(broker, topic), "the last transaction is decided")
    for isolation in (READ_COMMITTED, READ_UNCOMMITTED):
        values = client.read(topic, 0, isolation, stable)
        assert [value for value in values if value != "later"] == ["only", "second"]


def decided_end(broker: BrokerProcess, topic: str) -> int | None:
    stable, end = ends(broker, topic)
    return end if stable == end else None


def test_kafkas_own_copier_copies_everything_once(broker):
    """The tool that Kafka's system tests kill; here it may come to its end."""
    source = create_topic(broker.address, fresh_topic("copier-in"))
    target = create_topic(broker.address, fresh_topic("copier-out"))
    values = [b"%d" % number for number in range(300)]
    send(broker.address, source, values)
    output = run_class(
        CURRENT,
        "org.apache.kafka.tools.TransactionalMessageCopier",
        "--broker-list", broker.address,
        "--transactional-id", fresh_topic("copier"),
        "--consumer-group", fresh_topic("copiers"),
        "--input-topic", source,
        "--input-partition", "0",
        "--output-topic", target,
        "--transaction-size", "50",
        "--max-messages", len(values),
        "--use-group-metadata",
    )  # fmt: skip
    last = json.loads(output.lines[-1])
    assert (last["consumed"], last["remaining"]) == (len(values), 0)
    settled(broker, target, len(values) + len(values) // 50)
    copied, _ = read_to_the_end(broker.address, target, 0, READ_COMMITTED)
    assert copied == [value.decode() for value in values]
