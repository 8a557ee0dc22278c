"""Compaction of a simulated broker at work, under every kind of fault.

Writers keep on writing over their keys and readers go through whole partitions while the cleaner
swaps segments under them (`keyed_history`): of each key what was acknowledged, or something later,
is found, in order and unchanged (P1, P2, P4). The offsets topic is cleaned meanwhile, too (P6).
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from kits.coordination_runs import COMPACTION, FAULTS, run_coordinators
from moldau.sim.scenarios import ScenarioOutcome


@cache
def outcome(faults: str) -> ScenarioOutcome:
    return run_coordinators(1, COMPACTION, FAULTS[faults])


@pytest.mark.parametrize("faults", FAULTS)
def test_compacted_logs_keep_what_is_newest(faults):
    assert outcome(faults).seen["compacted partition read"] > 2


def test_the_runs_have_seen_what_they_are_for():
    seen = Counter()
    for faults in FAULTS:
        seen += outcome(faults).seen
    assert seen["log cleaned"] > 5
    assert seen["key written"] > 100
    assert seen["crashed at a point"] > 0
