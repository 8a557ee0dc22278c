"""A node as it was read, as far as its readers need it. A plain value: a worker can be given it."""

from __future__ import annotations

from moldau.base.tuples import NamedTuple


class StoredNode(NamedTuple):
    """The content of a node, and what ZooKeeper tells about it."""

    data: bytes
    version: int = 0
    """How often the content was set since the node was created."""
    created: int = 0
    """The id of the transaction that created the node (czxid)."""
