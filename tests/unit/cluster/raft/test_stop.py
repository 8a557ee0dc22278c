"""A clean stop: a leader hands over, everybody else just ends."""

from kits.raft_node import CLUSTER, RaftNode, follower, key
from moldau.cluster.raft import events
from moldau.cluster.raft.effects import Answer, PersistQuorumState, RoleChanged, Stopped
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import BeginQuorumEpochRequest, EndQuorumEpochRequest
from moldau.cluster.raft.states import Role
from moldau.protocol.errors import ErrorCode


def stopping() -> RaftNode:
    node = RaftNode().become_leader().commit_all()
    node.step(events.StopWanted())
    return node


def test_a_follower_stops_at_once_and_does_nothing_any_more():
    node = follower()
    assert node.step(events.StopWanted()) == [Stopped()]
    assert node.core.deadline_s == float("inf")
    assert node.vote(epoch=9) is None
    assert node.step(events.TimerFired()) == []


def test_a_sole_voter_stops_at_once():
    node = RaftNode(voters=(1,))
    assert node.step(events.StopWanted())[-1] == Stopped()


def test_a_leader_stops_when_all_others_know():
    node = stopping()
    assert node.role is Role.RESIGNED
    node.answer(node.asked(EndQuorumEpochRequest, 2))
    assert not node.of(Stopped)
    node.answer(node.asked(EndQuorumEpochRequest, 3))
    assert node.of(Stopped)


def test_a_leader_that_stops_waits_for_nobody_for_long():
    node = stopping()
    node.wait_for_timeout()
    assert node.of(Stopped)
    assert node.persisted.epoch == 1


def test_a_leader_that_stops_serves_nothing():
    node = stopping()
    assert node.fetch(2).error is ErrorCode.BROKER_NOT_AVAILABLE


def test_a_leader_stops_when_another_one_leads():
    node = stopping()
    answer = node.ask(BeginQuorumEpochRequest(CLUSTER, 2, 3, key(1)))
    assert answer.error is ErrorCode.NONE
    assert node.effects[-1] == Stopped()


def test_one_that_has_resigned_stops_as_a_leader_does():
    node = RaftNode(quorum=QuorumState(4, 1))
    node.step(events.StopWanted())
    assert not node.of(Stopped)
    for other in (2, 3):
        node.answer(node.asked(EndQuorumEpochRequest, other))
    assert node.of(Stopped)


def test_what_was_decided_before_the_end_is_written():
    node = stopping()
    node.disk_is_slow = True
    node.ask(BeginQuorumEpochRequest(CLUSTER, 2, 3, key(1)))
    assert isinstance(node.effects[-1], PersistQuorumState)
    effects = node.step(events.QuorumStateDurable())
    assert [type(effect) for effect in effects] == [RoleChanged, Answer, Stopped]
