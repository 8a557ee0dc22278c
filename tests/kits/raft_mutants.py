"""Rules of the Raft core, each switched off, to show that the model notices.

    PYTHONPATH=tests python -m kits.raft_mutants

prints how many random walks it takes to notice each, as a median. What random walks seldom find has
a story (`kits.raft_scenarios`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

from kits import raft_scenarios
from kits.raft_checks import Violation
from kits.raft_model import Model
from kits.raft_walk import walk
from kits.rule_mutants import Patch, print_median, replaced, walks_to_notice
from moldau.base.errors import InvariantViolated
from moldau.cluster.raft import elections, following, leading, timers, voter_changes, voting
from moldau.cluster.raft.durable import Outbox
from moldau.cluster.raft.effects import RoleChanged
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.log_position import LogPosition
from moldau.cluster.raft.resending import Outgoing
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voters import NO_NODE, VoterSet

BROKEN = (Violation, InvariantViolated)
"""How a mutant shows."""


class Mutant(NamedTuple):
    """A rule that is switched off."""

    apply: Callable[[Patch], None]
    story: Callable[[Model], None] | None = None
    voter_count: int = 3
    """In the story."""


def _do_not_wait_for_the_disk(patch: Patch) -> None:
    real = Outbox.take

    def take(self: Outbox) -> list:
        taken = real(self)
        while self._waiting:
            self._is_writing = False
            taken += real(self)
        return taken

    patch(Outbox, "take", take)


def _count_everybody(voters: VoterSet, ends: dict, epoch_start: int) -> int:
    counted = sorted(ends.values(), reverse=True)[voters.majority - 1 : voters.majority]
    return counted[0] if counted and counted[0] > epoch_start else -1


def _lead_again(life: Life, successors: tuple) -> None:
    del successors
    leading.lead(life, life.voters.keys)


def _lead_on(life: Life) -> None:
    if isinstance(life.state, leading.Leader):
        life.emit(RoleChanged(Role.RESIGNED, life.epoch, NO_NODE))


def _leave_out_check_quorum(patch: Patch) -> None:
    for module in (leading, timers):
        patch(module, "quorum_deadline_s", lambda *_: inf)


def _take_it_for_durable(patch: Patch) -> None:
    real = LogPosition.append

    def append(self: LogPosition, epoch: int, count: int) -> int:
        base = real(self, epoch, count)
        self.synced_offset = self.end_offset
        return base

    patch(LogPosition, "append", append)


def _change_without_own_commit(life: Life, state: object) -> bool:
    del state
    return life.high_watermark > life.voter_history.newest.offset


def _change_again(life: Life, state: Any) -> bool:
    return life.high_watermark > state.epoch_start


def _cut_more(log: LogPosition, leader_end: Any) -> int:
    del leader_end
    return log.start_offset


def _vote_anew(life: Life, request: Any) -> bool:
    return life.quorum.leader == NO_NODE and voting.is_new_enough(life, request)


def _observers_stand(patch: Patch) -> None:
    patch(Life, "may_stand", property(lambda _: True))


def _removed_voters_do_not_stand(patch: Patch) -> None:
    patch(Life, "may_stand", Life.is_voter)


MUTANTS = {
    "a vote is answered before it is synced": Mutant(_do_not_wait_for_the_disk),
    "a vote is given twice in an epoch": Mutant(replaced(voting, "grants_vote", _vote_anew)),
    "a record of an older epoch is committed": Mutant(
        replaced(
            leading,
            "committed_offset",
            lambda voters, ends, _, real=leading.committed_offset: real(voters, ends, -1),
        )
    ),
    "pre-votes are left out": Mutant(replaced(elections, "ask_for_pre_votes", elections.stand)),
    "a follower that has just fetched grants a pre-vote": Mutant(
        replaced(voting, "grants_pre_vote", voting.is_new_enough),
        raft_scenarios.a_voter_hears_all_but_its_leader,
    ),
    "a voter that lags wins": Mutant(replaced(voting, "is_new_enough", lambda *_: True)),
    "an observer counts as a voter": Mutant(
        replaced(leading, "committed_offset", _count_everybody)
    ),
    "an observer begins an election": Mutant(_observers_stand),
    "a former leader leads its epoch again": Mutant(
        replaced(elections, "become_resigned", _lead_again)
    ),
    "a leader that has resigned goes on": Mutant(replaced(leading, "resign", _lead_on)),
    "a log that differs is not cut": Mutant(replaced(leading, "diverging", lambda *_: None)),
    "a log is cut too far": Mutant(replaced(following, "truncation_offset", _cut_more)),
    "check-quorum is left out": Mutant(_leave_out_check_quorum),
    "voters change again before the first change is committed": Mutant(
        replaced(voter_changes, "may_change", _change_again)
    ),
    "voters change before the leader has committed": Mutant(
        replaced(voter_changes, "may_change", _change_without_own_commit),
        raft_scenarios.a_new_leader_is_asked_for_a_change,
    ),
    "a removed voter does not stand where it has to": Mutant(
        _removed_voters_do_not_stand, raft_scenarios.one_of_two_removes_itself_and_dies, 2
    ),
    "a log counts before it is synced": Mutant(_take_it_for_durable),
    "late answers are taken": Mutant(replaced(Outgoing, "forget", lambda _: None)),
}


if __name__ == "__main__":
    for name, mutant in MUTANTS.items():
        found = walks_to_notice(mutant.apply, walk, BROKEN, seeds=150, times=9)
        print_median(name, found, has_story=mutant.story is not None)
