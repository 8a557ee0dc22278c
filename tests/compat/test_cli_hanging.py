"""A transaction that nobody will end: `moldau txn` finds it, shows it and ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.topics import create_topic
from kits.cli_kit import Ran, moldau
from kits.tool_kit import SETTINGS
from moldau.protocol.messages.data import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.metadata import FindCoordinatorRequest
from moldau.protocol.messages.transactions import InitProducerIdRequest
from moldau.records.builder import BatchBuilder
from process.raw_client import RawClient
from process.raw_transaction import TRANSACTION_KEY, patiently

TOPIC, NAME = "ledger", "hanging"
LONG_AGO_MS = 1_700_000_000_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that does not verify transactions: those that do (KIP-890) let none hang."""
    with make_broker(kind_under_test(), tmp_path, SETTINGS) as running:
        create_topic(running.address, TOPIC, 2, {"retention.ms": "-1"})
        leave_hanging(running)
        yield running


def leave_hanging(broker: BrokerProcess) -> None:
    """Write in a transaction without telling its coordinator."""
    with RawClient((broker.host, broker.port)) as client:
        patiently(lambda: client.call(FindCoordinatorRequest(NAME, TRANSACTION_KEY), 2))
        given = patiently(lambda: client.call(InitProducerIdRequest(NAME, 60_000), 4))
        builder = BatchBuilder(
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        builder.append(LONG_AGO_MS, b"k", b"v")
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(1, builder.build())])
        answer = client.call(ProduceRequest(NAME, -1, 10_000, [data]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_it_is_found_and_ended_and_readers_go_on(broker: BrokerProcess) -> None:
    def run(*arguments: object) -> Ran:
        ran = moldau(*arguments, "-b", broker.address)
        assert (ran.status, ran.err) == (0, "")
        return ran

    def stable_ends() -> list[int]:
        rows = run("topic", "offsets", TOPIC, "-o", "json").data
        return [row["last_stable"] for row in rows]

    (found,) = run("txn", "find-hanging", "-o", "json").data
    assert (found["topic"], found["partition"], found["start_offset"]) == (TOPIC, 1, 0)
    assert found["transactional_id"] == NAME
    assert found["last_written"] == "2023-11-14T22:13:20.000Z"
    assert run("txn", "find-hanging", f"{TOPIC}:0", "-o", "json").data == []
    assert stable_ends() == [0, 0]
    run("txn", "abort", f"{TOPIC}:1", "--start-offset", 0, "--yes")
    assert run("txn", "find-hanging", "-o", "json").data == []
    assert stable_ends() == [0, 2]
