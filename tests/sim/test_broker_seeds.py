"""The whole broker under drawn workloads and faults: every promise that one broker can keep.

Checked on every answer and again at the end (docs/guarantees.md, `moldau.sim.history` and
`moldau.sim.checks`): P1 for process kills, P2 to P6, P8, P9, and that all is well once faults stop
(P7). `make sim-many N=1000` runs many more seeds than these.
"""

from __future__ import annotations

from functools import cache

import pytest

from kits.seed_runs import never_seen, said_in_another_process, seed_cases
from moldau.sim.scenarios import run_seed

SEEDS = (0, 1, 2, 4, 5, 6, 11)
"""Runs that see every kind of fault between them."""

MORE_SEEDS = (3, 7, 8, 9, 10)

outcome = cache(run_seed)


@pytest.mark.parametrize("seed", seed_cases(SEEDS, MORE_SEEDS))
def test_every_promise_holds(seed):
    assert outcome(seed).event_count > 0


def test_the_runs_have_seen_what_they_are_for():
    wanted = {
        "acknowledged",
        "read",
        "connection lost",
        "refused",
        "crashed at a point",
        "power cut survived",
        "torn tail cut",
        "topic deleted",
        "records deleted",
        "crash while starting",
        "assigned",
        "committed",
        "offset read",
        "key written",
        "log cleaned",
    }
    assert never_seen(wanted, map(outcome, SEEDS)) == set()


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(2, marks=pytest.mark.long, id="without coordinators"),
        pytest.param(5, id="with coordinators"),
    ],
)
def test_the_same_seed_gives_the_same_run_in_another_process(seed):
    assert outcome(seed).digest in said_in_another_process(seed, hash_seed=1)
