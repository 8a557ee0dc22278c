"""Clusters of real brokers under drawn workloads and faults: what is acknowledged is kept.

Checked after every turn of the loop (`moldau.sim.cluster.monitor`), on every answer
(`moldau.sim.cluster.claims`) and at the end (`moldau.sim.cluster.final_checks`).
`make sim-cluster-many N=600 JOBS=2` runs many more seeds than these.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from kits.seed_runs import never_seen, seed_cases
from moldau.sim.cluster.coverage import coverage_lines
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.cluster.swarm import ClusterSwarm
from moldau.sim.scenarios import ScenarioOutcome

SEEDS = (9, 11, 27, 28, 29)
"""Cut short, at least two of them see each case. A change of the broker gives other runs."""

MORE_SEEDS = (0, 4, 20, 31, 33, 38, 39, 41, 43)


IN_ANOTHER_PROCESS = "from test_cluster_seeds import outcome; "


def shortened(swarm: ClusterSwarm) -> ClusterSwarm:
    return replace(swarm, duration_s=8.0, fault_mean_s=0.5)


@cache
def outcome(seed: int) -> ScenarioOutcome:
    return run_cluster_seed(seed, adjust=shortened)


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
        "election during a pending ISR change",
        "zombie leader resumed",
        "transaction over a coordinator move",
        "committed",
        "assigned",
        "offset committed",
        "topic deleted",
    }
    assert never_seen(wanted, map(outcome, SEEDS)) == set()


def test_many_seeds_tell_which_cases_they_missed():
    seen = Counter({"election": 3, "truncation": 0})
    lines = list(coverage_lines(seen, 1))
    assert lines[:2] == ["   reached election: 3 of 2.5", "    MISSED truncation: 0 of 0.5"]


def test_the_same_seed_gives_the_same_run_in_another_process():
    folder = Path(__file__).parent
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(folder.parent)}
    command = [sys.executable, "-c", f"{IN_ANOTHER_PROCESS}print(outcome({SEEDS[0]}).digest)"]
    done = subprocess.run(
        command, env=environment, cwd=folder, check=True, capture_output=True, text=True
    )
    assert outcome(SEEDS[0]).digest in done.stdout
