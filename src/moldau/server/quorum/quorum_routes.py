"""What a node of a quorum serves to the others, on the controllers' listeners."""

from __future__ import annotations

from typing import Final

from moldau.cluster.kraft.node import RaftNode
from moldau.cluster.raft.voters import NodeId
from moldau.server.controller_routes import Row
from moldau.server.handlers.raft import RaftHandlers

METADATA_FETCH_VERSIONS: Final = "12-18"
"""Those that can say where two logs part."""


def quorum_rows(node: RaftNode, own: NodeId, *, has_elections: bool) -> list[Row]:
    """Return what serves the other nodes. Nobody has to elect a voter that is alone."""
    raft = RaftHandlers(node, own)
    rows: list[Row] = [(1, METADATA_FETCH_VERSIONS, raft.fetch), (59, "0-1", raft.fetch)]
    if has_elections:
        elections = ((52, "0-2"), (53, "0-1"), (54, "0-1"), (82, "0"))
        rows += [(key, versions, raft.take_part) for key, versions in elections]
    return rows
