"""The Raft core on a model of a quorum: under Hypothesis, and on random walks.

The model says what must never happen (`kits.raft_model`, `kits.raft_checks`). Each rule is also
switched off once, to show that the model notices (`kits.raft_mutants`).
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kits.raft_checks import Violation
from kits.raft_model import Model
from kits.raft_mutants import MUTANTS
from kits.raft_walk import walk
from moldau.base.errors import InvariantViolated
from moldau.cluster.raft import events
from moldau.cluster.raft.requests import AddVoterRequest, RemoveVoterRequest
from moldau.cluster.raft.voters import Voter

NODE = st.integers(1, 4)
WALKS = 100
SEEDS = 60
"""From so many walks at most a mutant has to be found."""

WALKED = {name: mutant for name, mutant in MUTANTS.items() if mutant.story is None}
TOLD = {name: mutant for name, mutant in MUTANTS.items() if mutant.story is not None}


class QuorumMachine(RuleBasedStateMachine):
    """What can happen to three voters and an observer, in any order; then all is healed."""

    @initialize(seed=st.integers(0, 9))
    def begin(self, seed):
        self.model = Model(3, 1, seed=seed)
        self.model.run_until(lambda: self.model.leader is not None)

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.3, 2.5]))
    def run(self, seconds):
        self.model.run(seconds)

    @rule(number=NODE)
    def append(self, number):
        self.model.append(self.model.node(number))

    @rule(number=NODE, is_noticed=st.booleans())
    def crash(self, number, is_noticed):
        if self.model.node(number).core is not None:
            self.model.crash(self.model.node(number), is_noticed=is_noticed)

    @rule(number=NODE)
    def restart(self, number):
        if self.model.node(number).core is None:
            self.model.node(number).start()

    @rule(number=NODE)
    def stop(self, number):
        self.model.node(number).step(events.StopWanted())

    @rule(number=NODE)
    def reset(self, number):
        for node in self.model.up:
            node.step(events.ConnectionReset(number))

    @rule(number=NODE, seconds=st.sampled_from([0.5, 4.0]))
    def pause(self, number, seconds):
        self.model.node(number).pause(seconds)

    @rule(one=NODE, other=NODE)
    def cut(self, one, other):
        self.model.network.cut.add((one, other))

    @rule()
    def mend(self):
        self.model.network.cut.clear()

    @rule(number=NODE)
    def snapshot(self, number):
        if self.model.node(number).core is not None:
            self.model.node(number).snapshot()

    @rule(number=NODE, other=NODE)
    def add_voter(self, number, other):
        voter = Voter(self.model.node(other).key)
        self.model.ask(self.model.node(number), "add", AddVoterRequest(None, voter))

    @rule(number=NODE, other=NODE)
    def remove_voter(self, number, other):
        request = RemoveVoterRequest(None, self.model.node(other).key)
        self.model.ask(self.model.node(number), "remove", request)

    def teardown(self):
        self.model.heal()
        self.model.check_whole()


QuorumMachine.TestCase.settings = settings(stateful_step_count=25, max_examples=30)
TestQuorumMachine = QuorumMachine.TestCase


def test_random_walks_break_no_rule_and_meet_everything():
    seen: Counter[str] = Counter()
    for seed in range(WALKS):
        model = walk(seed)
        seen.update(model.checks.seen)
        seen["commit"] += len(model.checks.committed)
    for name in (
        "election",
        "commit",
        "crash",
        "pause",
        "leader cut off",
        "refused pre-vote",
        "refused vote",
        "truncation",
        "voter change",
        "lost disk",
        "log trimmed",
        "snapshot installed",
        "clean stop",
    ):
        assert seen[name] >= 10, f"{name} is hardly met: {seen}"
    assert seen["voters of the settings named"]


def test_the_same_seed_makes_the_same_walk():
    one, other = walk(7), walk(7)
    assert (one.turns, one.now_s) == (other.turns, other.now_s)
    assert one.checks.seen == other.checks.seen


def walk_all() -> None:
    for seed in range(SEEDS):
        walk(seed)


@pytest.mark.parametrize("name", WALKED)
def test_random_walks_notice_a_rule_that_is_switched_off(name, monkeypatch):
    WALKED[name].apply(monkeypatch.setattr)
    with pytest.raises((Violation, InvariantViolated)):
        walk_all()


@pytest.mark.parametrize("name", TOLD)
def test_a_story_ends_well_with_its_rule(name):
    mutant = TOLD[name]
    mutant.story(Model(mutant.voter_count, seed=1))


@pytest.mark.parametrize("name", TOLD)
def test_a_story_notices_that_its_rule_is_switched_off(name, monkeypatch):
    mutant = TOLD[name]
    mutant.apply(monkeypatch.setattr)
    with pytest.raises((Violation, InvariantViolated)):
        mutant.story(Model(mutant.voter_count, seed=1))
