"""Requests and answers of the core as messages of Kafka's protocol, and back. Pure.

    core: SentRequest  --request_message-->  message  --wire-->  message  --request_of-->  Request
    core: QuorumAnswer  <--answer_of--  response  <--wire--  response  <--answer_message--  Answer

What comes from outside is checked here, whole, before the core sees any of it. A request that makes
no sense is refused with the error that Kafka has for it, and an answer that makes none counts as no
answer. What stands in a message and is no concern of the core's (time-outs, sizes, batches) is left
to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from moldau.base.ids import LeaderEpoch
from moldau.base.network import Address, Part
from moldau.base.tuples import NamedTuple
from moldau.cluster.kraft.apis import elections, fetches, voter_changes
from moldau.cluster.kraft.apis.checks import Known
from moldau.cluster.kraft.apis.fetches import fetched_records
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.raft import requests as core
from moldau.cluster.raft.requests import QuorumAnswer, Request, SentRequest
from moldau.cluster.raft.voters import NO_NODE, NodeId, Voter
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages import data
from moldau.protocol.messages import raft as wire

__all__ = [
    "NodeEndpoint",
    "answer_message",
    "answer_of",
    "fetched_records",
    "leader_address",
    "refusal_message",
    "request_message",
    "request_of",
]

_ENDPOINTS_MAX: Final = 100
"""Looked at in one answer: Kafka's names one."""

_PORT_MAX: Final = 2**16 - 1


class NodeEndpoint(NamedTuple):
    """Where a node of the quorum is reached."""

    node: NodeId
    host: str
    port: int


class _Serving(NamedTuple):
    """How one API's requests are read and answered."""

    read: Callable[[Any, NodeId], Request]
    response: Callable[[Any, Any, Any], Any]
    response_type: type[Any]


class _Asking(NamedTuple):
    """How one of the core's requests is sent, and its answer read."""

    message: Callable[[Any, Voter, int], Any]
    response_type: type[Any]
    known: Callable[[Any], Known]
    answer: Callable[[Any, Known], QuorumAnswer]


_SERVED: Final[dict[type[Any], _Serving]] = {
    wire.VoteRequest: _Serving(elections.vote_of, elections.vote_response, wire.VoteResponse),
    wire.BeginQuorumEpochRequest: _Serving(
        elections.begin_of, elections.begin_response, wire.BeginQuorumEpochResponse
    ),
    wire.EndQuorumEpochRequest: _Serving(
        elections.end_of, elections.end_response, wire.EndQuorumEpochResponse
    ),
    data.FetchRequest: _Serving(fetches.fetch_of, fetches.fetch_response, data.FetchResponse),
    wire.FetchSnapshotRequest: _Serving(
        fetches.snapshot_of, fetches.snapshot_response, wire.FetchSnapshotResponse
    ),
    wire.AddRaftVoterRequest: _Serving(
        voter_changes.add_of, voter_changes.add_response, wire.AddRaftVoterResponse
    ),
    wire.RemoveRaftVoterRequest: _Serving(
        voter_changes.remove_of, voter_changes.remove_response, wire.RemoveRaftVoterResponse
    ),
    wire.UpdateRaftVoterRequest: _Serving(
        voter_changes.update_of, voter_changes.update_response, wire.UpdateRaftVoterResponse
    ),
}

_ASKED: Final[dict[type[Any], _Asking]] = {
    core.VoteRequest: _Asking(
        elections.vote_message, wire.VoteResponse, elections.vote_known, elections.vote_answer
    ),
    core.BeginQuorumEpochRequest: _Asking(
        elections.begin_message,
        wire.BeginQuorumEpochResponse,
        elections.epoch_known,
        elections.begin_answer,
    ),
    core.EndQuorumEpochRequest: _Asking(
        elections.end_message,
        wire.EndQuorumEpochResponse,
        elections.epoch_known,
        elections.end_answer,
    ),
    core.FetchRequest: _Asking(
        fetches.fetch_message, data.FetchResponse, fetches.fetch_known, fetches.fetch_answer
    ),
    core.FetchSnapshotRequest: _Asking(
        fetches.snapshot_message,
        wire.FetchSnapshotResponse,
        fetches.snapshot_known,
        fetches.snapshot_answer,
    ),
    core.AddVoterRequest: _Asking(
        voter_changes.add_message,
        wire.AddRaftVoterResponse,
        voter_changes.change_known,
        voter_changes.change_answer,
    ),
    core.RemoveVoterRequest: _Asking(
        voter_changes.remove_message,
        wire.RemoveRaftVoterResponse,
        voter_changes.change_known,
        voter_changes.change_answer,
    ),
    core.UpdateVoterRequest: _Asking(
        voter_changes.update_message,
        wire.UpdateRaftVoterResponse,
        voter_changes.update_known,
        voter_changes.change_answer,
    ),
}

