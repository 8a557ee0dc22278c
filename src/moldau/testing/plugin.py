"""Fixtures for pytest: brokers by the test, by the session, and made to order.

    def test_orders(moldau_broker):
        with Producer(moldau_broker.bootstrap_servers) as producer: ...

pytest loads this module in every project that has Moldau installed, so it imports nothing of Moldau
until a fixture is asked for.
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
    """Starts a broker that lives as long as the test; takes what `TestBroker` takes."""

    def __call__(self, **options: Any) -> TestBroker: ...


@pytest.fixture
def moldau_broker() -> Iterator[TestBroker]:
    """A broker of the test's own, empty."""
    from moldau.testing.broker import TestBroker  # noqa: PLC0415 - only tests that use it pay

    with TestBroker() as broker:
        yield broker


@pytest.fixture
def moldau_cluster() -> Iterator[TestCluster]:
    """Three brokers of the test's own, which replicate; they can be killed and cut off."""
    from moldau.testing.cluster import TestCluster  # noqa: PLC0415 - only tests that use it pay

    with TestCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def moldau_shared_broker() -> Iterator[TestBroker]:
    """One broker for all tests that ask for it: give topics and groups names of their own."""
    from moldau.testing.broker import TestBroker  # noqa: PLC0415 - only tests that use it pay

    with TestBroker() as broker:
        yield broker


@pytest.fixture
def moldau_broker_factory() -> Iterator[MakeBroker]:
    """Start brokers with settings of the test's choice; they end with the test."""
    from moldau.testing.broker import TestBroker  # noqa: PLC0415 - only tests that use it pay

    with ExitStack() as running:

        def make(**options: Any) -> TestBroker:
            return running.enter_context(TestBroker(**options))

        yield make
