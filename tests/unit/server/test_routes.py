"""What a broker advertises is what the newest released Kafka serves, API by API.

The table is made from kafka-clients 4.4.0 by `python -m tests.golden.api_ranges`.
"""

from pathlib import Path

import pytest

from kafka_harness.wire import ask_api_versions
from moldau.testing import TestBroker

TABLE = Path(__file__).parents[2] / "golden" / "api_ranges.tsv"
NEWEST = {
    int(key): (name, int(oldest), int(newest))
    for key, name, oldest, newest in (
        line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")
    )
}
NOT_SERVED = {"GetTelemetrySubscriptions", "PushTelemetry"}
"""Kafka too does not advertise telemetry without a reporter for it."""


@pytest.fixture(scope="module")
def advertised():
    with TestBroker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        return ask_api_versions(host, int(port))


def test_every_api_of_kafka_is_served_or_known_to_be_missing(advertised):
    served = {NEWEST[key][0] for key in advertised}
    assert served == {name for name, *_ in NEWEST.values()} - NOT_SERVED


def test_the_versions_go_up_to_kafkas_newest_and_down_at_least_as_far(advertised):
    for key, (oldest, newest) in advertised.items():
        name, kafkas_oldest, kafkas_newest = NEWEST[key]
        assert (newest, oldest <= kafkas_oldest) == (kafkas_newest, True), name
