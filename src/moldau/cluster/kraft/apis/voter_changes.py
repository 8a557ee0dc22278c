"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter: what tools and nodes ask a leader for.

Of the answers, that of UpdateRaftVoter alone tells who leads, and in which epoch. Replicas are
named with their directories: a voter is a node with its disk (KIP-853).
"""

from __future__ import annotations

from typing import Final

from moldau.base.ids import LeaderEpoch
from moldau.cluster.kraft.apis.checks import (
    Known,
    endpoints_of,
    known,
    listeners_of,
    require,
)
from moldau.cluster.raft import requests as core
from moldau.cluster.raft.voters import NO_DIRECTORY, NO_NODE, NodeId, ReplicaKey, Voter
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages import raft as wire

ADD_TIMEOUT_MS: Final = 2_000
"""For a leader that is asked by a new voter itself. It connects to that node before it answers."""


# AddRaftVoter


def add_message(
    request: core.AddVoterRequest, _own: Voter, _fetch_bytes: int
) -> wire.AddRaftVoterRequest:
    voter = request.voter
    return wire.AddRaftVoterRequest(
        request.cluster_id,
        ADD_TIMEOUT_MS,
        *voter.key,
        listeners_of(voter.endpoints),
        request.ack_when_committed,
    )


def add_of(message: wire.AddRaftVoterRequest, _receiver: NodeId) -> core.AddVoterRequest:
    """Read a request; which versions of `kraft.version` the node supports is not in it."""
    require(message.listeners)
    voter = Voter(
        _replica(message.voter_id, message.voter_directory_id), endpoints_of(message.listeners)
    )
    return core.AddVoterRequest(message.cluster_id, voter, message.ack_when_committed)


def add_response(
    _message: wire.AddRaftVoterRequest, answer: core.QuorumAnswer, _records: object
) -> wire.AddRaftVoterResponse:
    return wire.AddRaftVoterResponse(0, answer.error, error_text(answer.error))


# RemoveRaftVoter


def remove_message(
    request: core.RemoveVoterRequest, _own: Voter, _fetch_bytes: int
) -> wire.RemoveRaftVoterRequest:
    return wire.RemoveRaftVoterRequest(request.cluster_id, *request.voter)


def remove_of(message: wire.RemoveRaftVoterRequest, _receiver: NodeId) -> core.RemoveVoterRequest:
    return core.RemoveVoterRequest(
        message.cluster_id, _replica(message.voter_id, message.voter_directory_id)
    )


def remove_response(
    _message: wire.RemoveRaftVoterRequest, answer: core.QuorumAnswer, _records: object
) -> wire.RemoveRaftVoterResponse:
    return wire.RemoveRaftVoterResponse(0, answer.error, error_text(answer.error))


# UpdateRaftVoter


def update_message(
    request: core.UpdateVoterRequest, _own: Voter, _fetch_bytes: int
) -> wire.UpdateRaftVoterRequest:
    voter = request.voter
    return wire.UpdateRaftVoterRequest(
        request.cluster_id,
        request.epoch,
        *voter.key,
        listeners_of(voter.endpoints),
        wire.RaftVersionFeature(*voter.kraft_versions),
    )


def update_of(message: wire.UpdateRaftVoterRequest, _receiver: NodeId) -> core.UpdateVoterRequest:
    require(message.current_leader_epoch >= 0)
    require(message.listeners)
    feature = message.kraft_version_feature
    versions = feature.min_supported_version, feature.max_supported_version
    require(0 <= versions[0] <= versions[1])
    voter = Voter(
        _replica(message.voter_id, message.voter_directory_id),
        endpoints_of(message.listeners),
        versions,
    )
    epoch = LeaderEpoch(message.current_leader_epoch)
    return core.UpdateVoterRequest(message.cluster_id, epoch, voter)


def update_response(
    _message: wire.UpdateRaftVoterRequest, answer: core.QuorumAnswer, _records: object
) -> wire.UpdateRaftVoterResponse:
    leader = wire.UpdateRaftVoterLeader(answer.leader, answer.epoch)
    return wire.UpdateRaftVoterResponse(0, answer.error, leader)


# Answers


def change_known(
    response: wire.AddRaftVoterResponse | wire.RemoveRaftVoterResponse,
) -> Known:
    return Known(ErrorCode.of(response.error_code), LeaderEpoch(0), NO_NODE)


def update_known(response: wire.UpdateRaftVoterResponse) -> Known:
    leader = response.current_leader
    return known(response.error_code, leader.leader_epoch, leader.leader_id)


def change_answer(_response: object, told: Known) -> core.VoterChangeAnswer:
    return core.VoterChangeAnswer(*told)


def error_text(error: ErrorCode) -> str | None:
    """Return what the user of a tool reads."""
    return None if error is ErrorCode.NONE else error.text


def _replica(node: int, directory: bytes) -> ReplicaKey:
    require(node >= 0 and directory != NO_DIRECTORY)
    return ReplicaKey(NodeId(node), directory)
