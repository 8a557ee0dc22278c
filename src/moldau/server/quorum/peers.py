"""Sends what the Raft core says to other nodes, and returns what they answer.

A node is found by its id: at the address that the voters' entries name, else where it has answered
as the leader, else where an answer has said that the leader is. Whoever has to be asked for the
leader is one of the bootstrap addresses, one after the other. Nothing is tried again here, and
nobody waits for a node that has just been tried in vain: the core knows best what it still wants to
say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from moldau.base.network import Address
from moldau.cluster.kraft.fetched_batches import fetched_batches
from moldau.cluster.kraft.messages import (
    answer_of,
    fetched_records,
    leader_address,
    request_message,
)
from moldau.cluster.kraft.peers import AddressUnknown, PeerUnavailable
from moldau.cluster.raft.requests import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchAnswer,
    FetchRequest,
    FetchSnapshotRequest,
    QuorumAnswer,
    SentRequest,
    VoteAnswer,
    VoteRequest,
)
from moldau.cluster.raft.resending import Destination
from moldau.cluster.raft.voters import NO_DIRECTORY, NO_NODE, NodeId, ReplicaKey, Voter
from moldau.engine.errors import ClientError
from moldau.engine.link import Link
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode
from moldau.server.quorum.peer_links import Lane, PeerLinks, Place

CONNECT_TIMEOUT_MS: Final = 1_000
"""The kernel repeats a connection request that was lost after one second; a new attempt is as good,
and an election waits for it."""

RECONNECT_BACKOFF_MS: Final = 20
RECONNECT_BACKOFF_MAX_MS: Final = 200
"""A node that is back is needed at once: without it there may be no majority."""

TOLD_MAX: Final = 32
"""Addresses of leaders that no voter's entry names: there is one leader at a time."""

PRE_VOTES_FROM: Final = 2
DIRECTORIES_FROM: Final = 1
METADATA_FETCH_FROM: Final = 12
EARLY_ANSWERS_FROM: Final = 1
"""The first versions of Vote, of the election's requests, of Fetch, and of AddRaftVoter, that say
what is meant."""


