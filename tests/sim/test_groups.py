"""Groups and offsets of a simulated broker, under every kind of fault.

Checked on every answer (`group_history`, `offset_history`) and in the end (`coordination_checks`):
P6, P7, one assignment a generation, generations that do not go back, and that what a coordinator
has in memory is what its log says (I9).
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from kits.coordination_runs import FAULTS, GROUPS, run_coordinators
from moldau.sim.scenarios import ScenarioOutcome

SEED = 2
"""One whose runs see everything that they are for; nearly all do."""


@cache
def outcome(faults: str) -> ScenarioOutcome:
    return run_coordinators(SEED, GROUPS, FAULTS[faults])


@pytest.mark.parametrize("faults", FAULTS)
def test_groups_keep_their_promises(faults):
    assert outcome(faults).seen["offset committed"] > 20


def test_the_runs_have_seen_what_they_are_for():
    seen = Counter()
    for faults in FAULTS:
        seen += outcome(faults).seen
    wanted = {
        "assigned",
        "offset read",
        "commit refused",
        "instance fenced",
        "member crashed",
        "member left",
        "member stalled",
        "coordinator away",
        "crashed at a point",
        "power cut survived",
        "log cleaned",
    }
    assert wanted - set(seen) == set()


def test_the_same_seed_gives_the_same_run():
    assert run_coordinators(SEED, GROUPS, FAULTS["kills"]).digest == outcome("kills").digest
