"""Rules of replication, each switched off: what the model has to notice.

A mutant replaces a function of the rules, or a check of the model's controller. Most are found by
random walks. Some need a rare order of events. For those a story plays it: without the mutant it
ends well, with it the model finds a violation.

    PYTHONPATH=tests python -m kits.replication_mutants

prints after how many walks each is noticed, in the median.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kits.replication_controller import Propose, Proposed
from kits.replication_model import MAX_LAG_S, Fetch, Fetched, Model, Violation
from kits.replication_walk import walk
from kits.rule_mutants import Patch, print_median, replaced, walks_to_notice
from moldau.replication import leader_state, rules, truncation
from moldau.replication.followers import Follower
from moldau.replication.rules import AnswerEffect

# Stories


def _begin(model: Model) -> None:
    """Let 0 lead, with one record on all three."""
    model.append(0)
    for broker in (1, 2, 1, 2):
        _replicate(model, broker)


def _replicate(model: Model, broker: int) -> None:
    model.fetch(broker, again=True)
    _deliver(model, Fetch)
    _deliver(model, Fetched)


def _deliver(model: Model, kind: type, *, again: bool = False) -> None:
    """Let the newest message of a kind arrive."""
    numbers = [number for number, one in enumerate(model.network) if isinstance(one, kind)]
    if numbers:
        model.deliver(numbers[-1], again=again)


def _leave(model: Model, broker: int) -> None:
    """Let a broker be fenced for a moment, so that it leaves the ISR; the leader hears of it."""
    model.fence(broker)
    model.unfence(broker)
    model.observe(0)


def _commit_alone(model: Model) -> None:
    """Let the leader append, and no follower fetch for so long that it counts for nothing."""
    model.append(0)
    model.tick(MAX_LAG_S + 1)
    model.shrink(0)


def join_without_answer(model: Model) -> None:
    """A follower joins. The answer is lost, and the proposal is refused when it is sent again."""
    _begin(model)
    model.fence(2)
    _leave(model, 1)
    _replicate(model, 1)
    _deliver(model, Propose)
    model.resend(0)
    _deliver(model, Propose)
    _deliver(model, Proposed)
    _commit_alone(model)


def join_with_unsure_answer(model: Model) -> None:
    """A follower joins, and the controller fails before it can say so."""
    _begin(model)
    model.fence(2)
    _leave(model, 1)
    _replicate(model, 1)
    _deliver(model, Propose, again=True)
    _deliver(model, Proposed)
    _commit_alone(model)


def join_while_metadata_arrives(model: Model) -> None:
    """Two followers join; metadata that tells of the first arrives when the second is pending."""
    _begin(model)
    _leave(model, 1)
    _leave(model, 2)
    _replicate(model, 1)
    _deliver(model, Propose)
    _deliver(model, Proposed)
    _replicate(model, 2)
    model.observe(0)
    _deliver(model, Propose)
    model.append(0)
    _replicate(model, 1)
    model.tick(MAX_LAG_S - 1)
    _replicate(model, 1)
    model.tick(2)
    model.shrink(0)


def return_with_old_fetch(model: Model) -> None:
    """A follower loses its tail; a fetch from before arrives when it has returned."""
    _begin(model)
    model.append(0)
    for broker in (1, 2, 1, 2):
        _replicate(model, broker)
    model.fetch(2)
    model.crash(2, 0)
    model.restart(2, 1)
    model.unfence(2)
    model.observe(0)
    _deliver(model, Fetch)
    _deliver(model, Propose)


def rewritten_answer(model: Model) -> None:
    """An answer leaves when its leader has been deposed, truncated and written again."""
    _begin(model)
    model.append(0)
    _replicate(model, 2)
    model.append(0)
    model.fetch(2)
    _deliver(model, Fetch)
    model.delay(0)
    model.move_leader(1)
    model.observe(1)
    for _ in range(3):
        model.append(1)
    model.observe(0)
    _replicate(model, 0)
    _replicate(model, 0)
    assert [epoch for epoch, _ in model.replicas[0].log] == [0, 1, 1, 1]
    model.deliver_late(0)


def missed_epoch_of_a_leader(model: Model) -> None:
    """A leader leads again, two epochs later; a follower was truncated in the one between."""
    _begin(model)
    model.append(0)
    model.append(0)
    _replicate(model, 2)
    _replicate(model, 2)
    model.move_leader(1)
    model.observe(1)
    model.observe(2)
    _replicate(model, 2)
    assert len(model.replicas[2].log) == 1
    model.fence(1)
    model.observe(0)


# Mutants


def _controller(**checks: bool) -> Callable[[Model], None]:
    def prepare(model: Model) -> None:
        for name, value in checks.items():
            setattr(model.controller, name, value)

    return prepare


def _nothing(model: Model) -> None:
    del model


def _ignore_a_follower(patch: Patch) -> None:
    real = rules.next_high_watermark

    def mutant(state: leader_state.LeaderState, *rest: Any) -> int:
        counted, state.in_sync = state.in_sync, state.in_sync[:-1]
        try:
            return real(state, *rest)
        finally:
            state.in_sync = counted

    patch(rules, "next_high_watermark", mutant)


def _forget_the_previous_fetch(patch: Patch) -> None:
    real = Follower.fetched

    def mutant(follower: Follower, *told: Any) -> None:
        follower._leader_end_offset = -1
        real(follower, *told)

    patch(Follower, "fetched", mutant)


def _forget_broker_epochs(patch: Patch) -> None:
    patch(rules, "is_broker_current", lambda *_: True)
    patch(rules, "is_outlived", lambda *_: False)


def _revert_instead_of(effect: AnswerEffect) -> Callable[[Patch], None]:
    real = rules.effect_of_answer

    def mutant(*told: Any) -> AnswerEffect:
        decided = real(*told)
        return AnswerEffect.REVERT if decided is effect else decided

    return lambda patch: patch(rules, "effect_of_answer", mutant)


class Mutant(NamedTuple):
    """A rule that is switched off."""

    apply: Callable[[Patch], None]
    prepare: Callable[[Model], None] = _nothing
    """Switches off what the controller checks too."""
    story: Callable[[Model], None] | None = None
    """Of one that random walks seldom find."""


MUTANTS = {
    "the high watermark ignores a follower": Mutant(_ignore_a_follower),
    "the high watermark moves below min ISR": Mutant(
        replaced(rules, "has_enough_in_sync", lambda *_: True)
    ),
    "a pending ISR is ignored": Mutant(
        replaced(leader_state, "maximal_isr", lambda isr, _: frozenset(isr))
    ),
    "a pending shrink counts already": Mutant(
        replaced(
            leader_state, "maximal_isr", lambda isr, pending: frozenset((pending or _Isr(isr)).isr)
        )
    ),
    "caught up by the current end only": Mutant(_forget_the_previous_fetch),
    "a fenced broker joins": Mutant(
        replaced(rules, "is_eligible", lambda *_: True), _controller(checks_members=False)
    ),
    "the ISR grows without the epoch start": Mutant(
        replaced(
            rules,
            "has_reached_isr",
            lambda _, one, high_watermark: one.has_fetched and one.end_offset >= high_watermark,
        )
    ),
    "truncation to the high watermark": Mutant(
        replaced(truncation, "truncation_offset", lambda *told: told[3])
    ),
    "truncation to the leader's end alone": Mutant(
        replaced(truncation, "truncation_offset", lambda _, end, own, __: min(end.end_offset, own))
    ),
    "no truncation after a missed epoch": Mutant(
        replaced(truncation, "must_check_log", lambda old, new: old.leader != new.leader)
    ),
    "a fetch with an expected epoch only": Mutant(
        replaced(truncation, "must_check_log", lambda *_: False)
    ),
    "a broker keeps its ISR membership after an unclean stop": Mutant(
        lambda _: None, _controller(removes_unclean=False)
    ),
    "the latest offset is reported after an election": Mutant(
        replaced(rules, "is_latest_offset_known", lambda *_: True)
    ),
    "a join without the broker epoch": Mutant(
        _forget_broker_epochs, _controller(checks_broker_epochs=False), return_with_old_fetch
    ),
    "a batch of a later epoch is taken": Mutant(
        replaced(truncation, "is_from_later_leader", lambda *_: False), story=rewritten_answer
    ),
    "what a follower told in an older epoch counts": Mutant(
        replaced(leader_state, "begins_anew", lambda state, _: state is None),
        story=missed_epoch_of_a_leader,
    ),
    "known metadata ends a pending proposal": Mutant(
        replaced(leader_state, "ends_proposal", lambda old, new: new >= old),
        story=join_while_metadata_arrives,
    ),
    "an overtaken proposal is reverted": Mutant(
        _revert_instead_of(AnswerEffect.KEEP), story=join_without_answer
    ),
    "an undecided proposal is reverted": Mutant(
        _revert_instead_of(AnswerEffect.RESEND), story=join_with_unsure_answer
    ),
}


class _Isr(NamedTuple):
    isr: tuple[int, ...]


if __name__ == "__main__":
    for name, mutant in MUTANTS.items():
        walks = partial(walk, prepare=mutant.prepare)
        found = walks_to_notice(mutant.apply, walks, (Violation,), seeds=4000, times=21)
        print_median(name, found, has_story=mutant.story is not None)
