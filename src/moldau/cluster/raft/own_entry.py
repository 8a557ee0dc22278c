"""What a follower asks for about itself: its own entry among the voters should be right (KIP-853).

    voter whose entry differs       UpdateRaftVoter: it has moved, or supports other versions
    voter of the settings           the same, once to each leader: the log has no entry to look at
    no voter, and is to be one      RemoveRaftVoter for an older disk of its own, then AddRaftVoter
                                    (KIP-1186)

It is asked in the place of a fetch, at most once in a fetch time-out. So a leader that refuses it
costs the follower next to nothing, and one that is elected has time to commit first.
"""

from __future__ import annotations

from math import inf

from moldau.cluster.raft.life import Life
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeAnswer,
    VoterChangeRequest,
)
from moldau.cluster.raft.states import Follower
from moldau.protocol.errors import ErrorCode


def own_change(life: Life, state: Follower) -> VoterChangeRequest | None:
    """Return what a follower should ask its leader for, be it due or not; None for nothing."""
    if not state.has_fetched:
        return None
    own = life.voters.find(life.me)
    if own is not None:
        is_right = own == life.own if life.voter_history.is_dynamic else state.has_told_entry
        return None if is_right else UpdateVoterRequest(life.cluster_id, life.epoch, life.own)
    if not life.joins_voters or not life.voter_history.is_dynamic:
        return None
    older = next((key for key in life.voters.keys if key.node == life.me.node), None)
    if older is not None:
        return RemoveVoterRequest(life.cluster_id, older)
    # Its commit may need this node's own fetches, so it must not wait for that.
    return AddVoterRequest(life.cluster_id, life.own, ack_when_committed=False)


def change_deadline_s(life: Life, state: Follower) -> float:
    """Say when a follower has to be woken to ask; what is due waits for the node anyway."""
    is_later = state.own_change_due_s > life.now_s
    return state.own_change_due_s if is_later and own_change(life, state) is not None else inf


def change_sent(life: Life, state: Follower) -> None:
    """Leave the leader in peace for a while, whatever it answers."""
    state.own_change_due_s = life.now_s + life.timeouts.fetch_s


def change_answered(
    state: Follower, request: VoterChangeRequest, answer: VoterChangeAnswer
) -> None:
    """Take note of what the leader knows now; a refusal is followed by another try."""
    if isinstance(request, UpdateVoterRequest) and answer.error is ErrorCode.NONE:
        state.has_told_entry = True
