"""What a node of a quorum of several serves to the others, on the controllers' listeners."""

from __future__ import annotations

from moldau.cluster.kraft.node import RaftNode
from moldau.cluster.raft.voters import NodeId
from moldau.server.controller_routes import Row
from moldau.server.handlers.metadata_feed import FETCH_SNAPSHOT_VERSIONS, METADATA_FETCH_VERSIONS
from moldau.server.handlers.raft import RaftHandlers


def quorum_rows(node: RaftNode, own: NodeId) -> list[Row]:
    """Return what serves the other nodes."""
    raft = RaftHandlers(node, own)
    return [
        (1, METADATA_FETCH_VERSIONS, raft.fetch),
        (52, "0-2", raft.take_part),
        (53, "0-1", raft.take_part),
        (54, "0-1", raft.take_part),
        (59, FETCH_SNAPSHOT_VERSIONS, raft.fetch),
        (82, "0", raft.take_part),
    ]
