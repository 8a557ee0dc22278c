"""Transactions of a simulated broker, under every kind of fault.

Checked on every answer (`transaction_history`) and in the end (`coordination_checks`): P3 for the
last stable offset and aborted records, P4, P5 with records and offsets of one transaction held
against each other, P7 for transactions that nobody ends, and that what a coordinator has in memory
is what its log says (I9).
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from kits.coordination_runs import FAULTS, TRANSACTIONS, run_coordinators
from moldau.sim.scenarios import ScenarioOutcome

SEED = 2


@cache
def outcome(faults: str) -> ScenarioOutcome:
    return run_coordinators(SEED, TRANSACTIONS, FAULTS[faults])


@pytest.mark.parametrize("faults", FAULTS)
def test_transactions_keep_their_promises(faults):
    assert outcome(faults).seen["committed"] > 5


def test_the_runs_have_seen_what_they_are_for():
    seen = Counter()
    for faults in FAULTS:
        seen += outcome(faults).seen
    wanted = {
        "aborted",
        "aborted batch left out",
        "committed value read",
        "producer fenced",
        "producer replaced",
        "transaction timed out",
        "coordinator away",
        "crashed at a point",
        "power cut survived",
        "log cleaned",
    }
    assert wanted - set(seen) == set()


def test_the_same_seed_gives_the_same_run():
    assert run_coordinators(SEED, TRANSACTIONS, FAULTS["kills"]).digest == outcome("kills").digest
