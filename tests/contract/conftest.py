"""Real ZooKeeper for contracts that need it, one server or three, and how scenarios run on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kafka_harness.zookeeper_ensemble import ZooKeeperEnsemble
from kafka_harness.zookeeper_node import ZooKeeperNode, require_zookeeper
from kits.zookeeper_scenarios import Scenario, run_real, run_simulated


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperNode]:
    require_zookeeper()
    with ZooKeeperNode(tmp_path_factory.mktemp("zookeeper")) as running:
        yield running


@pytest.fixture(scope="session")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    require_zookeeper()
    with ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble")) as running:
        yield running


@pytest.fixture(
    params=[
        pytest.param("kazoo", marks=pytest.mark.process),
        pytest.param("ensemble", marks=[pytest.mark.process, pytest.mark.long]),
        "simulated",
    ]
)
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    if request.param == "simulated":
        return run_simulated
    if request.param == "ensemble":
        # What a client asks one server, and writes through it, goes by way of another.
        port = request.getfixturevalue("ensemble").wait_for_follower().port
    else:
        port = request.getfixturevalue("node").port
    return lambda scenario: run_real(scenario, port)
