"""What the whole run shares: the server under test, one beside Apache Kafka, and Kafka's tools.

The server is Moldau; `MOLDAU_TEST_BROKER=kafka` puts Apache Kafka in its place, which is how this
suite shows that it asks for nothing Kafka would not do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.distribution import CURRENT, OLDEST
from kafka_harness.java import Output
from kafka_harness.kinds import kind_under_test, make_broker
from kafka_harness.tool_session import ToolSession
from kits.kafka_command_kit import Commands
from kits.tool_kit import Twins, started_twins

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "log.initial.task.delay.ms": "3600000",
    "log.retention.check.interval.ms": "3600000",
}
"""As in Kafka's own quick start, a first member does not wait three seconds for others; and nothing
is deleted meanwhile, because some records say that they are of long ago."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("broker")
    with make_broker(kind_under_test(), directory, SETTINGS) as running:
        yield running


@pytest.fixture(scope="session")
def tools() -> Iterator[ToolSession]:
    with ToolSession(CURRENT) as session:
        yield session


@pytest.fixture(scope="session")
def old_tools() -> Iterator[ToolSession]:
    with ToolSession(OLDEST) as session:
        yield session


@pytest.fixture(scope="session")
def dump(tools: ToolSession) -> Callable[..., Output]:
    """Return Kafka's tool that reads the files of a log."""
    return partial(tools.run, "org.apache.kafka.tools.DumpLogSegments")


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory, tools: ToolSession) -> Iterator[Twins]:
    with started_twins(tmp_path_factory.mktemp("twins"), tools) as running:
        yield running


@pytest.fixture(scope="session")
def commands(broker: BrokerProcess, tools: ToolSession) -> Commands:
    return Commands(broker, tools)
