"""Clusters of real brokers on a simulated ZooKeeper, under drawn workloads and faults.

The promises and checks are those of `test_cluster_seeds`, with those of ZooKeeper
(`moldau.sim.cluster.tree_checks`). `make sim-zookeeper-many N=600 JOBS=2` runs many more seeds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from kits.seed_runs import never_seen, seed_cases
from moldau.sim.cluster.coverage import coverage_lines
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.cluster.swarm import ClusterSwarm
from moldau.sim.cluster.zookeeper_faults import ZOOKEEPER_FAULTS
from moldau.sim.scenarios import ScenarioOutcome

SEEDS = (0, 11, 14, 19)
"""Cut short, at least two of them see each case. A change of the broker gives other runs."""

MORE_SEEDS = (3, 4, 5, 6, 8, 13)


def shortened(swarm: ClusterSwarm) -> ClusterSwarm:
    faults = (*swarm.faults, *ZOOKEEPER_FAULTS)
    return replace(swarm, duration_s=6.0, fault_mean_s=0.4, faults=faults)


@cache
def outcome(seed: int) -> ScenarioOutcome:
    return run_cluster_seed(seed, zookeeper=True, adjust=shortened)


@pytest.mark.parametrize("seed", seed_cases(SEEDS, MORE_SEEDS))
def test_every_promise_holds(seed):
    assert outcome(seed).event_count > 0


def test_the_runs_have_seen_what_they_are_for():
    wanted = {
        "acknowledged",
        "read",
        "election",
        "truncation",
        "controller change",
        "session expiry",
        "zombie controller resumed",
        "deletion with a broker away",
        "topic id erased",
        "topic back before a late deletion",
        "update of a former controller",
    }
    assert never_seen(wanted, map(outcome, SEEDS)) == set()


def test_many_seeds_tell_which_cases_of_zookeeper_they_missed():
    lines = list(coverage_lines(Counter({"controller change": 3}), 1, zookeeper=True))
    assert "   reached controller change: 3 of 2.5" in lines
    assert "    MISSED zombie controller resumed: 0 of 0.1" in lines


@pytest.mark.long
def test_the_same_seed_gives_the_same_run():
    again = run_cluster_seed(SEEDS[0], zookeeper=True, adjust=shortened)
    assert again.digest == outcome(SEEDS[0]).digest
