"""What every message of the quorum has to keep to, and what every answer tells. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from moldau.base.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset
from moldau.base.tuples import NamedTuple
from moldau.cluster.journal import METADATA_TOPIC
from moldau.cluster.kraft.peers import PeerUnavailable
from moldau.cluster.raft.log_position import LogEnd
from moldau.cluster.raft.voters import NO_NODE, NodeId, VoterEndpoint
from moldau.protocol.errors import ApiError, ErrorCode
from moldau.protocol.messages.raft import RaftListener

METADATA_PARTITION: Final = 0

LISTENERS_MAX: Final = 16
"""Of one node. Kafka's controllers have one or two."""

LISTENER_BYTES_MAX: Final = 512
"""Of the names and hosts of one node's listeners together. They become part of a record that names
all voters, which everybody has to be able to read (`VOTERS_BYTES_MAX`)."""


class NamedPartition(Protocol):
    """A partition of a request or an answer."""

    @property
    def partition_index(self) -> int: ...


P = TypeVar("P", bound=NamedPartition)
P_co = TypeVar("P_co", bound=NamedPartition, covariant=True)


class NamedTopic(Protocol[P_co]):
    """A topic of a request or an answer."""

    @property
    def topic_name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


class Known(NamedTuple):
    """What all answers tell."""

    error: ErrorCode
    epoch: LeaderEpoch
    leader: NodeId


# Requests


def require(condition: object) -> None:
    """Refuse a request that does not keep to something, as Kafka refuses it."""
    if not condition:
        raise ApiError(ErrorCode.INVALID_REQUEST)


def requested_partition(topics: Sequence[NamedTopic[P]]) -> P:
    """Return the one partition that a request may be about."""
    partition = _metadata_partition(topics)
    if partition is None:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return partition


def endpoints_of(listeners: Sequence[RaftListener]) -> tuple[VoterEndpoint, ...]:
    """Check the listeners of a node, and return where they are reached."""
    require(len(listeners) <= LISTENERS_MAX)
    require(all(one.name and one.host and one.port for one in listeners))
    require(len({one.name for one in listeners}) == len(listeners))
    size = sum(len(one.name.encode()) + len(one.host.encode()) for one in listeners)
    require(size <= LISTENER_BYTES_MAX)
    return tuple(VoterEndpoint(one.name, one.host, one.port) for one in listeners)


def listeners_of(endpoints: Sequence[VoterEndpoint]) -> list[RaftListener]:
    """Name the listeners of a node."""
    return [RaftListener(*endpoint) for endpoint in endpoints]


def told_epoch(end: LogEnd) -> int:
    """Return the last epoch of a log as messages have it: an empty log has 0, as in Kafka."""
    return end.epoch if end.offset else 0


def log_end_of(epoch: int, offset: int) -> LogEnd:
    """Return the end of a log that a request names; an empty log has no epoch here."""
    require(min(epoch, offset) >= 0)
    return LogEnd(LeaderEpoch(epoch) if offset else NO_LEADER_EPOCH, Offset(offset))


# Answers


def answered_partition(topics: Sequence[NamedTopic[P]]) -> P:
    """Return the one partition that an answer may be about."""
    partition = _metadata_partition(topics)
    if partition is None:
        raise PeerUnavailable("answered for other partitions than the metadata's")
    return partition


def known(error_code: int, epoch: int, leader: int) -> Known:
    """Check what an answer tells of the quorum.

    An error may come from a handler that knows nothing of it, and names no epoch. Nobody leads
    epoch 0: FetchSnapshot names node 0 there where it means nobody.
    """
    error = ErrorCode.of(error_code)
    if error is not ErrorCode.NONE and epoch < 0:
        return Known(error, LeaderEpoch(0), NO_NODE)
    if epoch < 0 or leader < NO_NODE:
        raise PeerUnavailable(f"answered with leader {leader} in epoch {epoch}")
    return Known(error, LeaderEpoch(epoch), NodeId(leader) if epoch else NO_NODE)


def _metadata_partition(topics: Sequence[NamedTopic[P]]) -> P | None:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    is_metadata = topics[0].topic_name == METADATA_TOPIC
    return partition if is_metadata and partition.partition_index == METADATA_PARTITION else None
