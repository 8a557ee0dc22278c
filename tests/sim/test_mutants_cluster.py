"""The tester tested: a cluster with a mistake in its rules is caught within a few seeds.

Each mutant breaks one rule of replication in the running code, and is run where it matters. The
failure must be a finding of the checks, not an accident of the mutant.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from moldau.replication import leader_state, rules, truncation
from moldau.replication.pending_commits import PendingCommits
from moldau.server.broker import Broker
from moldau.sim.cluster.scenario import run_cluster_seed
from moldau.sim.cluster.swarm import TopicPlan, WriterPlan
from moldau.sim.history import Violation
from moldau.sim.scenarios import Failed
from moldau.sim.swarm import Coordination

SEEDS = range(20)
"""How long a mutant may live."""


def counts_its_own_log_as_committed(patch):
    def advance(state, high_watermark, log_end_offset, *_):
        return max(high_watermark, log_end_offset)

    patch.setattr(rules, "next_high_watermark", advance)


def acknowledges_before_the_high_watermark(patch):
    patch.setattr(PendingCommits, "__bool__", lambda self: False)
    patch.setattr(PendingCommits, "add", lambda *_: None)


def does_not_compare_epochs(patch):
    patch.setattr(truncation, "diverging", lambda *_: None)


def lets_anybody_join_who_fetches(patch):
    patch.setattr(rules, "has_reached_isr", lambda state, follower, high_watermark: True)


def ignores_a_pending_change(patch):
    patch.setattr(leader_state, "maximal_isr", lambda isr, pending: frozenset(isr))


def returns_as_if_nothing_was_lost(patch):
    def previous_epoch(self):
        broker = self.parts.store.image.brokers.get(self.parts.broker_id)
        return -1 if broker is None else broker.epoch

    patch.setattr(Broker, "_previous_epoch", previous_epoch)


THREE = {
    "broker_count": 3,
    "duration_s": 10.0,
    "fault_mean_s": 0.5,
    "fault_length_s": 0.7,
    "topics": (TopicPlan("topic-0", 2, 3, 2),),
    "writers": (WriterPlan(-1, True, 5, 0.03), WriterPlan(1, False, 1, 0.05)),
    "reader_count": 1,
    "coordination": Coordination(),
}
KILLS = {"faults": ("kill", "pause", "broker partition")}
LAGS = {"faults": ("isolation", "short pause", "kill")}
POWER = {"faults": ("power cut", "kill"), "topics": (TopicPlan("topic-0", 3, 3, 3),)}

MUTANTS = [
    (counts_its_own_log_as_committed, "I3|P1|P2", KILLS),
    (acknowledges_before_the_high_watermark, "P1|P2|P4|I3", KILLS),
    (does_not_compare_epochs, "I3|P1|P2|P7|I6|E9", KILLS),
    (lets_anybody_join_who_fetches, "I3|P1|P2", LAGS),
    (ignores_a_pending_change, "I3|P1|P2", LAGS),
    (returns_as_if_nothing_was_lost, "I3|P1|P2", POWER),
]


def caught(focus) -> tuple[int, Failed] | None:
    """Run seeds until one fails."""
    for seed in SEEDS:
        try:
            run_cluster_seed(seed, adjust=lambda swarm: replace(swarm, **{**THREE, **focus}))
        except Failed as failure:
            return seed, failure
    return None


@pytest.mark.long
@pytest.mark.parametrize(
    ("mutant", "finding", "focus"), MUTANTS, ids=[mutant.__name__ for mutant, _, _ in MUTANTS]
)
def test_a_cluster_with_a_mistake_is_caught(mutant, finding, focus, monkeypatch):
    mutant(monkeypatch)
    found = caught(focus)
    assert found is not None, "it lives"
    failure = found[1]
    assert isinstance(failure.__cause__, Violation), failure
    assert re.match(finding, str(failure.__cause__)), failure
