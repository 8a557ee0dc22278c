"""Which voters may go, and which directory of a node takes the place of which."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from moldau.base.errors import UserError
from moldau.cli.operations import voter_replacement
from moldau.cli.operations.voter_changes import (
    SILENT_MS,
    check_removal,
    is_heard,
    require_dynamic,
    the_voter,
)
from moldau.cli.operations.voter_replacement import (
    Replacement,
    carry_out,
    plan_replacement,
    replaceable,
)
from moldau.client.admin import ControllerEndpoint, MetadataQuorum, QuorumReplica
from moldau.client.errors import RequestTimedOut

NOW_MS = 1_000_000
SILENT = NOW_MS - SILENT_MS - 1
OLD, NEW, NEWER = (bytes(15) + bytes([number]) for number in (7, 8, 9))
PLACE, OTHER_PLACE = ControllerEndpoint("C", "h", 1), ControllerEndpoint("C", "i", 2)


def replica(node, directory=OLD, fetched_ms=NOW_MS, end=10, *, places=(PLACE,)):
    return QuorumReplica(node, directory, end, fetched_ms, fetched_ms, places)


def quorum(*voters, observers=(), leader=1):
    return MetadataQuorum(leader, 5, 10, voters, observers)


LEADER, FOLLOWER = replica(1), replica(2)
LOST = replica(3, OLD, SILENT)
BACK = replica(3, NEW, places=())
WHOLE = quorum(LEADER, FOLLOWER, replica(3))
RETURNED = quorum(LEADER, FOLLOWER, LOST, observers=(BACK,))
HALF_DONE = quorum(LEADER, FOLLOWER, observers=(BACK,))


def plan(found, directory=None, places=()):
    return plan_replacement(found, 3, directory, places)


# Removals


def test_a_node_is_heard_by_the_clock_of_the_leader():
    assert is_heard(WHOLE, LEADER)
    assert is_heard(WHOLE, replica(2, OLD, NOW_MS - SILENT_MS))
    assert not is_heard(WHOLE, LOST)
    assert not is_heard(WHOLE, replica(2, OLD, None))
    assert not is_heard(quorum(FOLLOWER), FOLLOWER)


def test_only_voters_that_the_majority_does_not_need_may_go():
    check_removal(WHOLE, FOLLOWER)
    check_removal(RETURNED, LOST)
    with pytest.raises(UserError, match="node 3 does not answer"):
        check_removal(RETURNED, FOLLOWER)
    with pytest.raises(UserError, match="the only voter"):
        check_removal(quorum(LEADER), LEADER)


def test_a_node_without_a_vote_is_told_from_those_with_one():
    assert the_voter(WHOLE, 2) is FOLLOWER
    with pytest.raises(UserError, match=r"voters: 1, 2, 3\)"):
        the_voter(WHOLE, 4)


def test_voters_of_the_settings_stay():
    require_dynamic(WHOLE)
    with pytest.raises(UserError, match=r"controller\.quorum\.voters"):
        require_dynamic(quorum(replica(1, None), replica(2, None)))


# Replacements


def test_a_lost_voter_is_replaced_by_the_node_as_it_follows():
    assert plan(RETURNED) == plan(RETURNED, NEW) == Replacement(LOST, BACK, (PLACE,))
    assert plan(RETURNED, places=(OTHER_PLACE,)).endpoints == (OTHER_PLACE,)
    unheard = replica(3, OLD, None)
    assert plan(quorum(LEADER, FOLLOWER, unheard, observers=(BACK,))).lost == unheard


def test_of_several_directories_the_one_in_use_is_taken():
    former = replica(3, NEWER, NOW_MS - 1)
    assert plan(quorum(LEADER, FOLLOWER, LOST, observers=(former, BACK))).new == BACK
    assert plan(quorum(LEADER, FOLLOWER, LOST, observers=(BACK, former)), NEWER).new == former


def test_what_is_done_already_is_not_done_again():
    assert plan(WHOLE) is plan(WHOLE, OLD) is plan(RETURNED, OLD) is None
    done = quorum(LEADER, FOLLOWER, replica(3, NEW), observers=(LOST,))
    assert plan(done) is plan(done, NEW) is None


def test_half_of_it_is_done_with_a_place_to_reach_the_node():
    with pytest.raises(UserError, match="--endpoint HOST:PORT"):
        plan(HALF_DONE)
    assert plan(HALF_DONE, places=(PLACE,)) == Replacement(None, BACK, (PLACE,))


@pytest.mark.parametrize(
    ("found", "directory", "said"),
    [
        (quorum(LEADER, FOLLOWER, LOST), None, "is not an observer with a new directory"),
        (quorum(LEADER, FOLLOWER, LOST), NEW, "is not an observer with a new directory"),
        (
            quorum(LEADER, FOLLOWER, LOST, observers=(replica(3, NEW, SILENT),)),
            None,
            "not an observer",
        ),
        (quorum(LEADER, FOLLOWER), None, "is not an observer with a new directory"),
        (
            quorum(LEADER, FOLLOWER, replica(3), observers=(replica(3, NEW, NOW_MS - 1),)),
            None,
            "has not lost its disk",
        ),
        (quorum(LEADER, replica(2, OLD, SILENT), LOST, observers=(BACK,)), None, "no majority"),
    ],
)
def test_what_cannot_be_replaced_is_said(found, directory, said):
    with pytest.raises(UserError, match=said):
        plan(found, directory)


class Quorums:
    """An admin with a quorum that changes from one look to the next; it notes what it is asked."""

    def __init__(self, *quorums, refusal=None):
        self._quorums = list(quorums)
        self._refusal = refusal
        self.changes = []

    async def describe_metadata_quorum(self):
        return self._quorums.pop(0) if len(self._quorums) > 1 else self._quorums[0]

    async def remove_raft_voter(self, *voter):
        self.changes.append(("remove", *voter))

    async def add_raft_voter(self, *voter):
        if self._refusal is not None:
            raise self._refusal
        self.changes.append(("add", *voter))


def waited_for(*quorums, patience_s):
    return asyncio.run(replaceable(Quorums(*quorums), plan, patience_s))


def test_a_node_is_waited_for_until_it_has_caught_up(monkeypatch):
    monkeypatch.setattr(voter_replacement, "PAUSE_S", 0.0)
    absent = quorum(LEADER, FOLLOWER, LOST)
    behind = replace(absent, observers=(replace(BACK, log_end_offset=9),))
    found = waited_for(absent, behind, RETURNED, patience_s=60)
    assert found == Replacement(LOST, BACK, (PLACE,))
    assert waited_for(absent, WHOLE, patience_s=60) is None
    with pytest.raises(UserError, match="has not caught up: it is at offset 9 of 10"):
        waited_for(behind, patience_s=-1)
    with pytest.raises(UserError, match="is not an observer"):
        waited_for(absent, patience_s=-1)


def test_the_lost_voter_goes_before_the_new_one_comes():
    admin, said = Quorums(WHOLE), []
    asyncio.run(carry_out(admin, Replacement(LOST, BACK, (PLACE,)), said.append))
    assert admin.changes == [("remove", 3, OLD), ("add", 3, NEW, (PLACE,))]
    assert [line.split(" with ")[0] for line in said] == ["removed voter 3", "added voter 3"]
    admin = Quorums(WHOLE)
    asyncio.run(carry_out(admin, Replacement(None, BACK, (PLACE,)), said.append))
    assert admin.changes == [("add", 3, NEW, (PLACE,))]


def test_it_is_said_how_to_go_on_where_the_new_one_was_not_added():
    admin = Quorums(WHOLE, refusal=RequestTimedOut("It lags."))
    with pytest.raises(UserError, match="To continue: moldau quorum add 3 --directory-id"):
        asyncio.run(carry_out(admin, Replacement(LOST, BACK, (PLACE,)), lambda _: None))
