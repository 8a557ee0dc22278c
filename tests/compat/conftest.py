"""The server under test, one for the whole run; and one beside Apache Kafka, for Kafka's tools.

It is Moldau; `MOLDAU_TEST_BROKER=kafka` puts Apache Kafka in its place, which is how this suite
shows that it asks for nothing Kafka would not do.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_command_kit import Commands
from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.tool_session import ToolSession
from tool_kit import Twins, started_twins


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with started_twins(tmp_path_factory.mktemp("twins")) as running:
        yield running


@pytest.fixture(scope="session")
def commands(broker: BrokerProcess) -> Iterator[Commands]:
    with ToolSession(CURRENT) as session:
        yield Commands(broker, session)
