"""pytest fixtures: brokers per test, per session, and with your own settings.

    def test_orders(moldau_broker):
        with Producer(moldau_broker.bootstrap_servers) as producer: ...

pytest loads this module in every project that has Moldau installed. It therefore imports nothing of
Moldau until a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from moldau.testing.broker import TestBroker
    from moldau.testing.cluster import TestCluster


class MakeBroker(Protocol):
    """Starts a broker for the duration of the test, with the arguments of `TestBroker`."""

    def __call__(self, **options: Any) -> TestBroker: ...


@pytest.fixture
def moldau_broker() -> Iterator[TestBroker]:
    """A new, empty broker for each test."""
    from moldau.testing.broker import TestBroker  # noqa: PLC0415 - only tests that use it pay

    with TestBroker() as broker:
        yield broker


@pytest.fixture
def moldau_cluster() -> Iterator[TestCluster]:
    """A new cluster of three brokers for each test; brokers can be killed and cut off."""
    from moldau.testing.cluster import TestCluster  # noqa: PLC0415 - only tests that use it pay

    with TestCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def moldau_shared_broker() -> Iterator[TestBroker]:
    """One broker for the whole session: use distinct names for topics and groups."""
    from moldau.testing.broker import TestBroker  # noqa: PLC0415 - only tests that use it pay

    with TestBroker() as broker:
        yield broker


@pytest.fixture
def moldau_broker_factory() -> Iterator[MakeBroker]:
    """Starts brokers with your settings; they stop with the test."""
    from moldau.testing.broker import TestBroker  # noqa: PLC0415 - only tests that use it pay

    with ExitStack() as running:

        def make(**options: Any) -> TestBroker:
            return running.enter_context(TestBroker(**options))

        yield make
