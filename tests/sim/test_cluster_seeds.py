"""Clusters of real brokers under drawn workloads and faults: what is acknowledged is kept.

Checked after every turn of the loop (`moldau.sim.cluster.monitor`), on every answer
(`moldau.sim.cluster.claims`) and at the end (`moldau.sim.cluster.final_checks`).
`make sim-cluster-many N=600 JOBS=2` runs many more seeds than these.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from kits.seed_runs import never_seen, said_in_another_process, seed_cases
from moldau.sim.cluster.coverage import coverage_lines
from moldau.sim.cluster.nemesis import FAULTS_BY_NAME
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.cluster.swarm import FAULTS

SEEDS = (4, 9, 18, 20, 23, 34)
"""Short runs that see most faults between them."""

MORE_SEEDS = (0, 5, 7, 13, 15, 22, 24, 28, 43)

outcome = cache(run_cluster_seed)


@pytest.mark.parametrize("seed", seed_cases(SEEDS, MORE_SEEDS))
def test_every_promise_holds(seed):
    assert outcome(seed).event_count > 0


def test_the_runs_have_seen_what_they_are_for():
    wanted = {
        "acknowledged",
        "read",
        "no answer",
        "election",
        "ISR shrunk",
        "ISR expanded",
        "truncation",
        "unfenced return",
        "election of an eligible leader replica",
    }
    assert never_seen(wanted, map(outcome, SEEDS)) == set()


def test_every_fault_that_a_seed_may_draw_is_there():
    assert set(FAULTS) == set(FAULTS_BY_NAME)


def test_many_seeds_tell_which_cases_they_missed():
    seen = Counter({"election": 3, "truncation": 0})
    lines = list(coverage_lines(seen, 1))
    assert lines[:2] == ["   reached election: 3 of 2.5", "    MISSED truncation: 0 of 0.5"]


def test_the_same_seed_gives_the_same_run_in_another_process():
    said = said_in_another_process(SEEDS[0], "--cluster", hash_seed=7)
    assert outcome(SEEDS[0]).digest in said
