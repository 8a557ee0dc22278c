"""What nodes do from time to time, by their part in the cluster."""

from __future__ import annotations

import asyncio

import pytest

from moldau.cluster.store import StoreFailed
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.nodes.cluster_chores import cluster_chores

ALONE = {"listeners": "PLAINTEXT://a:1"}
VOTER = {
    "listeners": "PLAINTEXT://a:1,CONTROLLER://a:2",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@a:2",
}
OBSERVER = {
    "process.roles": "broker",
    "node.id": "2",
    "listeners": "PLAINTEXT://a:1",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@b:2",
}


class Controller:
    """Has so much to do."""

    is_active = True

    def __init__(self, *results):
        self.results = list(results)
        self.call_count = 0

    async def check_sessions(self):
        self.call_count += 1
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    elect_unclean_leaders = elect_preferred_leaders = check_sessions


class Replicas:
    async def shrink_isrs(self):
        pass


def chores(settings, controller=None, **more):
    loaded = BrokerSettings.load(None, {"log.dirs": "/data"} | settings | more)
    found = cluster_chores(loaded, controller or Controller(), Replicas())
    return {one.name: one for one in found}


def test_a_broker_that_stands_alone_has_none():
    assert chores(ALONE) == {}


def test_an_observer_looks_for_followers_that_lag():
    found = chores(OBSERVER, **{"replica.lag.time.max.ms": "8000"})
    assert {name: one.interval_s for name, one in found.items()} == {"ISR shrinks": 4.0}


def test_the_voter_looks_for_silent_brokers_and_for_leaders_too():
    times = {"broker.session.timeout.ms": "8000", "leader.imbalance.check.interval.seconds": "60"}
    found = {name: one.interval_s for name, one in chores(VOTER, **times).items()}
    assert found == {
        "ISR shrinks": 15.0,
        "sessions": 1.0,
        "unclean elections": 300.0,
        "preferred leaders": 60,
    }


def test_leaders_are_left_where_they_are_if_the_settings_say_so():
    assert "preferred leaders" not in chores(VOTER, **{"auto.leader.rebalance.enable": "false"})


@pytest.mark.parametrize(
    ("name", "results"),
    [
        ("sessions", [0, 5, None]),
        ("unclean elections", [True, True, False]),
        ("preferred leaders", [True, ApiError(ErrorCode.NOT_CONTROLLER)]),
        ("sessions", [0, StoreFailed("full")]),
    ],
)
def test_the_controller_works_until_nothing_is_left_or_it_cannot(name, results):
    controller = Controller(*results)
    asyncio.run(chores(VOTER, controller)[name].work())
    assert controller.call_count == len(results)
