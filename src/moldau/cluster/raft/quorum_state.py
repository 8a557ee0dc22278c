"""What a node has to remember of elections: the content of `quorum-state`, as a value."""

from __future__ import annotations

from moldau.base.ids import LeaderEpoch
from moldau.base.tuples import NamedTuple
from moldau.cluster.raft.voters import NO_NODE, NodeId, ReplicaKey


class QuorumState(NamedTuple):
    """The newest epoch that a node knows, who leads in it, and whom the node has voted for."""

    epoch: LeaderEpoch = LeaderEpoch(0)
    leader: NodeId = NO_NODE
    voted: ReplicaKey | None = None
