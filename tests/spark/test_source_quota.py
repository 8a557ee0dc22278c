"""What a quota of Apache Kafka holds back is read all the same, only later."""

from __future__ import annotations

import pytest

from kafka_harness.distribution import CURRENT
from kafka_harness.java import run_class
from kafka_harness.kinds import kind_under_test
from kafka_harness.samples import fresh_topic
from kafka_harness.topics import create_topic, send
from moldau.spark.source.connections import close_all
from moldau.spark.source.fetching import Fetching
from spark.source_kit import batch_rows

pytestmark = pytest.mark.skipif(kind_under_test() == "moldau", reason="Moldau has no quotas")

CLIENT = "held-back"
VALUES = [b"%d:" % number + bytes(1_000) for number in range(120)]
"""Several batches of them."""


@pytest.fixture
def _quota(broker):
    """A quota that a second fetch runs into."""
    run_class(
        CURRENT, "kafka.admin.ConfigCommand", "--bootstrap-server", broker.address, "--alter",
        "--entity-type", "clients", "--entity-name", CLIENT,
        "--add-config", "consumer_byte_rate=10000",
    )  # fmt: skip
    yield
    close_all()


@pytest.mark.usefixtures("_quota")
def test_a_quota_of_kafkas_delays_rows_and_loses_none(broker, monkeypatch):
    told = []  # None where Kafka said only that we are too fast
    ask = Fetching._ask

    async def noted(self):
        told.append(await ask(self))
        return told[-1]

    monkeypatch.setattr(Fetching, "_ask", noted)
    topic = create_topic(broker.address, fresh_topic("quota"), 1)
    send(broker.address, topic, VALUES)
    small = {"kafka__max__partition__fetch__bytes": "20000"}
    read = batch_rows(broker, subscribe=topic, kafka__client__id=CLIENT, **small)
    assert [row["value"] for row in read] == VALUES
    assert None in told
