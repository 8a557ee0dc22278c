"""A follower sees to its own entry among the voters: it is told, moved, added or replaced."""

import pytest

from kits.raft_node import CLUSTER, RaftNode, follower, key, voter_set
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    FetchRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.cluster.raft.voters import Voter, VoterEndpoint
from moldau.protocol.errors import ErrorCode

MOVED = Voter(key(1), (VoterEndpoint("CONTROLLER", "elsewhere", 9093),))
CHANGES = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest


def fetch_on(node: RaftNode, seconds: float) -> None:
    """Let time pass while the leader answers all fetches."""
    end_s = node.now_s + seconds
    while node.now_s < end_s and not node.asks(CHANGES):
        node.wait(min(0.5, end_s - node.now_s))
        if node.asks(FetchRequest):
            node.answer(node.asked(FetchRequest), high_watermark=0)


def asked(node: RaftNode):
    """Return the change that it asks for, within a fetch time-out and a fetch."""
    fetch_on(node, 3.0)
    sent = node.asked(CHANGES)
    assert sent.to == 2
    assert not node.asks(FetchRequest)
    return sent


def observer(directory: int = 1, **options) -> RaftNode:
    return follower(own=Voter(key(1, directory=directory)), **options)


def test_a_voter_that_has_moved_says_so_until_it_is_in_the_log():
    node = follower(own=MOVED)
    sent = asked(node)
    assert sent.request == UpdateVoterRequest(CLUSTER, 5, MOVED)
    node.answer(sent, error=ErrorCode.REQUEST_TIMED_OUT)
    assert node.asks(FetchRequest) == [2]
    node.answer(asked(node))
    assert asked(node).request == sent.request
    node.life.voter_history.append(0, node.life.voters.with_voter(MOVED))
    node.answer(node.asked(UpdateVoterRequest))
    fetch_on(node, 10.0)
    assert not node.asks(CHANGES)


def test_a_voter_that_supports_other_versions_says_so():
    node = follower(own=Voter(key(1), kraft_versions=(0, 2)))
    assert asked(node).request.voter.kraft_versions == (0, 2)


def test_a_leader_has_time_to_commit_before_it_is_asked():
    node = follower(own=MOVED)
    fetch_on(node, 1.9)
    assert not node.asks(CHANGES)


def test_nobody_asks_a_leader_that_has_never_answered():
    node = follower(own=MOVED, has_fetched=False)
    node.wait(1.9)
    node.wait_for_timeout()
    assert node.role is Role.PROSPECTIVE
    assert not node.asks(CHANGES)


def test_a_change_that_gets_no_answer_gives_way_to_a_fetch():
    node = follower(own=MOVED, voters=(2, 3, 4), voter_history=VoterHistory(voter_set(1, 2)))
    asked(node)
    node.wait(node.timeouts.request_s)
    assert node.role is Role.PROSPECTIVE


def test_a_voter_whose_entry_is_right_asks_for_nothing():
    node = follower()
    fetch_on(node, 10.0)
    assert not node.asks(CHANGES)


def test_a_voter_of_the_settings_tells_each_leader_once():
    node = follower(own=MOVED, is_static=True)
    sent = asked(node)
    assert sent.request == UpdateVoterRequest(CLUSTER, 5, MOVED)
    node.answer(sent)
    fetch_on(node, 10.0)
    assert not node.asks(CHANGES)
    node.answer(node.asked(FetchRequest), epoch=6, leader=2)
    node.answer(node.asked(FetchRequest), high_watermark=0)
    assert asked(node).request.epoch == 6


def test_an_observer_joins_if_it_is_to():
    node = observer(voters=(2, 3), joins_voters=True)
    sent = asked(node)
    assert sent.request == AddVoterRequest(CLUSTER, Voter(key(1)), ack_when_committed=False)
    node.answer(sent)
    assert node.asks(FetchRequest) == [2]


def test_an_observer_removes_its_older_disk_first():
    node = observer(directory=9, joins_voters=True)
    assert asked(node).request == RemoveVoterRequest(CLUSTER, key(1))


@pytest.mark.parametrize(
    "options",
    [
        {"voters": (2, 3), "joins_voters": False},
        {"voters": (2, 3), "joins_voters": True, "is_static": True},
    ],
)
def test_an_observer_stays_one(options):
    node = observer(**options)
    fetch_on(node, 10.0)
    assert not node.asks(CHANGES)
