"""What can be told of a quorum to those who ask for it: who votes, who follows, how far all are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from moldau.cluster.raft.voters import NodeId, VoterEndpoint


class DescribedReplica(NamedTuple):
    """A node with a copy of the metadata log, as the leader has heard of it last."""

    node_id: NodeId
    directory_id: bytes
    end_offset: int
    """-1 before its first fetch."""
    last_fetch_ms: int
    last_caught_up_ms: int
    """When it last had everything there was; -1 if it never had."""


class DescribedNode(NamedTuple):
    """Where a voter is reached."""

    node_id: NodeId
    endpoints: Sequence[VoterEndpoint]


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """A quorum as its leader knows it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[DescribedReplica]
    observers: Sequence[DescribedReplica]
    nodes: Sequence[DescribedNode]
