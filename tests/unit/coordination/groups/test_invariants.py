"""A group takes no step that its states forbid, and writes no members without an assignment."""

from __future__ import annotations

import random

import pytest

from moldau.base.errors import InvariantViolated
from moldau.coordination.groups.core import GroupCore
from moldau.coordination.groups.counters import GroupCounters
from moldau.coordination.groups.member import Member
from moldau.coordination.groups.settings import GroupSettings
from moldau.coordination.groups.states import FOLLOWERS, GroupState
from moldau.coordination.groups.turn import Turn
from moldau.coordination.outcome import Caller, Now, StateRecord

NOW = Now(1_000, 1.0)
WRITTEN = {GroupState.COMPLETING_REBALANCE, GroupState.STABLE}


def core_in(state, *, members=1):
    core = GroupCore(
        "readers",
        GroupSettings(),
        random.Random(1),
        lambda group_id, snapshot: StateRecord(group_id.encode(), None),
        GroupCounters(),
    )
    for number in range(members):
        caller = Caller(9, "client", "/127.0.0.1")
        core.roster.add(Member(f"m-{number}", None, caller, (1_000, 1_000), (("range", b""),)))
    core.state = state
    return core


@pytest.mark.parametrize("old", GroupState)
@pytest.mark.parametrize("new", GroupState)
def test_only_the_states_of_the_table_follow_each_other(old, new):
    core = core_in(old)
    if new in FOLLOWERS[old]:
        core.move_to(new, Turn(NOW))
        assert core.state is new
    else:
        with pytest.raises(InvariantViolated, match="readers"):
            core.move_to(new, Turn(NOW))
        assert core.state is old


@pytest.mark.parametrize("state", GroupState)
def test_members_are_written_with_an_assignment_only(state):
    assert core_in(state, members=0).snapshot({}).members == ()
    if state in WRITTEN:
        assert core_in(state).snapshot({"m-0": b"all"}).members[0].assignment == b"all"
    else:
        with pytest.raises(InvariantViolated, match="written with members"):
            core_in(state).snapshot({})
