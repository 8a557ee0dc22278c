"""The rules of replication on a model of one partition: under Hypothesis, and on random walks.

The model says what must never happen (`kits.replication_model`). Each rule is also switched off
once, to show that the model notices (`kits.replication_mutants`).
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kits.replication_model import Model, Violation
from kits.replication_mutants import MUTANTS, Mutant
from kits.replication_walk import walk

BROKER = st.integers(0, 2)
NUMBER = st.integers(0, 30)
SEEDS = 400
"""From so many walks at most a mutant has to be found."""

WALKED = {name: mutant for name, mutant in MUTANTS.items() if mutant.story is None}
TOLD = {name: mutant for name, mutant in MUTANTS.items() if mutant.story is not None}


class ReplicationMachine(RuleBasedStateMachine):
    """The steps of the model, in any order."""

    @initialize(min_isr=st.integers(1, 2))
    def begin(self, min_isr):
        self.model = Model(3, min_isr)

    @rule(broker=BROKER)
    def append(self, broker):
        self.model.append(broker)

    @rule(broker=BROKER, again=st.booleans())
    def fetch(self, broker, again):
        self.model.fetch(broker, again=again)

    @rule(number=NUMBER, again=st.booleans())
    def deliver(self, number, again):
        self.model.deliver(number, again=again)

    @rule(number=NUMBER)
    def delay(self, number):
        self.model.delay(number)

    @rule(number=NUMBER)
    def deliver_late(self, number):
        self.model.deliver_late(number)

    @rule(number=NUMBER)
    def lose(self, number):
        self.model.lose(number)

    @rule(broker=BROKER)
    def observe(self, broker):
        self.model.observe(broker)

    @rule(broker=BROKER)
    def fence(self, broker):
        self.model.fence(broker)

    @rule(broker=BROKER)
    def unfence(self, broker):
        self.model.unfence(broker)

    @rule(broker=BROKER)
    def move_leader(self, broker):
        self.model.move_leader(broker)

    @rule(broker=BROKER, behind=st.integers(0, 2))
    def crash(self, broker, behind):
        self.model.crash(broker, behind)

    @rule(broker=BROKER, lost=st.integers(0, 2))
    def restart(self, broker, lost):
        self.model.restart(broker, lost)

    @rule(seconds=st.sampled_from([1.0, 6.0, 11.0]), broker=BROKER)
    def shrink(self, seconds, broker):
        self.model.tick(seconds)
        self.model.shrink(broker)

    @rule(broker=BROKER)
    def resend(self, broker):
        self.model.resend(broker)

    @rule(broker=BROKER)
    def list_latest(self, broker):
        self.model.list_latest(broker)

    @invariant()
    def check(self):
        if hasattr(self, "model"):
            self.model.check()
            self.model.check_epochs()


ReplicationMachine.TestCase.settings = settings(stateful_step_count=60, max_examples=150)
TestReplicationMachine = ReplicationMachine.TestCase


def test_random_walks_break_no_rule_and_meet_everything():
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        model = walk(seed)
        seen.update(model.seen)
        seen["election"] += model.controller.elections
        seen["commit"] += len(model.committed)
    for name in (
        "election",
        "commit",
        "truncation",
        "lost tail",
        "shrink",
        "expand",
        "latest unknown",
        "role while an ISR change is pending",
        "answer NONE",
        "answer INELIGIBLE_REPLICA",
        "answer INVALID_UPDATE_VERSION",
        "answer FENCED_LEADER_EPOCH",
    ):
        assert seen[name] >= 10, f"{name} is hardly met: {seen}"


def walk_all(mutant: Mutant) -> None:
    for seed in range(SEEDS):
        walk(seed, prepare=mutant.prepare)


def play(mutant: Mutant, model: Model) -> None:
    mutant.story(model)
    model.check()
    model.check_epochs()


@pytest.mark.patches
@pytest.mark.parametrize("name", WALKED)
def test_random_walks_notice_a_rule_that_is_switched_off(name, monkeypatch):
    mutant = WALKED[name]
    mutant.apply(monkeypatch.setattr)
    with pytest.raises(Violation):
        walk_all(mutant)


@pytest.mark.parametrize("name", TOLD)
def test_a_story_ends_well_with_its_rule(name):
    play(TOLD[name], Model(3, 1))


@pytest.mark.patches
@pytest.mark.parametrize("name", TOLD)
def test_a_story_notices_that_its_rule_is_switched_off(name, monkeypatch):
    mutant = TOLD[name]
    mutant.apply(monkeypatch.setattr)
    model = Model(3, 1)
    mutant.prepare(model)
    with pytest.raises(Violation):
        play(mutant, model)
