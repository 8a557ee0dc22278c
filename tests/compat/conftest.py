"""The server under test, one for the whole run.

It is Moldau; `MOLDAU_TEST_BROKER=kafka` puts Apache Kafka in its place, which is how this suite
shows that it asks for nothing Kafka would not do.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafka_harness.broker import BrokerProcess
from kafka_harness.kinds import kind_under_test, make_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with make_broker(kind_under_test(), tmp_path_factory.mktemp("broker")) as running:
        yield running
