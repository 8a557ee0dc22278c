"""Unattached, Prospective and Candidate: how a leader is elected."""

import pytest

from kits.raft_node import CLUSTER, RaftNode, follower, key, log_of, voter_set
from moldau.cluster.raft import events
from moldau.cluster.raft.effects import AppendAsLeader, PersistQuorumState, RoleChanged, SendRequest
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import (
    BeginQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    VoteRequest,
)
from moldau.cluster.raft.states import Role
from moldau.cluster.raft.voter_history import VoterHistory
from moldau.protocol.errors import ErrorCode

# Unattached


def test_an_election_begins_with_pre_votes_and_writes_nothing():
    node = RaftNode(quorum=QuorumState(3), log=log_of((2, 0), end=6)).become_prospective()
    assert sorted(node.asks(VoteRequest)) == [2, 3]
    request = node.asked(VoteRequest, 2).request
    assert (request.epoch, request.last, request.is_pre_vote) == (3, (2, 6), True)
    assert request.voter == key(2)
    assert node.persisted is None


def test_a_node_that_finds_a_leader_follows_it():
    node = RaftNode()
    node.answer(node.asked(FetchRequest), error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=3, leader=2)
    assert node.role is Role.FOLLOWER
    assert node.persisted == QuorumState(3, 2)
    assert node.asked(FetchRequest).to == 2


