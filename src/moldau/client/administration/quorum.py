"""Admin calls for the metadata quorum: describe it, add and remove voters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moldau.base.network import Address
from moldau.client.administration.face import Calls
from moldau.client.errors import CorruptAnswer, InvalidArgument
from moldau.engine.cluster import Node
from moldau.engine.retry import raise_for
from moldau.protocol.errors import ErrorCode
from moldau.protocol.messages.metadata import (
    DescribeQuorumPartition,
    DescribeQuorumPartitionResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    QuorumReplicaState,
)
from moldau.protocol.messages.raft import AddRaftVoterRequest, RaftListener, RemoveRaftVoterRequest

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_PARTITION: Final = 0
DIRECTORY_SIZE: Final = 16
NO_DIRECTORY: Final = bytes(DIRECTORY_SIZE)


class ControllerEndpoint(NamedTuple):
    """The listener of a controller and its address."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A replica of the metadata log, as last reported to the leader."""

    node_id: int
    directory_id: bytes | None
    """The id of its log directory; None for a voter named by the settings."""
    log_end_offset: int | None
    """None before the first fetch."""
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    """When it was last caught up with the leader; None if never."""
    endpoints: tuple[ControllerEndpoint, ...] = ()
    """Known for voters, and for a node that votes with another directory."""


@dataclass(frozen=True, slots=True)
class MetadataQuorum:
    """The quorum from its leader's view."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def leader(self) -> QuorumReplica | None:
        """The leader among the voters; None while it completes its own removal."""
        return next((one for one in self.voters if one.node_id == self.leader_id), None)

    @property
    def is_dynamic(self) -> bool:
        """Whether the log defines the voters instead of the settings (kraft.version 1, KIP-853)."""
        return any(one.directory_id is not None for one in self.voters)

    def voter(self, node_id: int) -> QuorumReplica | None:
        """Return the voter with this id."""
        return next((one for one in self.voters if one.node_id == node_id), None)

    def has_voter(self, node_id: int, directory_id: bytes) -> bool:
        """Return whether a node votes with this directory."""
        return any(
            (one.node_id, one.directory_id) == (node_id, directory_id) for one in self.voters
        )

    def lag(self, replica: QuorumReplica) -> int | None:
        """Return how many offsets a replica is behind the leader; None if unknown."""
        leader = self.leader
        if leader is None or leader.log_end_offset is None or replica.log_end_offset is None:
            return None
        return leader.log_end_offset - replica.log_end_offset


class QuorumCalls(Calls):
    """Admin calls for the metadata quorum."""

    async def describe_metadata_quorum(self, *, timeout_ms: float | None = None) -> MetadataQuorum:
        """Describe the quorum: `(await admin.describe_metadata_quorum()).leader`.

        Any broker forwards the request to the leader.
        """
        deadline = self._asking.deadline(timeout_ms)
        return await self._asking.until_done(self._described_quorum, deadline)

    async def _described_quorum(self) -> MetadataQuorum:
        partition = DescribeQuorumPartition(METADATA_PARTITION)
        request = DescribeQuorumRequest([DescribeQuorumTopic(METADATA_TOPIC, [partition])])
        answer: DescribeQuorumResponse = await self._asking.ask(Node.ANY, request)
        raise_for(answer.error_code, answer.error_message or None)
        told = [one for topic in answer.topics for one in topic.partitions]
        if len(told) != 1:
            raise CorruptAnswer(f"DescribeQuorum: one partition was asked for, {len(told)} told of")
        raise_for(told[0].error_code, told[0].error_message or None)
        return _quorum(told[0], answer)

    async def add_raft_voter(
        self,
        node_id: int,
        directory_id: bytes,
        endpoints: Iterable[ControllerEndpoint],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Make an observer a voter: `await admin.add_raft_voter(4, directory_id, endpoints)`.

        The endpoints are its controller listeners. RequestTimedOut can also mean that the node lags
        or cannot be reached. Voters change one at a time (KIP-853).
        """
        deadline = self._asking.deadline(timeout_ms)
        request = AddRaftVoterRequest(
            None,
            self._asking.patience_ms(deadline),
            node_id,
            _checked(directory_id),
            [RaftListener(*one) for one in endpoints],
        )
        await self._change_voters(request, ErrorCode.DUPLICATE_VOTER, deadline)

    async def remove_raft_voter(
        self, node_id: int, directory_id: bytes, *, timeout_ms: float | None = None
    ) -> None:
        """Remove a voter: `await admin.remove_raft_voter(4, directory_id)`."""
        deadline = self._asking.deadline(timeout_ms)
        request = RemoveRaftVoterRequest(None, node_id, _checked(directory_id))
        await self._change_voters(request, ErrorCode.VOTER_NOT_FOUND, deadline)

    async def _change_voters(
        self,
        request: AddRaftVoterRequest | RemoveRaftVoterRequest,
        done_already: ErrorCode,
        deadline: float,
    ) -> None:
        """Ask until the leader has answered; `done_already` says so of what was asked twice."""
        attempts = 0

        async def attempt() -> Any:
            nonlocal attempts
            attempts += 1
            answer = await self._asking.ask(Node.ANY, request)
            code = ErrorCode.of(answer.error_code)
            if attempts > 1 and code is done_already and await self._is_done(request):
                return type(answer)()
            # The leader has tried for as long as it may: whether to go on is the caller's to say.
            if code is not ErrorCode.REQUEST_TIMED_OUT:
                raise_for(answer.error_code, answer.error_message)
            return answer

        answer = await self._asking.until_done(attempt, deadline)
        raise_for(answer.error_code, answer.error_message)

    async def _is_done(self, request: AddRaftVoterRequest | RemoveRaftVoterRequest) -> bool:
        """Tell whether the voters are as a request wants them, after an answer that was lost."""
        quorum = await self._described_quorum()
        votes = quorum.has_voter(request.voter_id, request.voter_directory_id)
        return votes is isinstance(request, AddRaftVoterRequest)


def _quorum(
    told: DescribeQuorumPartitionResponse, answer: DescribeQuorumResponse
) -> MetadataQuorum:
    endpoints = {
        node.node_id: tuple(
            ControllerEndpoint(one.name, one.host, one.port) for one in node.listeners
        )
        for node in answer.nodes
    }
    return MetadataQuorum(
        told.leader_id,
        told.leader_epoch,
        told.high_watermark,
        tuple(_replica(one, endpoints) for one in told.current_voters),
        tuple(_replica(one, endpoints) for one in told.observers),
    )


def _replica(
    told: QuorumReplicaState, endpoints: Mapping[int, tuple[ControllerEndpoint, ...]]
) -> QuorumReplica:
    directory = bytes(told.replica_directory_id)
    return QuorumReplica(
        told.replica_id,
        None if directory == NO_DIRECTORY else directory,
        _known(told.log_end_offset),
        _known(told.last_fetch_timestamp),
        _known(told.last_caught_up_timestamp),
        endpoints.get(told.replica_id, ()),
    )


def _known(number: int) -> int | None:
    return number if number >= 0 else None


def _checked(directory_id: bytes) -> bytes:
    if len(directory_id) != DIRECTORY_SIZE:
        raise InvalidArgument(
            f"the id of a directory has 16 bytes, {directory_id!r:.100} has {len(directory_id)}"
        )
    return directory_id
