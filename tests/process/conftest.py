"""What tests of whole processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from process.clusters import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Return three brokers that notice within two seconds that another is gone."""
    with Cluster(tmp_path) as running:
        yield running


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperNode]:
    """Return a ZooKeeper that all tests share."""
    require_zookeeper()
    with ZooKeeperNode(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running