class QuorumPeers:
    """The other nodes; implements `Peers`. Owned by the event loop's thread."""

    def __init__(
        self,
        own: Voter,
        bootstrap: Sequence[Address],
        address_of: Callable[[NodeId], Address | None],
        ports: ClientPorts,
        *,
        client_id: str,
        request_timeout_ms: int,
        fetch_bytes: int,
    ) -> None:
        """`address_of` tells where a voter is, from the settings or the log."""
        settings = ConnectionSettings(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            socket_connection_setup_timeout_ms=min(request_timeout_ms, CONNECT_TIMEOUT_MS),
            socket_connection_setup_timeout_max_ms=min(request_timeout_ms, CONNECT_TIMEOUT_MS),
            reconnect_backoff_ms=RECONNECT_BACKOFF_MS,
            reconnect_backoff_max_ms=RECONNECT_BACKOFF_MAX_MS,
        )
        self._own = own
        own_addresses = {Address(one.host, one.port) for one in own.endpoints}
        self._bootstrap = [one for one in bootstrap if one not in own_addresses]
        self._next = ports.random.randrange(len(self._bootstrap)) if self._bootstrap else 0
        """Where to go on among the bootstrap addresses; nodes need not all begin with the first."""
        self._address_of = address_of
        self._told: dict[NodeId, Address] = {}
        """Where leaders are, as answers have shown or said, the oldest news first."""
        self._fetch_bytes = fetch_bytes
        self._links = PeerLinks(settings, ports)

    async def ask(self, to: Destination, request: SentRequest) -> QuorumAnswer:
        """Send a request and return the answer; PeerUnavailable without a usable one."""
        try:
            if isinstance(request, FetchRequest | FetchSnapshotRequest):
                return await self._fetch(to, request)
            link = self._links.to(*self._place(to, Lane.VOTES))
            return await self._ask_over(link, request)
        except ClientError as error:
            raise PeerUnavailable(error.what) from error

    async def close(self) -> None:
        """End all connections; what is under way fails with PeerUnavailable."""
        await self._links.close()

    # Where nodes are

    def _place(self, to: Destination, lane: Lane) -> tuple[Place, Lane, Address]:
        """Say where a request goes; PeerUnavailable if nobody can be asked now."""
        if to is None:
            address = self._next_bootstrap(lane)
            return address, lane, address
        known = self.address(to)
        if known is None:
            raise AddressUnknown(f"the address of node {to} is not known")
        return to, lane, known

    def address(self, node: int) -> Address | None:
        """Return where a node is; `Addresses` of channels to the leader."""
        found = NodeId(node)
        return self._address_of(found) or self._told.get(found)

    def _next_bootstrap(self, lane: Lane) -> Address:
        """Return the next of the bootstrap addresses that was not just tried in vain."""
        for _ in self._bootstrap:
            address = self._bootstrap[self._next]
            self._next = (self._next + 1) % len(self._bootstrap)
            if not self._links.to(address, lane, address).is_resting:
                return address
        raise PeerUnavailable("no bootstrap address can be reached")

    def _learn(self, asked: Address, answer: QuorumAnswer, response: Any) -> None:
        """Remember where the leader is, if an answer shows or says it and no voter's entry does.

        Only a leader gives records, so it is where it was asked. That is better than what it says
        of itself: the name of a listener may mean something else elsewhere.
        """
        is_leaders = isinstance(answer, FetchAnswer) and answer.error is ErrorCode.NONE
        told = (answer.leader, asked) if is_leaders else leader_address(response)
        if told is None:
            return
        node, address = told
        if self._address_of(node) is None:
            self._told.pop(node, None)
            self._told[node] = address
            if len(self._told) > TOLD_MAX:
                del self._told[next(iter(self._told))]

    # What is said

    async def _fetch(
        self, to: Destination, request: FetchRequest | FetchSnapshotRequest
    ) -> QuorumAnswer:
        place, _, address = self._place(to, Lane.FETCHES)
        link = self._links.begin_fetch(place, address)
        try:
            answer = await self._ask_over(link, request)
        except (ClientError, PeerUnavailable):
            self._links.end_fetch(link)
            raise
        # Cancelled, the fetch goes on: the node still answers it, before any other.
        self._links.end_fetch(link)
        return answer

    async def _ask_over(self, link: Link, request: SentRequest) -> QuorumAnswer:
        if link.is_resting:
            raise PeerUnavailable(f"{link.address} could not be reached a moment ago")
        connection = await link.connected()
        message = request_message(request, self._own, self._fetch_bytes)
        version = connection.agreed_version(type(message))
        if version < lowest_version(request):
            if isinstance(request, VoteRequest) and request.is_pre_vote:
                return VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, request.epoch, NO_NODE)
            name = type(message).__name__
            raise PeerUnavailable(f"{link.address} serves {name} up to version {version} only")
        response = await connection.call(message, version)
        answer = answer_of(request, response)
        self._learn(link.address, answer, response)
        return await _with_records(answer, response)


async def _with_records(answer: QuorumAnswer, response: Any) -> QuorumAnswer:
    if isinstance(answer, FetchAnswer) and answer.error is ErrorCode.NONE:
        batches = await fetched_batches(fetched_records(response))
        return dataclasses.replace(answer, batches=batches)
    return answer


def lowest_version(request: SentRequest) -> int:
    """Return the first version of a message that says all that a request says.

    Voters that are known without their directories can be asked in the version before those.
    """
    match request:
        case VoteRequest(is_pre_vote=True):
            return PRE_VOTES_FROM
        case VoteRequest(voter=voter) | BeginQuorumEpochRequest(voter=voter):
            return _lowest_for(voter)
        case EndQuorumEpochRequest(successors=successors):
            return _lowest_for(*successors)
        case FetchRequest():
            return METADATA_FETCH_FROM
        case AddVoterRequest(ack_when_committed=False):
            return EARLY_ANSWERS_FROM
        case _:
            return 0


def _lowest_for(*named: ReplicaKey) -> int:
    is_known = any(key.directory != NO_DIRECTORY for key in named)
    return DIRECTORIES_FROM if is_known else 0
