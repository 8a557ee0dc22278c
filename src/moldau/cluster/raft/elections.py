"""How a leader is elected: pre-vote, vote, and what follows from each answer and each time-out.

A pre-vote comes first, so that a node that cannot win raises no epoch. When votes are split, the
candidates wait for a short random time and try again. Kafka's candidate waits for its election
time-out, since it hopes for a voter that has not answered; here most often that is the dead leader.
"""

from __future__ import annotations

from math import inf

from moldau.base.ids import LeaderEpoch
from moldau.cluster.raft import leading
from moldau.cluster.raft.effects import Answer
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.requests import (
    EndQuorumEpochAnswer,
    EndQuorumEpochRequest,
    Token,
    VoteAnswer,
    VoteRequest,
)
from moldau.cluster.raft.resending import Destination
from moldau.cluster.raft.states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from moldau.cluster.raft.transitions import (
    become_candidate,
    become_follower,
    become_prospective,
    become_resigned,
    become_unattached,
    finish_stop,
    observe,
    refuse,
)
from moldau.cluster.raft.voters import NO_NODE
from moldau.protocol.errors import ErrorCode


def start(life: Life) -> None:
    """Begin a life with what the disk remembers.

    A node that has voted for itself does not ask for votes in the same epoch again, as Kafka's
    does: it begins an epoch that is certainly nobody's. So does the only voter, at once.
    """
    if life.is_voter and len(life.voters) == 1:
        leading.lead_alone(life)
        return
    quorum, last_epoch = life.quorum, life.log.last_epoch
    if last_epoch > quorum.epoch:
        become_unattached(life, last_epoch)
    elif quorum.leader == life.me.node:
        become_resigned(life, ())
    elif quorum.leader != NO_NODE:
        become_follower(life, quorum.epoch, quorum.leader)
    else:
        become_unattached(life, quorum.epoch, quorum.voted)


def ask_for_pre_votes(life: Life) -> None:
    """Begin an election, if the others would vote for this node."""
    become_prospective(life)
    _count(life)


def stand(life: Life) -> None:
    """Ask for votes in a new epoch."""
    become_candidate(life)
    _count(life)


def _count(life: Life) -> None:
    """Go on as soon as a majority has granted."""
    state = life.state
    if isinstance(state, Prospective) and state.ballot.is_won:
        stand(life)
    elif isinstance(state, Candidate) and state.ballot.is_won:
        leading.lead(life, state.ballot.granting)


def vote_answered(
    life: Life, state: Prospective | Candidate, request: VoteRequest, answer: VoteAnswer
) -> None:
    """Count an answer, from a node that is in the epoch of the request or an earlier one."""
    if answer.granted and answer.epoch == life.epoch:
        state.ballot.grant(request.voter)
        _count(life)
    elif answer.error is ErrorCode.UNSUPPORTED_VERSION and request.is_pre_vote:
        stand(life)  # The other one knows no pre-votes.
    else:
        state.ballot.refuse(request.voter)
        _refused(life, state)


def _refused(life: Life, state: Prospective | Candidate) -> None:
    """Go on after a refusal: back if the election is lost, else once more after a short wait."""
    if isinstance(state, Prospective) and state.ballot.is_lost:
        _give_up(life)
        return
    retry_s = life.now_s + life.timeouts.split_vote(life.failed_elections, life.random)
    if isinstance(state, Candidate):
        state.deadline_s = min(state.deadline_s, retry_s)
    elif state.retry_s == inf:
        state.retry_s = retry_s


def _give_up(life: Life) -> None:
    """Go back to the leader that was known, or wait for one."""
    life.failed_elections += 1
    quorum = life.quorum
    if quorum.leader != NO_NODE:
        become_follower(life, quorum.epoch, quorum.leader)
    else:
        become_unattached(life, quorum.epoch, quorum.voted)


def give_way(life: Life, request: VoteRequest) -> None:
    """Let another node go first that has begun an election in the same moment.

    Nodes that see their leader's connection reset all do. Without this each would vote for itself.
    The node with the longer log goes first, then the one with the lower id. That helps once: if
    the other one does not win, chance decides.
    """
    state = life.state
    if not isinstance(state, Prospective) or life.failed_elections:
        return
    if request.last > life.log.end or request.candidate < life.me:
        for voter in state.ballot.undecided:
            state.ballot.refuse(voter)
        life.outgoing.forget()
        state.retry_s = life.now_s + life.timeouts.split_vote(0, life.random)


def time_passed(life: Life) -> None:
    """Do what a time-out of this state asks for, if one is over."""
    state, now_s = life.state, life.now_s
    if isinstance(state, Prospective) and state.retry_s <= now_s < state.deadline_s:
        state.retry_s = inf
        life.failed_elections += 1
        state.ballot.ask_again()
    elif isinstance(state, Leader):
        leading.time_passed(life, state)
    elif state.deadline_s <= now_s:
        _timed_out(life)


def _timed_out(life: Life) -> None:
    match life.state:
        case Unattached():
            ask_for_pre_votes(life)
        case Follower():
            leader_is_gone(life)
        case Prospective():
            _give_up(life)
        case Candidate():
            life.failed_elections += 1
            ask_for_pre_votes(life)
        case _ if life.is_stopping:
            finish_stop(life)
        case _:
            become_unattached(life, LeaderEpoch(life.epoch + 1))


def leader_is_gone(life: Life) -> None:
    """Do not wait for a leader that is most likely gone: a voter begins an election at once."""
    if not isinstance(life.state, Follower):
        return
    if life.may_stand:
        ask_for_pre_votes(life)
    else:
        life.state.deadline_s = inf
        life.state.has_fetched = False


def leader_has_resigned(life: Life, token: Token, request: EndQuorumEpochRequest) -> None:
    """Begin an election when it is this node's turn: the best successor does not wait."""
    if request.epoch < life.epoch:
        refuse(life, token, request, ErrorCode.FENCED_LEADER_EPOCH)
        return
    if request.leader in (NO_NODE, life.me.node):
        refuse(life, token, request, ErrorCode.INVALID_REQUEST)
        return
    observe(life, request.epoch, request.leader)
    state = life.state
    if isinstance(state, Follower) and life.quorum.leader == request.leader:
        successors = [key.names(life.me) for key in request.successors]
        position = successors.index(True) if True in successors else -1
        wait_s = life.timeouts.handover(position, len(successors))
        state.deadline_s = min(state.deadline_s, life.now_s + wait_s)
        state.has_fetched = False
    life.emit(Answer(token, EndQuorumEpochAnswer(ErrorCode.NONE, life.epoch, life.leader)))
    if isinstance(state, Follower) and state.deadline_s <= life.now_s:
        leader_is_gone(life)


def handover_heard(life: Life, state: Resigned, node: Destination) -> None:
    """Take note that a voter knows of the resignation; a stop waits for all of them."""
    state.untold = {key for key in state.untold if key.node != node}
    if life.is_stopping and not state.untold:
        finish_stop(life)
