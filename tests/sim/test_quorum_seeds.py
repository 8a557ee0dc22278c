"""Clusters of real brokers whose metadata are in a quorum, under drawn workloads and faults.

The promises and checks are those of `test_cluster_seeds`, with those of a quorum
(`moldau.sim.cluster.quorum_monitor`). `make sim-quorum-many N=600 JOBS=2` runs many more seeds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from kits.mutants.catching import catch
from kits.mutants.cluster_runs import in_quorum
from kits.mutants.quorum import QUICK
from kits.mutants.search import MUTANTS
from kits.seed_runs import never_seen, seed_cases
from moldau.sim.cluster.coverage import coverage_lines
from moldau.sim.cluster.quorum_faults import QUORUM_FAULTS
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.cluster.swarm import ClusterSwarm
from moldau.sim.scenarios import ScenarioOutcome

SEEDS = (3, 6, 7)
"""Cut short, they see each case. A change of the broker gives other runs."""

MORE_SEEDS = (0, 1, 2, 4, 5, 8, 9)

VOTERS_IN_LOG = 1
"""A seed whose voters are named by the log."""

SAMPLE = (
    "a vote is answered before it is durable",
    "pre-votes are skipped",
    "an observer of the quorum counts",
    "the metadata log counts before it is synced",
    "the metadata log is not synced",
    "metadata is applied before it is committed",
    "a snapshot is applied on top of existing metadata",
)
"""Mutants that the first seed finds in a second or so."""


def shortened(swarm: ClusterSwarm) -> ClusterSwarm:
    faults = (*swarm.faults, *QUORUM_FAULTS)
    return replace(swarm, duration_s=6.0, fault_mean_s=0.4, faults=faults)


@cache
def outcome(seed: int) -> ScenarioOutcome:
    return run_cluster_seed(seed, quorum=True, adjust=shortened)


@pytest.mark.parametrize("seed", seed_cases(SEEDS, MORE_SEEDS))
def test_every_promise_holds(seed):
    assert outcome(seed).event_count > 0


def test_the_runs_have_seen_what_they_are_for():
    wanted = {
        "acknowledged",
        "read",
        "election",
        "quorum election",
        "truncation of the metadata log",
        "leader without room replaced",
        "request of an earlier epoch",
    }
    assert never_seen(wanted, map(outcome, SEEDS)) == set()


def test_voters_lose_their_metadata_and_take_their_own_place():
    run = in_quorum("voter replaced", settings=QUICK, duration_s=7.0)
    assert run(VOTERS_IN_LOG).seen["voter replaced"] > 1


def test_many_seeds_tell_which_cases_of_a_quorum_they_missed():
    lines = list(coverage_lines(Counter({"quorum election": 3}), 1, quorum=True))
    assert "   reached quorum election: 3 of 0.5" in lines
    assert "    MISSED zombie controller resumed: 0 of 0.1" in lines


@pytest.mark.long
def test_the_same_seed_gives_the_same_run():
    again = run_cluster_seed(SEEDS[0], quorum=True, adjust=shortened)
    assert again.digest == outcome(SEEDS[0]).digest


@pytest.mark.parametrize("name", SAMPLE)
def test_a_mistake_is_found_by_the_first_seed(name):
    assert catch(MUTANTS[name], 0, limit=1) is not None, "it lives"


def test_without_a_mistake_nothing_is_found():
    MUTANTS["pre-votes are skipped"].run(0)
