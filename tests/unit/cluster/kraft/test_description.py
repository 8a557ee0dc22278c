"""What a leader tells of the nodes that it has heard of, and of those it has not."""

from __future__ import annotations

import pytest

from kits.raft_node import CLUSTER, RaftNode, key
from moldau.cluster.kraft.description import describe
from moldau.cluster.raft.requests import RemoveVoterRequest

NOW_MS = 5_000_000


@pytest.fixture
def leader():
    """Return a leader of three that hears of voter 2 and not of voter 3."""
    return RaftNode().become_leader().commit_all()


def told(node):
    """Return voters and observers: their ids, ends, and when they have fetched last."""
    found = describe(node.life, node.now_s, NOW_MS)
    return [
        [(one.node_id, one.end_offset, one.last_fetch_ms) for one in some]
        for some in (found.voters, found.observers)
    ]


def test_times_are_those_of_the_day(leader):
    leader.wait(0.25)
    leader.fetch(4)
    voters, observers = told(leader)
    end = leader.life.log.end_offset
    assert voters == [(1, end, NOW_MS), (2, end, NOW_MS - 250), (3, -1, -1)]
    assert observers == [(4, end, NOW_MS)]


def test_a_voter_that_was_removed_unheard_is_no_observer(leader):
    leader.ask(RemoveVoterRequest(CLUSTER, key(3)))
    leader.fetch(2)
    assert [one[0] for one in told(leader)[0]] == [1, 2]
    assert told(leader)[1] == []
    leader.fetch(3)
    assert [one[0] for one in told(leader)[1]] == [3]


def test_an_observer_that_is_gone_is_told_of_for_a_while(leader):
    leader.fetch(4)
    for _ in range(int(leader.timeouts.observer_memory_s) - 1):
        leader.wait(1.0)
        leader.fetch(2, wait=0)
    assert [one[0] for one in told(leader)[1]] == [4]
    leader.wait(2.0)
    assert told(leader)[1] == []


def test_a_follower_tells_nothing():
    node = RaftNode()
    assert describe(node.life, node.now_s, NOW_MS) is None
