"""A group that raises starts over: its members join again, and no other group hears of it."""

from __future__ import annotations

import pytest

from kits.group_shard_kit import ServedShard, commit_request, errors
from moldau.base.errors import InvariantViolated
from moldau.coordination.groups.core import GENERATION_MAX, GroupCore, next_generation
from moldau.coordination.groups.turn import GroupTimer
from moldau.coordination.outcome import HandlerFailed
from moldau.protocol.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def served():
    served = ServedShard()
    served.make_stable(group="bystander")
    return served


def boom(*_):
    raise ZeroDivisionError("a bug")


def fail(served, event):
    """Let an event raise in its group, and do what the runtime does then."""
    with pytest.raises(HandlerFailed) as failed:
        event()
    assert isinstance(failed.value.error, ZeroDivisionError)
    served.carry_out(failed.value.outcome)


def a_join(served, member_id, generation):
    served.join(member_id=member_id)


def a_sync(served, member_id, generation):
    served.sync(member_id, generation)


def a_leave(served, member_id, generation):
    served.leave(member_id)


def a_session(served, member_id, generation):
    served.carry_out(served.shard.timer_fired(GroupTimer("session", "g", member_id), served.now))


@pytest.mark.parametrize(
    ("event", "where"),
    [
        (a_join, "members_changed"),
        (a_sync, "synced"),
        (a_leave, "drop"),
        (a_session, "session_elapsed"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_whatever_raises_in_a_group_costs_its_members_a_rejoin(served, event, where, monkeypatch):
    member_id, generation = served.make_stable()
    served.commit(commit_request(offset=9, group="another"))
    with monkeypatch.context() as patched:
        patched.setattr(GroupCore, where, boom)
        fail(served, lambda: event(served, member_id, generation))
    assert served.states()["g"] == "Empty"
    assert served.heartbeat(member_id, generation) == UNKNOWN
    assert served.states()["bystander"] == "Stable"
    assert served.offset(group="another") == (9, ErrorCode.NONE)
    _, next_one = served.make_stable()
    assert next_one > generation
    assert served.states()["g"] == "Stable"


def test_those_who_wait_in_a_group_that_raises_are_told(served, monkeypatch):
    first = served.join()
    with monkeypatch.context() as patched:
        patched.setattr(GroupCore, "members_changed", boom)
        fail(served, served.join)
    assert first.answer.error_code == UNKNOWN
    served.later(60)
    assert served.states()["g"] == "Empty"


def test_a_group_that_cannot_start_over_is_a_broken_state(served, monkeypatch):
    served.make_stable()
    monkeypatch.setattr(GroupCore, "members_changed", boom)
    monkeypatch.setattr(GroupCore, "start_over", boom)
    with pytest.raises(InvariantViolated):
        served.join()


def test_a_broken_invariant_is_not_contained(served, monkeypatch):
    def broken(*_):
        raise InvariantViolated("the state is wrong")

    served.make_stable()
    monkeypatch.setattr(GroupCore, "members_changed", broken)
    with pytest.raises(InvariantViolated):
        served.join()


def test_generations_begin_anew_behind_the_last_number():
    assert next_generation(0) == 1
    assert next_generation(GENERATION_MAX) == 1


def test_a_group_in_its_last_generation_goes_on(served):
    member_id, _ = served.make_stable()
    served.shard._groups["g"]._core.generation = GENERATION_MAX
    joined = served.join(member_id=member_id)
    assert joined.answer.generation_id == 1
    synced = served.sync(member_id, 1, [(member_id, b"all")])
    assert synced.answer.error_code == ErrorCode.NONE
    request = commit_request(member_id=member_id, generation_id_or_member_epoch=1)
    assert errors(served.commit(request)) == [ErrorCode.NONE]
