"""The files of the coordinators, as clients fill them, dumped by both tools: line for line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from kafka_harness.distribution import CURRENT
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.topics import create_topic, send
from moldau.cli.dump_log import dump_log

pytestmark = pytest.mark.java(CURRENT)

TIMEOUT_S = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker leaves whose only client copied records, exactly once, and left its group."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    directory = tmp_path_factory.mktemp("decoded")
    with make_broker(kind_under_test(), directory, settings) as broker:
        for topic in ("read", "written"):
            create_topic(broker.address, topic)
        send(broker.address, "read", [b"one", b"two"])
        copy(broker.address)
    return broker.data


def copy(address: str) -> None:
    servers = {"bootstrap.servers": address}
    producer = Producer({**servers, "transactional.id": "copier"})
    producer.init_transactions(TIMEOUT_S)
    options = {"group.id": "copiers", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**servers, **options})
    consumer.subscribe(["read"])
    for _ in range(2):
        message = consumer.poll(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("written", message.value())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction(TIMEOUT_S)
    consumer.commit(asynchronous=False)
    consumer.close()


@pytest.mark.parametrize(
    ("option", "topic", "said"),
    [
        ("--offsets-decoder", "__consumer_offsets", '"group":"copiers","topic":"read"'),
        ("--transaction-log-decoder", "__transaction_state", '"transactionalId":"copier"'),
    ],
)
def test_both_tools_print_the_same_lines(dump, data, option, topic, said):
    logs = [log for log in data.glob(f"{topic}-*/*.log") if log.stat().st_size]
    arguments = ["--files", ",".join(str(log) for log in sorted(logs)), option]
    kafkas = dump(*arguments).stdout
    assert said in kafkas
    assert CliRunner().invoke(dump_log, arguments).stdout == kafkas
