"""Whether this node votes for another one, by what it is and by the two logs.

A candidate has to have a log at least as new as the voter's: so whoever wins a majority has every
committed record. A vote is promised once in an epoch. A pre-vote is no promise and leaves nothing
behind. A follower whose leader has answered refuses it, so that a node which has lost its leader
alone cannot unseat it (KIP-996).
"""

from __future__ import annotations

from moldau.cluster.raft import elections
from moldau.cluster.raft.effects import Answer
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.requests import Token, VoteAnswer, VoteRequest
from moldau.cluster.raft.states import Follower, Leader
from moldau.cluster.raft.transitions import grant_vote, observe, refuse
from moldau.cluster.raft.voters import NO_NODE
from moldau.protocol.errors import ErrorCode


def vote_asked(life: Life, token: Token, request: VoteRequest) -> None:
    """Answer a request for a vote or a pre-vote."""
    error = _problem(life, request)
    if error is not ErrorCode.NONE:
        refuse(life, token, request, error)
        return
    observe(life, request.epoch, NO_NODE)
    if request.is_pre_vote:
        granted = grants_pre_vote(life, request)
        if granted:
            elections.give_way(life, request)
    else:
        granted = grants_vote(life, request)
        if granted:
            grant_vote(life, request.candidate)
    life.emit(Answer(token, VoteAnswer(ErrorCode.NONE, life.epoch, life.leader, granted)))


def _problem(life: Life, request: VoteRequest) -> ErrorCode:
    if request.epoch < life.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if not request.voter.names(life.me):
        return ErrorCode.INVALID_VOTER_KEY
    newest = request.epoch if request.is_pre_vote else request.epoch - 1
    if request.last.epoch > newest or request.last.offset < 0:
        return ErrorCode.INVALID_REQUEST  # records of an epoch in which nobody can have led
    history = life.voter_history
    if not history.is_dynamic and history.first.find(request.candidate) is None:
        # Where the log names the voters, the candidate may know a newer set than this node.
        return ErrorCode.INCONSISTENT_VOTER_SET
    return ErrorCode.NONE


def grants_vote(life: Life, request: VoteRequest) -> bool:
    """Tell whether this node promises its vote; it may have promised the same one before.

    An epoch that has a leader elects no other, nor the same again, should it have forgotten.
    """
    if life.quorum.leader != NO_NODE:
        return False
    if life.quorum.voted is not None:
        # The file of a node whose voters are those of the settings names no directory.
        return life.quorum.voted.names(request.candidate)
    return is_new_enough(life, request)


def grants_pre_vote(life: Life, request: VoteRequest) -> bool:
    """Tell whether this node would vote for another one in the next epoch."""
    state = life.state
    if isinstance(state, Leader) or (isinstance(state, Follower) and state.has_fetched):
        return False
    return is_new_enough(life, request)


def is_new_enough(life: Life, request: VoteRequest) -> bool:
    """Tell whether the candidate's log has all that ours has."""
    return request.last >= life.log.end
