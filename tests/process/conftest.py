"""What tests of whole processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from process.clusters import Cluster
from process.zookeeper_clusters import ZooKeeperCluster


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


@pytest.fixture(scope="session")
def shared_on_zookeeper(
    zookeeper: ZooKeeperNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ZooKeeperCluster]:
    """Return three brokers on ZooKeeper that quick tests share: each leaves them running."""
    directory = tmp_path_factory.mktemp("on-zookeeper")
    with ZooKeeperCluster(directory, zookeeper, "/shared") as running:
        yield running


@pytest.fixture
def on_zookeeper(shared_on_zookeeper: ZooKeeperCluster) -> Iterator[ZooKeeperCluster]:
    """Return the shared brokers, and start again those that a test has ended."""
    yield shared_on_zookeeper
    shared_on_zookeeper.make_whole()
