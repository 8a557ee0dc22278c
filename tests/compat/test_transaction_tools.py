"""kafka-transactions.sh on a broker with transactions in every state, one of them hanging.

What it prints is compared with what it prints of Apache Kafka in the same state. A transaction
hangs when records of it came to a partition that its coordinator knows nothing of; brokers that
verify (KIP-890) let none begin, so both are told not to.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT
from kafka_harness.java import Output
from kafka_harness.kafka_node import NODE_ID
from kafka_harness.topics import create_topic
from kafka_harness.waiting import eventually
from kits.tool_kit import TRANSACTIONS, Twins
from moldau.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.records.builder import BatchBuilder
from process.raw_client import RawClient

pytestmark = pytest.mark.java(CURRENT)

TOPIC = "ledger"
HANGING = ("hanging-a", "hanging-b")
LONG_AGO_MS = 1_700_000_000_000
"""What is older than the longest time-out any producer may ask for is not just slow."""
TIMES = {"LastTimestamp", "CurrentTransactionStartTimeMs", "TransactionDurationMs", "DurationMin",
         "StartTimeMs", "DurationMs"}  # fmt: skip

PRODUCERS: dict[BrokerProcess, dict[str, str]] = {}
"""By broker: its producer ids, which differ, and the transactional ids that stand for them."""


@pytest.fixture(scope="module", autouse=True)
def _transactions(twins: Twins) -> Iterator[None]:
    """Give both brokers the same transactions, and learn who got which producer id."""
    for broker in twins.brokers:
        create_topic(broker.address, TOPIC, 3, {"retention.ms": "-1"})
        for name in ("committed", "aborted", "empty", "open", "terminated"):
            transactional(broker, name)
        for partition, name in enumerate(HANGING, 1):
            leave_hanging(broker, name, partition)
    for broker, output in zip(twins.brokers, twins.outputs(TRANSACTIONS, "list"), strict=True):
        PRODUCERS[broker] = {row["ProducerId"]: row["TransactionalId"] for row in table(output)}
    yield
    PRODUCERS.clear()


def transactional(broker: BrokerProcess, name: str) -> Producer:
    """Bring a transactional id into the state it is named after."""
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": name})
    producer.init_transactions(30)
    if name == "empty":
        return producer
    producer.begin_transaction()
    producer.produce(TOPIC, name.encode(), partition=0)
    producer.flush(30)
    if name == "committed":
        producer.commit_transaction(30)
    elif name == "aborted":
        producer.abort_transaction(30)
    return producer


def leave_hanging(broker: BrokerProcess, name: str, partition: int) -> None:
    """Write in a transaction without telling its coordinator."""
    with RawClient((broker.host, broker.port)) as client:
        given = client.call(InitProducerIdRequest(name, 60_000), 4)
        assert given.error_code == 0
        builder = BatchBuilder(
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        builder.append(LONG_AGO_MS, b"k", b"v")
        data = TopicProduceData(
            TOPIC, partition_data=[PartitionProduceData(partition, builder.build())]
        )
        answer = client.call(ProduceRequest(name, -1, 10_000, [data]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def table(output: Output) -> list[dict[str, str]]:
    """What the tool printed: a heading and rows, their cells apart by tabs."""
    heading, *rows = (
        [cell.strip() for cell in line.strip("\t").split("\t")] for line in output.lines if line
    )
    return [dict(zip(heading, row, strict=False)) for row in rows]


def rows(twins: Twins, *arguments: object) -> list[dict[str, str]]:
    """Run the tool on both; return its rows, without times, when both say the same."""
    answers = []
    for broker, output in zip(twins.brokers, twins.outputs(TRANSACTIONS, *arguments), strict=True):
        assert output.status == 0, output
        found = [
            {key: cell for key, cell in row.items() if key not in TIMES} for row in table(output)
        ]
        for row in found:
            if "ProducerId" in row:
                row["ProducerId"] = PRODUCERS[broker][row["ProducerId"]]
        answers.append(sorted(found, key=lambda row: list(row.values())))
    assert answers[0] == answers[1]
    return answers[1]


def test_transactions_are_listed_with_their_states(twins):
    states = {row["TransactionalId"]: row["TransactionState"] for row in rows(twins, "list")}
    assert states["committed"] == "CompleteCommit"
    assert states["aborted"] == "CompleteAbort"
    assert states["open"] == "Ongoing"
    assert states["empty"] == "Empty"
    by_pattern = rows(twins, "list", "--transactional-id-pattern", "(op|em).*")
    assert [row["TransactionalId"] for row in by_pattern] == ["empty", "open"]
    old = [row["TransactionalId"] for row in rows(twins, "list", "--duration-filter", 3_600_000)]
    assert "open" not in old


@pytest.mark.parametrize("name", ["open", "committed", "empty", *HANGING])
def test_a_transaction_is_described(twins, name):
    (row,) = rows(twins, "describe", "--transactional-id", name)
    assert row["CoordinatorId"] == str(NODE_ID)
    assert row["TopicPartitions"] == (f"{TOPIC}-0" if name == "open" else "")


def test_an_unknown_transaction_cannot_be_described(twins):
    lines = twins.same(TRANSACTIONS, "describe", "--transactional-id", "nobody")
    assert any("not found" in line or "not be found" in line for line in lines)


def test_producers_are_described_with_where_their_transactions_begin(twins):
    found = rows(twins, "describe-producers", "--topic", TOPIC, "--partition", 0)
    starts = {row["ProducerId"]: row["CurrentTransactionStartOffset"] for row in found}
    assert starts["committed"] == "None"
    assert starts["open"].isdigit()
    found = rows(
        twins, "describe-producers", "--topic", TOPIC, "--partition", 0, "--broker-id", NODE_ID
    )
    assert len(found) == len(starts)


def test_hanging_transactions_are_found_and_aborted(twins):
    arguments = ("find-hanging", "--max-transaction-timeout", 1)
    everywhere = rows(twins, *arguments, "--broker-id", NODE_ID)
    assert [(row["Topic"], row["Partition"], row["ProducerId"]) for row in everywhere] == [
        (TOPIC, "1", "hanging-a"),
        (TOPIC, "2", "hanging-b"),
    ]
    assert rows(twins, *arguments, "--topic", TOPIC) == everywhere
    assert rows(twins, *arguments, "--topic", TOPIC, "--partition", 1) == everywhere[:1]
    assert [stable_end(broker, 1) for broker in twins.brokers] == [0, 0]

    abort = ("abort", "--topic", TOPIC, "--partition")
    assert twins.same(TRANSACTIONS, *abort, 1, "--start-offset", 0) == []
    for broker in twins.brokers:
        (producer_id,) = [
            number for number, name in PRODUCERS[broker].items() if name == "hanging-b"
        ]
        run_on(
            twins, broker, *abort, 2, "--producer-id", producer_id, "--producer-epoch", 0,
            "--coordinator-epoch", 0,
        )  # fmt: skip
    assert rows(twins, *arguments, "--broker-id", NODE_ID) == []
    for partition in (1, 2):
        assert [stable_end(broker, partition) for broker in twins.brokers] == [2, 2]
        found = rows(twins, "describe-producers", "--topic", TOPIC, "--partition", partition)
        assert [row["CurrentTransactionStartOffset"] for row in found] == ["None"]
    again = twins.same(TRANSACTIONS, *abort, 1, "--start-offset", 0)
    assert any("Could not find any open transactions" in line for line in again)


def run_on(twins: Twins, broker: BrokerProcess, *arguments: object) -> None:
    twins.session.run(TRANSACTIONS, "--bootstrap-server", broker.address, *arguments)


def stable_end(broker: BrokerProcess, partition: int) -> int:
    """Ask how far a reader of what is committed can read."""
    with RawClient((broker.host, broker.port)) as client:
        asked = ListOffsetsTopic(TOPIC, [ListOffsetsPartition(partition, timestamp=-1)])
        found: Any = client.call(ListOffsetsRequest(-1, 1, [asked]), 5).topics[0].partitions[0]
        return int(found.offset)


def test_a_transaction_is_terminated_by_force(twins):
    twins.same(TRANSACTIONS, "forceTerminateTransaction", "--transactionalId", "terminated")
    eventually(
        lambda: all(
            row["TransactionState"] != "Ongoing" and "Prepare" not in row["TransactionState"]
            for output in twins.outputs(
                TRANSACTIONS, "describe", "--transactional-id", "terminated"
            )
            for row in table(output)
        ),
        "the transaction has ended",
    )
    (row,) = rows(twins, "describe", "--transactional-id", "terminated")
    assert row["TransactionState"] in {"CompleteAbort", "Empty"}
