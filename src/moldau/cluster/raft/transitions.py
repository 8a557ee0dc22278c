"""From one state to the next: what is remembered, what is dropped, and who hears of it.

    Unattached   time-out                  -> Prospective
    Follower     time-out, leader is gone  -> Prospective
    Prospective  majority of pre-votes     -> Candidate
                 lost, time-out            -> Follower of the leader it knew, or Unattached
    Candidate    majority of votes         -> Leader
    the start of the only voter            -> Leader
                 refused, time-out         -> Prospective
    Leader       stop, asked, no majority  -> Resigned
    Resigned     time-out                  -> Unattached in the next epoch
    any          a larger epoch is seen    -> Unattached, or Follower if its leader is named
    any          the epoch's leader is     -> Follower

Epochs only grow, a vote stays in its epoch, and a leader that is known in an epoch is never taken
for another. All transitions pass `_enter`, which writes down what changes of these.
"""

from __future__ import annotations

from math import inf
from typing import Final

from moldau.base.checks import invariant
from moldau.base.ids import NO_OFFSET, LeaderEpoch
from moldau.cluster.raft.ballot import Ballot
from moldau.cluster.raft.effects import Answer, PersistQuorumState, RoleChanged
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.quorum_state import QuorumState
from moldau.cluster.raft.requests import Request
from moldau.cluster.raft.states import (
    Candidate,
    Follower,
    Leader,
    Progress,
    Prospective,
    Resigned,
    State,
    Unattached,
)
from moldau.cluster.raft.voters import NO_NODE, NodeId, ReplicaKey
from moldau.protocol.errors import ErrorCode

EPOCHS_TO_JUMP_TO: Final = 2**31 - 2**24
"""Above these, an epoch is believed only if it is near the one that is known."""

ELECTIONS_MISSED_MAX: Final = 10_000
"""By a node that was away meanwhile."""


def become_unattached(life: Life, epoch: LeaderEpoch, voted: ReplicaKey | None = None) -> None:
    """Know no leader of an epoch."""
    wait_s = life.timeouts.election(life.random) if life.may_stand else inf
    _enter(life, Unattached(life.now_s + wait_s), QuorumState(epoch, NO_NODE, voted))


def become_follower(life: Life, epoch: LeaderEpoch, leader: NodeId) -> None:
    """Follow a leader; a vote of the same epoch stays."""
    voted = life.quorum.voted if epoch == life.epoch else None
    due_s = life.now_s + life.timeouts.fetch_s
    state = Follower(due_s, own_change_due_s=due_s)
    _enter(life, state, QuorumState(epoch, leader, voted))


def become_prospective(life: Life) -> None:
    """Ask whether the others would vote for this node."""
    deadline_s = life.now_s + life.timeouts.election(life.random)
    _enter(life, Prospective(Ballot(life.voters, life.me), deadline_s), life.quorum)


def become_candidate(life: Life) -> None:
    """Raise the epoch, and vote for oneself in it."""
    epoch = LeaderEpoch(life.epoch + 1)
    deadline_s = life.now_s + life.timeouts.election(life.random)
    state = Candidate(Ballot(life.voters, life.me), deadline_s)
    _enter(life, state, QuorumState(epoch, NO_NODE, life.me))


def become_leader(life: Life) -> Leader:
    """Lead the epoch that this node was elected in; it begins at the end of the log."""
    now_s = life.now_s
    others = life.voters.others(life.me)
    state = Leader(life.log.end_offset, {key: Progress(now_s, now_s) for key in others})
    life.failed_elections = 0
    _enter(life, state, life.quorum._replace(leader=life.me.node))
    return state


def become_sole_leader(life: Life) -> Leader:
    """Lead an epoch that is certainly nobody's, as the only voter.

    Nobody has to be asked, so it is written once, and names no vote.
    """
    epoch = LeaderEpoch(max(life.epoch, life.log.last_epoch) + 1)
    state = Leader(life.log.end_offset, {})
    _enter(life, state, QuorumState(epoch, life.me.node))
    return state


def become_resigned(life: Life, successors: tuple[ReplicaKey, ...]) -> None:
    """Give up an epoch in which this node has led, now or in a former life."""
    deadline_s = life.now_s + life.timeouts.election(life.random)
    untold = set(life.voters.others(life.me))
    _enter(life, Resigned(deadline_s, successors, untold), life.quorum)


def grant_vote(life: Life, candidate: ReplicaKey) -> None:
    """Promise the vote of this epoch, and give the candidate the time to win."""
    if life.quorum.voted is None:
        become_unattached(life, life.epoch, voted=candidate)


def observe(life: Life, epoch: LeaderEpoch, leader: NodeId) -> bool:
    """Learn which epoch another node knows, and which leader; return whether that changes ours.

    A second leader of the same epoch is not believed: the first one was elected.
    """
    if epoch < life.epoch or (epoch == life.epoch and not _is_leader_news(life, leader)):
        return False
    if leader == life.me.node:
        # This node led in that epoch, and its disk has forgotten. It must not vote in it again.
        become_unattached(life, epoch, voted=life.me)
    elif leader != NO_NODE:
        become_follower(life, epoch, leader)
    else:
        become_unattached(life, epoch)
    return True


def is_forged(life: Life, epoch: int) -> bool:
    """Tell whether an epoch is so large that no election can have led to it.

    Epochs rise by one. One near the end of their range, far from the present one, would leave no
    room for any election after it.
    """
    return epoch > EPOCHS_TO_JUMP_TO and epoch - life.epoch > ELECTIONS_MISSED_MAX


def _is_leader_news(life: Life, leader: NodeId) -> bool:
    """Tell whether the leader of this node's epoch is new to it.

    That it is to have led itself is news while it has not voted, or asks for votes once more.
    """
    if leader == NO_NODE or life.quorum.leader != NO_NODE:
        return False
    is_own = leader == life.me.node
    return not is_own or life.quorum.voted is None or isinstance(life.state, Candidate)


def finish_stop(life: Life) -> None:
    """Do nothing any more once this event is handled."""
    life.is_stopped = True


def refuse(life: Life, token: object, request: Request, error: ErrorCode) -> None:
    """Answer a request with an error, and with what this node knows."""
    life.emit(Answer(token, request.answer_type(error, life.epoch, life.leader)))


def _enter(life: Life, state: State, quorum: QuorumState) -> None:
    left = life.state
    _remember(life, quorum)
    life.state = state
    life.outgoing.forget()
    epoch_start = state.epoch_start if isinstance(state, Leader) else NO_OFFSET
    life.emit(RoleChanged(state.role, life.epoch, life.leader, epoch_start))
    if isinstance(left, Leader):
        _release(life, left)
    if life.is_stopping and not isinstance(state, Resigned):
        finish_stop(life)


def _remember(life: Life, quorum: QuorumState) -> None:
    old = life.quorum
    if quorum == old:
        return
    if quorum.epoch == old.epoch:
        invariant(old.leader in (NO_NODE, quorum.leader), f"{quorum} after {old}")
        invariant(old.voted in (None, quorum.voted), f"{quorum} after {old}")
    invariant(quorum.epoch >= old.epoch, f"{quorum} after {old}")
    life.quorum = quorum
    life.emit(PersistQuorumState(quorum))


def _release(life: Life, left: Leader) -> None:
    """Answer what waits for a leader that does not lead any more."""
    for parked in left.parked.values():
        refuse(life, parked.token, parked.request, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if left.change is not None:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        refuse(life, left.change.token, left.change.request, error)
