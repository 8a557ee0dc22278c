"""Vote, BeginQuorumEpoch and EndQuorumEpoch: who wants to lead, who leads, and who does no more.

Version 0 of each knows no directories (KIP-853), and does not name the voter that is asked: it is
whoever receives the request. A pre-vote needs version 2 of Vote (KIP-996). In an earlier one it
would be a vote, so it must never be sent in one.
"""

from __future__ import annotations

from typing import Final

from moldau.base.ids import LeaderEpoch
from moldau.cluster.journal import METADATA_TOPIC
from moldau.cluster.kraft.apis.checks import (
    METADATA_PARTITION,
    Known,
    answered_partition,
    endpoints_of,
    known,
    listeners_of,
    log_end_of,
    requested_partition,
    require,
    told_epoch,
)
from moldau.cluster.raft import requests as core
from moldau.cluster.raft.voters import NodeId, ReplicaKey, Voter
from moldau.protocol.messages import raft as wire

SUCCESSORS_MAX: Final = 1000
"""In one EndQuorumEpoch: more voters than any quorum has."""


# Vote


def vote_message(request: core.VoteRequest, _own: Voter, _fetch_bytes: int) -> wire.VoteRequest:
    partition = wire.VotePartition(
        METADATA_PARTITION,
        request.epoch,
        request.candidate.node,
        request.candidate.directory,
        request.voter.directory,
        told_epoch(request.last),
        request.last.offset,
        request.is_pre_vote,
    )
    topic = wire.VoteTopic(METADATA_TOPIC, [partition])
    return wire.VoteRequest(request.cluster_id, request.voter.node, [topic])


def vote_of(message: wire.VoteRequest, receiver: NodeId) -> core.VoteRequest:
    asked = requested_partition(message.topics)
    require(min(asked.replica_epoch, asked.replica_id) >= 0)
    return core.VoteRequest(
        cluster_id=message.cluster_id,
        epoch=LeaderEpoch(asked.replica_epoch),
        candidate=ReplicaKey(NodeId(asked.replica_id), asked.replica_directory_id),
        voter=_voter(message.voter_id, asked.voter_directory_id, receiver),
        last=log_end_of(asked.last_offset_epoch, asked.last_offset),
        is_pre_vote=asked.pre_vote,
    )


def vote_response(
    _message: wire.VoteRequest, answer: core.VoteAnswer, _records: object
) -> wire.VoteResponse:
    partition = wire.VotePartitionResponse(
        METADATA_PARTITION, answer.error, answer.leader, answer.epoch, answer.granted
    )
    return wire.VoteResponse(topics=[wire.VoteTopicResponse(METADATA_TOPIC, [partition])])


def vote_known(response: wire.VoteResponse) -> Known:
    told = answered_partition(response.topics)
    return known(told.error_code, told.leader_epoch, told.leader_id)


def vote_answer(response: wire.VoteResponse, told: Known) -> core.VoteAnswer:
    return core.VoteAnswer(*told, granted=answered_partition(response.topics).vote_granted)


# BeginQuorumEpoch


def begin_message(
    request: core.BeginQuorumEpochRequest, own: Voter, _fetch_bytes: int
) -> wire.BeginQuorumEpochRequest:
    partition = wire.BeginQuorumEpochPartition(
        METADATA_PARTITION, request.voter.directory, request.leader, request.epoch
    )
    topic = wire.BeginQuorumEpochTopic(METADATA_TOPIC, [partition])
    return wire.BeginQuorumEpochRequest(
        request.cluster_id, request.voter.node, [topic], listeners_of(own.endpoints)
    )


def begin_of(
    message: wire.BeginQuorumEpochRequest, receiver: NodeId
) -> core.BeginQuorumEpochRequest:
    told = requested_partition(message.topics)
    require(min(told.leader_epoch, told.leader_id) >= 0)
    endpoints_of(message.leader_endpoints)
    return core.BeginQuorumEpochRequest(
        cluster_id=message.cluster_id,
        epoch=LeaderEpoch(told.leader_epoch),
        leader=NodeId(told.leader_id),
        voter=_voter(message.voter_id, told.voter_directory_id, receiver),
    )


def begin_response(
    _message: wire.BeginQuorumEpochRequest, answer: core.QuorumAnswer, _records: object
) -> wire.BeginQuorumEpochResponse:
    return wire.BeginQuorumEpochResponse(topics=_epoch_topics(answer))


# EndQuorumEpoch


def end_message(
    request: core.EndQuorumEpochRequest, own: Voter, _fetch_bytes: int
) -> wire.EndQuorumEpochRequest:
    partition = wire.EndQuorumEpochPartition(
        METADATA_PARTITION,
        request.leader,
        request.epoch,
        [key.node for key in request.successors],
        [wire.PreferredCandidate(*key) for key in request.successors],
    )
    topic = wire.EndQuorumEpochTopic(METADATA_TOPIC, [partition])
    return wire.EndQuorumEpochRequest(request.cluster_id, [topic], listeners_of(own.endpoints))


def end_of(message: wire.EndQuorumEpochRequest, _receiver: NodeId) -> core.EndQuorumEpochRequest:
    told = requested_partition(message.topics)
    require(min(told.leader_epoch, told.leader_id) >= 0)
    endpoints_of(message.leader_endpoints)
    return core.EndQuorumEpochRequest(
        cluster_id=message.cluster_id,
        epoch=LeaderEpoch(told.leader_epoch),
        leader=NodeId(told.leader_id),
        successors=_successors(told),
    )


def _successors(told: wire.EndQuorumEpochPartition) -> tuple[ReplicaKey, ...]:
    """Return the successors with their directories, where the version of the message has them."""
    candidates, nodes = told.preferred_candidates, told.preferred_successors
    require(max(len(candidates), len(nodes)) <= SUCCESSORS_MAX)
    keys = tuple(
        ReplicaKey(NodeId(one.candidate_id), one.candidate_directory_id) for one in candidates
    ) or tuple(ReplicaKey(NodeId(node)) for node in nodes)
    require(len(set(keys)) == len(keys))
    require(all(key.node >= 0 for key in keys))
    return keys


def end_response(
    _message: wire.EndQuorumEpochRequest, answer: core.QuorumAnswer, _records: object
) -> wire.EndQuorumEpochResponse:
    return wire.EndQuorumEpochResponse(topics=_epoch_topics(answer))


# What they have in common


def epoch_known(
    response: wire.BeginQuorumEpochResponse | wire.EndQuorumEpochResponse,
) -> Known:
    told = answered_partition(response.topics)
    return known(told.error_code, told.leader_epoch, told.leader_id)


def begin_answer(_response: object, told: Known) -> core.BeginQuorumEpochAnswer:
    return core.BeginQuorumEpochAnswer(*told)


def end_answer(_response: object, told: Known) -> core.EndQuorumEpochAnswer:
    return core.EndQuorumEpochAnswer(*told)


def _epoch_topics(answer: core.QuorumAnswer) -> list[wire.QuorumEpochTopicResponse]:
    partition = wire.QuorumEpochPartitionResponse(
        METADATA_PARTITION, answer.error, answer.leader, answer.epoch
    )
    return [wire.QuorumEpochTopicResponse(METADATA_TOPIC, [partition])]


def _voter(node: int, directory: bytes, receiver: NodeId) -> ReplicaKey:
    return ReplicaKey(receiver if node < 0 else NodeId(node), directory)