_KNOWN: Final = {asking.response_type: asking.known for asking in _ASKED.values()}


# Requests


def request_message(request: SentRequest, own: Voter, fetch_bytes: int) -> Any:
    """Return the message to send.

    `own` is this node as others reach it, and `fetch_bytes` how much a fetch may bring. A pre-vote
    must not be sent in a version of Vote before 2.
    """
    return _ASKED[type(request)].message(request, own, fetch_bytes)


def request_of(message: Any, receiver: NodeId = NO_NODE) -> Request | ErrorCode:
    """Return what a message asks for, or the error that refuses it.

    `receiver` is the voter that a Vote or a BeginQuorumEpoch of version 0 means, which names none.
    """
    try:
        return _SERVED[type(message)].read(message, receiver)
    except ApiError as error:
        return error.code


# Answers


def answer_message(
    message: Any,
    answer: QuorumAnswer,
    leader: NodeEndpoint | None,
    records: Sequence[Part] | bytes = b"",
) -> Any:
    """Return the response to a message that `request_of` has accepted.

    `records` are batches of the log or bytes of a snapshot. Of another cluster nothing is told but
    that it is another one.
    """
    if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return refusal_message(message, answer.error)
    response = _SERVED[type(message)].response(message, answer, records)
    if leader is not None and leader.node == answer.leader:
        _name_endpoint(response, leader)
    return response


def _name_endpoint(response: Any, leader: NodeEndpoint) -> None:
    match response:
        case wire.AddRaftVoterResponse() | wire.RemoveRaftVoterResponse():
            pass  # Tools find the leader through a broker.
        case wire.UpdateRaftVoterResponse():
            response.current_leader.host, response.current_leader.port = leader.host, leader.port
        case data.FetchResponse():
            response.node_endpoints = [data.NodeEndpoint(*leader)]
        case _:
            response.node_endpoints = [wire.RaftNodeEndpoint(*leader)]


def refusal_message(message: Any, error: ErrorCode) -> Any:
    """Return a response that is about the whole request, and tells nothing of the quorum."""
    match message:
        case wire.AddRaftVoterRequest() | wire.RemoveRaftVoterRequest():
            text = voter_changes.error_text(error)
            return _SERVED[type(message)].response_type(error_code=error, error_message=text)
        case wire.FetchSnapshotRequest() if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return fetches.unknown_snapshot_response(message)
        case _:
            return _SERVED[type(message)].response_type(error_code=error)


def answer_of(request: SentRequest, response: Any) -> QuorumAnswer:
    """Return what a response means; PeerUnavailable if it is no sound answer to the request.

    The batches of a fetch are left out: `fetched_records` returns their bytes.
    """
    asking = _ASKED[type(request)]
    if type(response) is not asking.response_type:
        raise PeerUnavailable(f"answered with a {type(response).__name__}")
    if response.error_code:
        return request.answer_type(ErrorCode.of(response.error_code), LeaderEpoch(0), NO_NODE)
    told = asking.known(response)
    if told.error is not ErrorCode.NONE:
        return request.answer_type(*told)
    return asking.answer(response, told)


def leader_address(response: Any) -> tuple[NodeId, Address] | None:
    """Return the leader that a response names, if it says where that node is reached."""
    read = _KNOWN.get(type(response))
    if read is None:
        return None
    try:
        leader = read(response).leader
    except PeerUnavailable:
        return None
    # Voter changes are asked of the leader itself: most of their answers name no endpoints.
    named = getattr(response, "node_endpoints", ())
    for endpoint in islice(named, _ENDPOINTS_MAX):
        is_address = endpoint.host and 0 < endpoint.port <= _PORT_MAX
        if endpoint.node_id == leader != NO_NODE and is_address:
            return leader, Address(endpoint.host, endpoint.port)
    return None
