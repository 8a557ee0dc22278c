"""What a node wants to say to whom at this moment, from its state alone (`resending` sends it)."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TypeAlias

from moldau.cluster.raft.life import Life
from moldau.cluster.raft.own_entry import own_change
from moldau.cluster.raft.requests import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    SentRequest,
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
from moldau.cluster.raft.voters import ReplicaKey

Wanted: TypeAlias = Iterator[tuple[Destination, SentRequest]]


def wanted(life: Life) -> Wanted:
    """Name each node that has to be told or asked something, and what."""
    match life.state:
        case Prospective() | Candidate() as state:
            for voter in state.ballot.undecided:
                is_pre_vote = isinstance(state, Prospective)
                yield voter.node, _vote_request(life, voter, is_pre_vote=is_pre_vote)
        case Leader() as state:
            for voter in life.voters.others(life.me):
                if state.replicas[voter].begin_due_s <= life.now_s:
                    yield voter.node, _begin_request(life, voter)
        case Resigned() as state:
            for voter in sorted(state.untold):
                yield voter.node, _end_request(life, state)
        case state:
            yield from _fetches(life, state)


def _vote_request(life: Life, voter: ReplicaKey, *, is_pre_vote: bool) -> VoteRequest:
    return VoteRequest(
        cluster_id=life.cluster_id,
        epoch=life.epoch,
        candidate=life.me,
        voter=voter,
        last=life.log.end,
        is_pre_vote=is_pre_vote,
    )


def _begin_request(life: Life, voter: ReplicaKey) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(life.cluster_id, life.epoch, life.me.node, voter)


def _end_request(life: Life, state: Resigned) -> EndQuorumEpochRequest:
    return EndQuorumEpochRequest(life.cluster_id, life.epoch, life.me.node, state.successors)


def _fetches(life: Life, state: Follower | Unattached) -> Wanted:
    """Ask the leader, or any node for the leader; one thing at a time.

    A fetch says that all before its offset is durable, so it waits until that is true.
    """
    if life.outgoing.in_flight or not life.log.is_synced:
        return
    if isinstance(state, Follower) and state.download is not None:
        download = state.download
        if not download.is_complete:
            yield (
                life.leader,
                FetchSnapshotRequest(
                    cluster_id=life.cluster_id,
                    replica=life.me,
                    epoch=life.epoch,
                    snapshot=download.snapshot,
                    position=download.position,
                ),
            )
        return
    to = _fetched_from(life, state)
    if isinstance(state, Follower) and to == life.leader and state.own_change_due_s <= life.now_s:
        change = own_change(life, state)
        if change is not None:
            yield to, change
            return
    yield (
        to,
        FetchRequest(
            cluster_id=life.cluster_id,
            replica=life.me,
            epoch=life.epoch,
            last=life.log.end,
            high_watermark=life.high_watermark,
            max_wait_s=life.timeouts.fetch_wait_s,
        ),
    )


def _fetched_from(life: Life, state: Follower | Unattached) -> Destination:
    """Say who is asked: any node knows the leader, while the leader itself does not answer."""
    is_lost = isinstance(state, Unattached) or state.deadline_s == inf
    return None if is_lost or life.leader in life.outgoing.resting else life.leader