def test_a_node_that_finds_none_asks_again_after_a_moment():
    node = RaftNode()
    node.answer(node.asked(FetchRequest), error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not node.asks(FetchRequest)
    node.wait(0.02)
    assert node.asks(FetchRequest) == [None]


def test_a_vote_is_granted_once_in_an_epoch():
    node = RaftNode()
    assert node.vote(epoch=1, by=2).granted
    assert node.persisted == QuorumState(1, -1, key(2))
    assert not node.vote(epoch=1, by=3).granted
    assert node.vote(epoch=1, by=2).granted
    assert node.vote(epoch=2, by=3).granted


def test_a_vote_is_durable_before_it_is_answered():
    node = RaftNode()
    node.disk_is_slow = True
    assert node.vote(epoch=1) is None
    assert node.vote(epoch=1, by=3) is None
    assert node.persisted == QuorumState(1)
    node.step(events.QuorumStateDurable())
    assert node.answer_to("request 1") is None
    assert node.persisted == QuorumState(1, -1, key(2))
    node.step(events.QuorumStateDurable())
    assert node.answer_to("request 1").granted
    assert not node.answer_to("request 2").granted


def test_a_voter_that_has_granted_gives_the_candidate_time():
    node = RaftNode()
    node.now_s = node.state.deadline_s - 0.01
    assert node.vote(epoch=1).granted
    assert node.core.deadline_s > node.now_s
    node.wait(0.9)
    assert node.role is Role.UNATTACHED


@pytest.mark.parametrize(
    ("last", "granted"), [((2, 6), True), ((2, 7), True), ((3, 1), True), ((2, 5), False)]
)
@pytest.mark.parametrize("is_pre_vote", [True, False])
def test_a_vote_needs_a_log_at_least_as_new(last, granted, is_pre_vote):
    node = RaftNode(quorum=QuorumState(4), log=log_of((2, 0), end=6))
    epoch = 4 if is_pre_vote else 5
    assert node.vote(epoch=epoch, last=last, is_pre_vote=is_pre_vote).granted is granted


def test_a_pre_vote_promises_nothing():
    node = RaftNode(quorum=QuorumState(4))
    assert node.vote(epoch=4, by=2, is_pre_vote=True).granted
    assert node.vote(epoch=4, by=3, is_pre_vote=True).granted
    assert node.persisted is None


def test_a_pre_vote_of_a_later_epoch_tells_the_epoch():
    node = RaftNode(quorum=QuorumState(4, 2))
    assert node.vote(epoch=6, by=3, is_pre_vote=True).granted
    assert node.role is Role.UNATTACHED
    assert node.persisted == QuorumState(6)


# Prospective


def test_a_majority_of_pre_votes_makes_a_candidate():
    node = RaftNode(quorum=QuorumState(3)).become_candidate()
    assert node.quorum == node.persisted == QuorumState(4, -1, key(1))
    request = node.asked(VoteRequest, 3).request
    assert (request.epoch, request.is_pre_vote) == (4, False)


def test_a_candidate_asks_nobody_before_its_own_vote_is_durable():
    node = RaftNode().become_prospective()
    node.disk_is_slow = True
    node.answer(node.asked(VoteRequest, 2), granted=True)
    assert node.persisted == QuorumState(1, -1, key(1))
    assert not [one for one in node.of(SendRequest) if not getattr(one.request, "is_pre_vote", 1)]
    node.step(events.QuorumStateDurable())
    assert not node.asked(VoteRequest, 2).request.is_pre_vote


def test_lost_pre_votes_lead_back_to_the_leader():
    node = follower().become_prospective()
    node.wait(0.02)  # the leader has just failed to answer
    for other in (2, 3):
        node.answer(node.asked(VoteRequest, other), leader=2)
    assert node.role is Role.FOLLOWER
    assert node.quorum == QuorumState(5, 2)
    assert node.persisted is None


def test_lost_pre_votes_without_a_leader_lead_back_to_waiting():
    node = RaftNode().become_prospective()
    node.answer(node.asked(VoteRequest, 2))
    node.answer(node.asked(VoteRequest, 3))
    assert node.role is Role.UNATTACHED


def test_one_that_has_refused_is_asked_again_soon():
    node = follower(leader=3).become_prospective()
    node.wait(0.02)
    node.answer(node.asked(VoteRequest, 2))
    assert node.asks(VoteRequest) == [3]
    node.wait(0.1)
    assert node.role is Role.PROSPECTIVE
    assert sorted(node.asks(VoteRequest)) == [2, 3]
    node.answer(node.asked(VoteRequest, 2), granted=True)
    assert node.role is Role.CANDIDATE


def test_a_second_refusal_does_not_put_off_the_retry():
    node = RaftNode(voters=(1, 2, 3, 4, 5)).become_prospective()
    node.answer(node.asked(VoteRequest, 2))
    retry_s = node.core.deadline_s
    node.now_s += 0.005
    node.answer(node.asked(VoteRequest, 3))
    assert node.core.deadline_s == retry_s


def test_pre_votes_end_with_the_election_time_out():
    node = follower().become_prospective()
    node.wait_for_timeout()
    assert node.role is Role.FOLLOWER
    node = RaftNode().become_prospective()
    node.wait_for_timeout()
    assert node.role is Role.UNATTACHED


def test_a_voter_that_knows_no_pre_votes_is_asked_for_its_vote():
    node = RaftNode().become_prospective()
    node.answer(node.asked(VoteRequest, 2), error=ErrorCode.UNSUPPORTED_VERSION)
    assert node.role is Role.CANDIDATE


def test_a_prospective_node_grants_pre_votes_and_votes():
    node = RaftNode(quorum=QuorumState(2)).become_prospective()
    node.answer(node.asked(VoteRequest, 2))  # it does not give way any more
    node.wait(0.1)
    assert node.vote(epoch=2, by=3, is_pre_vote=True).granted
    assert node.role is Role.PROSPECTIVE
    assert node.vote(epoch=2, by=3).granted
    assert node.role is Role.UNATTACHED


def test_of_two_that_begin_at_once_the_lower_id_goes_first():
    second = RaftNode(me=2).become_prospective()
    assert second.vote(epoch=0, by=1, is_pre_vote=True).granted
    assert not second.asks(VoteRequest)
    first = RaftNode(me=1).become_prospective()
    assert first.vote(epoch=0, by=2, is_pre_vote=True).granted
    assert first.asks(VoteRequest) == [2, 3]


def test_of_two_that_begin_at_once_the_longer_log_goes_first():
    node = RaftNode(quorum=QuorumState(2), log=log_of((1, 0), end=4)).become_prospective()
    assert node.vote(epoch=2, by=3, last=(1, 5), is_pre_vote=True).granted
    assert not node.asks(VoteRequest)


def test_a_node_gives_way_once():
    node = RaftNode(me=2).become_prospective()
    node.vote(epoch=0, by=1, is_pre_vote=True)
    node.wait(0.1)
    assert sorted(node.asks(VoteRequest)) == [1, 3]
    node.vote(epoch=0, by=1, is_pre_vote=True)
    assert sorted(node.asks(VoteRequest)) == [1, 3]


# Candidate


def test_a_majority_of_votes_makes_a_leader():
    node = RaftNode(quorum=QuorumState(3), log=log_of((2, 0), end=6)).become_leader()
    assert node.quorum == node.persisted == QuorumState(4, 1, key(1))
    role = node.of(RoleChanged)[-1]
    assert (role.role, role.epoch, role.leader, role.epoch_start) == (Role.LEADER, 4, 1, 6)
    appended = node.of(AppendAsLeader)[-1]
    assert (appended.base_offset, appended.epoch) == (6, 4)
    assert appended.content.granting == (key(1), key(2))
    assert sorted(node.asks(BeginQuorumEpochRequest)) == [2, 3]


def test_a_leader_says_nothing_before_it_is_written_that_it_leads():
    node = RaftNode().become_candidate()
    node.disk_is_slow = True
    effects = node.answer(node.asked(VoteRequest, 2), granted=True)
    assert effects == [PersistQuorumState(QuorumState(1, 1, key(1)))]
    assert node.step(events.TimerFired()) == []
    effects = node.step(events.QuorumStateDurable())
    assert isinstance(effects[0], RoleChanged)


def test_split_votes_lead_to_another_election_soon():
    node = RaftNode().become_candidate()
    node.answer(node.asked(VoteRequest, 3))
    assert node.role is Role.CANDIDATE
    node.wait(0.1)
    assert node.role is Role.PROSPECTIVE
    assert node.quorum.epoch == 1
    assert node.life.failed_elections == 1


def test_a_candidate_that_nobody_answers_begins_again():
    node = RaftNode().become_candidate()
    node.wait_for_timeout()
    assert node.role is Role.PROSPECTIVE


def test_a_candidate_refuses_others_but_would_vote_for_them():
    node = RaftNode().become_candidate()
    assert not node.vote(epoch=1, by=2).granted
    assert node.vote(epoch=1, by=2, is_pre_vote=True).granted


def test_a_candidate_that_learns_of_the_leader_follows_it():
    node = RaftNode().become_candidate()
    node.answer(node.asked(VoteRequest, 2), leader=3)
    assert node.role is Role.FOLLOWER
    assert node.persisted == QuorumState(1, 3, key(1))


def test_a_candidate_that_learns_of_a_later_epoch_gives_up():
    node = RaftNode().become_candidate()
    node.answer(node.asked(VoteRequest, 2), error=ErrorCode.FENCED_LEADER_EPOCH, epoch=7, leader=-1)
    assert node.role is Role.UNATTACHED
    assert node.persisted == QuorumState(7)


def test_votes_are_asked_for_again_after_a_failure_and_after_silence():
    node = RaftNode().become_candidate()
    first = node.asked(VoteRequest, 2)
    node.step(events.RequestFailed(first.request_id))
    assert node.asks(VoteRequest) == [3]
    node.wait(0.02)
    assert node.asked(VoteRequest, 2).request == first.request
    assert node.answer(first, granted=True) == []  # that one has failed
    assert node.role is Role.CANDIDATE


def test_a_late_answer_counts_for_nothing():
    node = RaftNode().become_prospective()
    late = node.asked(VoteRequest, 3)
    node.answer(node.asked(VoteRequest, 2), granted=True)
    assert node.role is Role.CANDIDATE
    node.answer(late, granted=True)
    assert node.role is Role.CANDIDATE


def test_an_answer_of_another_kind_is_a_failure():
    node = RaftNode().become_candidate()
    sent = node.asked(VoteRequest, 2)
    node.step(events.AnswerArrived(sent.request_id, FetchAnswer(ErrorCode.NONE, 1, -1)))
    assert node.role is Role.CANDIDATE
    assert not node.life.outgoing.is_free(2)


def test_an_answer_of_another_cluster_teaches_nothing():
    node = RaftNode().become_candidate()
    node.answer(
        node.asked(VoteRequest, 2), error=ErrorCode.INCONSISTENT_CLUSTER_ID, epoch=99, leader=3
    )
    assert node.quorum.epoch == 1
    assert not node.life.outgoing.is_free(2)


# Who may not


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"epoch": 3}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 3, "is_pre_vote": True}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 5, "voter": key(2)}, ErrorCode.INVALID_VOTER_KEY),
        ({"epoch": 5, "voter": key(1, directory=9)}, ErrorCode.INVALID_VOTER_KEY),
        ({"epoch": 5, "last": (5, 9)}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5, "last": (6, 9), "is_pre_vote": True}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 5, "last": (1, -1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_requests_for_votes_that_are_refused(asked, error):
    node = RaftNode(quorum=QuorumState(4))
    answer = node.vote(**asked)
    assert answer.error is error
    assert (answer.epoch, answer.granted) == (4, False)
    assert node.quorum == QuorumState(4)


def test_a_stranger_gets_no_vote_where_the_settings_name_the_voters():
    node = RaftNode(is_static=True, quorum=QuorumState(4))
    assert node.vote(epoch=9, by=7).error is ErrorCode.INCONSISTENT_VOTER_SET
    assert node.quorum == QuorumState(4)
    assert node.vote(epoch=5, by=2).granted


def test_where_the_log_names_them_a_voter_may_be_new_to_this_node():
    assert RaftNode(quorum=QuorumState(4)).vote(epoch=5, by=7).granted


def test_an_observer_votes_since_it_may_be_a_voter_by_now():
    node = RaftNode(me=4)
    assert node.vote(epoch=1).granted
    assert node.persisted == QuorumState(1, -1, key(2))
    assert node.core.deadline_s < float("inf")  # of its fetch alone
    node.wait(60)
    assert node.role is Role.UNATTACHED


def test_a_voter_that_is_to_be_removed_stands_until_that_is_committed():
    history = VoterHistory(voter_set(1, 2))
    history.append(5, voter_set(2))
    log = log_of((3, 0), end=6)
    node = RaftNode(quorum=QuorumState(3), log=log, voter_history=history).become_prospective()
    assert node.asks(VoteRequest) == [2]
    node.answer(node.asked(VoteRequest, 2), granted=True)
    node.answer(node.asked(VoteRequest, 2), granted=True)
    assert node.role is Role.LEADER
    assert node.of(AppendAsLeader)[-1].content.granting == (key(2),)
    assert node.of(AppendAsLeader)[-1].content.logged_voters is None
    node.fetch(2)
    assert node.role is Role.RESIGNED


def test_a_node_that_led_and_has_forgotten_it_does_not_vote_in_that_epoch():
    node = RaftNode()
    node.answer(node.asked(FetchRequest), error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=6, leader=1)
    assert node.role is Role.UNATTACHED
    assert node.persisted == QuorumState(6, -1, key(1))
    assert not node.vote(epoch=6).granted
    deadline_s = node.state.deadline_s
    node.wait(0.02)
    node.answer(node.asked(FetchRequest), error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=6, leader=1)
    assert node.state.deadline_s == deadline_s
    node.become_prospective()
    node.answer(node.asked(VoteRequest, 2), leader=1, granted=True)
    assert node.quorum == QuorumState(7, -1, key(1))


def test_a_candidate_that_has_led_this_epoch_already_gives_up():
    node = RaftNode().become_candidate()
    node.answer(node.asked(VoteRequest, 2), leader=1, granted=True)
    assert node.role is Role.UNATTACHED
    assert node.quorum == QuorumState(1, -1, key(1))


def test_a_node_that_is_said_to_have_led_keeps_the_vote_it_has_given():
    node = RaftNode(quorum=QuorumState(4, -1, key(2)))
    node.answer(node.asked(FetchRequest), error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=1)
    assert node.quorum == QuorumState(4, -1, key(2))


def test_an_epoch_with_a_leader_elects_nobody():
    node = follower(epoch=5, leader=2, has_fetched=False)
    assert not node.vote(epoch=5, by=2).granted
    node = RaftNode(quorum=QuorumState(5, 2, key(2)))
    assert not node.vote(epoch=5, by=2).granted


def test_a_vote_of_an_earlier_epoch_does_not_count():
    node = RaftNode(quorum=QuorumState(4)).become_candidate()
    node.answer(node.asked(VoteRequest, 2), epoch=4, granted=True)
    assert node.role is Role.CANDIDATE


def test_requests_name_the_cluster():
    node = RaftNode().become_prospective()
    assert node.asked(VoteRequest, 2).request.cluster_id == CLUSTER


def test_an_epoch_that_no_election_can_have_led_to_is_refused():
    node = RaftNode()
    answer = node.vote(epoch=2**31 - 1)
    assert (answer.error, answer.epoch) == (ErrorCode.INVALID_REQUEST, 0)
    assert node.quorum == QuorumState()
    assert node.vote(epoch=2**31 - 2**24).granted


def test_an_answer_with_an_epoch_that_cannot_be_teaches_nothing():
    node = RaftNode().become_candidate()
    node.answer(node.asked(VoteRequest, 2), epoch=2**31 - 1, leader=3)
    assert node.quorum.epoch == 1
    assert not node.life.outgoing.is_free(2)


def test_late_epochs_rise_by_elections_all_the_same():
    node = RaftNode(quorum=QuorumState(2**31 - 10, 2))
    assert node.vote(epoch=2**31 - 5, last=(1, 99)).granted
