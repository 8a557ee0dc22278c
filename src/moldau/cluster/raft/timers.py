"""When a node has to be woken if nothing else happens: the earliest of all its time-outs."""

from __future__ import annotations

from math import inf

from moldau.cluster.raft.leading import quorum_deadline_s
from moldau.cluster.raft.life import Life
from moldau.cluster.raft.own_entry import change_deadline_s
from moldau.cluster.raft.states import Follower, Leader, Prospective


def deadline_s(life: Life) -> float:
    """Return the time of the next TimerFired; infinity if the node waits for others alone."""
    if life.is_stopped:
        return inf
    return min(_state_deadline_s(life), life.outgoing.deadline_s)


def _state_deadline_s(life: Life) -> float:
    state = life.state
    if isinstance(state, Leader):
        parked = (fetch.until_s for fetch in state.parked.values())
        # What is due already waits for its node (`resending`).
        begins = (
            progress.begin_due_s
            for progress in state.replicas.values()
            if progress.begin_due_s > life.now_s
        )
        waits = min(min(parked, default=inf), min(begins, default=inf))
        return min(waits, quorum_deadline_s(life, state))
    if isinstance(state, Prospective):
        return min(state.deadline_s, state.retry_s)
    if isinstance(state, Follower):
        return min(state.deadline_s, change_deadline_s(life, state))
    return state.deadline_s
