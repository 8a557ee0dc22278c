"""AddRaftVoter 0-1 and RemoveRaftVoter 0: how an operator changes the voters (KIP-853).

The new set is decided in `cluster/raft`. Before that, a new voter is asked which versions it
supports: that takes a connection, so it comes after all that can be refused without one. Every
refusal says what its reader can do.

The work is dropped when its client leaves. Once the leader has a change in its log it may be
committed all the same, as after a time-out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from moldau.base.ids import uuid_text
from moldau.cluster.kraft.messages import request_of
from moldau.cluster.raft.requests import AddVoterRequest, RemoveVoterRequest
from moldau.cluster.raft.voters import NO_DIRECTORY, NO_NODE, NodeId, VoterEndpoint
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.raft import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from moldau.server.handlers.raft import QuorumNode, ServedAnswer
from moldau.server.network.dispatch import Droppable, RequestContext

CHANGE_TIMEOUT_MAX_S: Final = 30.0
"""A change that takes longer lacks a majority. RemoveRaftVoter names no time of its own."""

SupportedVersions = Callable[[Sequence[VoterEndpoint]], Awaitable[tuple[int, int]]]
"""Asks a new voter for its levels of `kraft.version`; ApiError if they cannot be had."""


class VoterChangeHandlers:
    """Adds and removes voters."""

    def __init__(
        self,
        node: QuorumNode,
        own: NodeId,
        cluster_id: Callable[[], str],
        supported_versions: SupportedVersions,
    ) -> None:
        """`cluster_id` is asked for once the metadata store has been started."""
        self._node = node
        self._own = own
        self._cluster_id = cluster_id
        self._supported_versions = supported_versions

    def add_voter(
        self, message: AddRaftVoterRequest, context: RequestContext
    ) -> AddRaftVoterResponse | Droppable:
        """Add a voter."""
        del context
        request = request_of(message)
        if not isinstance(request, AddVoterRequest):
            return AddRaftVoterResponse(0, ErrorCode.INVALID_REQUEST, _MALFORMED)
        timeout_s = min(max(message.timeout_ms / 1000, 0.0), CHANGE_TIMEOUT_MAX_S)
        change = partial(self._add, request)
        return Droppable(_answered(AddRaftVoterResponse, change, timeout_s))

    def remove_voter(
        self, message: RemoveRaftVoterRequest, context: RequestContext
    ) -> RemoveRaftVoterResponse | Droppable:
        """Remove a voter."""
        del context
        request = request_of(message)
        if not isinstance(request, RemoveVoterRequest):
            return RemoveRaftVoterResponse(0, ErrorCode.INVALID_REQUEST, _MALFORMED)
        change = partial(self._remove, request)
        return Droppable(_answered(RemoveRaftVoterResponse, change, CHANGE_TIMEOUT_MAX_S))

    async def _add(self, request: AddVoterRequest) -> None:
        error = self._add_problem(request)
        if error is ErrorCode.NONE:
            versions = await self._supported_versions(request.voter.endpoints)
            voter = replace(request.voter, kraft_versions=versions)
            served: ServedAnswer = await self._node.ask(replace(request, voter=voter), 0)
            error = served.answer.error
        self._check(error, _add_text(error, request))

    def _add_problem(self, request: AddVoterRequest) -> ErrorCode:
        """Find what can be said against a new voter before it is asked; the core says the rest."""
        voters = self._node.voters
        if request.cluster_id not in (None, self._cluster_id()):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if self._node.leader != self._own:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if any(key.directory == NO_DIRECTORY for key in voters.keys):
            return ErrorCode.UNSUPPORTED_VERSION
        if voters.has_node(request.voter.key.node):
            return ErrorCode.DUPLICATE_VOTER
        return ErrorCode.NONE

    async def _remove(self, request: RemoveVoterRequest) -> None:
        served: ServedAnswer = await self._node.ask(request, 0)
        error = served.answer.error
        self._check(error, _remove_text(error, request))

    def _check(self, error: ErrorCode, text: str) -> None:
        """Raise ApiError for an error."""
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader = self._node.leader
            is_known = leader not in (NO_NODE, self._own)
            whom = f"Ask node {leader}." if is_known else "Try again when there is a leader."
            text = f"Node {self._own} does not lead the quorum. {whom}"
        if error is not ErrorCode.NONE:
            raise ApiError(error, text)


async def _answered(
    response: type[AddRaftVoterResponse | RemoveRaftVoterResponse],
    change: Callable[[], Awaitable[None]],
    timeout_s: float,
) -> AddRaftVoterResponse | RemoveRaftVoterResponse:
    """Answer for a change once it is committed, refused, or has taken too long."""
    try:
        async with asyncio.timeout(timeout_s):
            await change()
    except TimeoutError:
        text = (
            "The change was not committed in time. It may still be: look which voters there are"
            " before you try again."
        )
        return response(0, ErrorCode.REQUEST_TIMED_OUT, text)
    except ApiError as error:
        return response(0, error.code, error.message)
    return response(0, ErrorCode.NONE, None)


_MALFORMED: Final = (
    "A voter is named by its id, by the directory id of its metadata log, and a new one also by its"
    " listeners, each with a host and a port."
)

_STATIC: Final = (
    "The voters are those of controller.quorum.voters, and change with this setting alone: the"
    " cluster was formatted with kraft.version 0."
)


def _add_text(error: ErrorCode, request: AddVoterRequest) -> str:
    node = request.voter.key.node
    match error:
        case ErrorCode.UNSUPPORTED_VERSION:
            return _STATIC
        case ErrorCode.DUPLICATE_VOTER:
            return f"Node {node} is a voter already. Remove it first if its directory is another."
        case ErrorCode.INVALID_REQUEST:
            return (
                f"Node {node} does not support kraft.version 1, or the record that names all voters"
                " and their listeners would be larger than 16 KiB."
            )
        case ErrorCode.REQUEST_TIMED_OUT:
            return (
                f"Node {node} cannot be added yet: it has not caught up with the log, or another"
                " change of the voters is not committed. Try again."
            )
        case _:
            return error.text


def _remove_text(error: ErrorCode, request: RemoveVoterRequest) -> str:
    node, directory = request.voter
    match error:
        case ErrorCode.UNSUPPORTED_VERSION:
            return _STATIC
        case ErrorCode.VOTER_NOT_FOUND:
            return f"Node {node} with the directory {uuid_text(directory)} is not a voter."
        case ErrorCode.INVALID_REQUEST:
            return f"Node {node} is the only voter, and cannot be removed."
        case ErrorCode.REQUEST_TIMED_OUT:
            return (
                f"Node {node} cannot be removed yet: another change of the voters is not"
                " committed. Try again."
            )
        case _:
            return error.text
