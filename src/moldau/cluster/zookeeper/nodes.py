"""A node as it was read, and writes to nodes. Plain values, whatever client carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from moldau.base.tuples import NamedTuple

ANY_VERSION: Final = -1
"""The write does not depend on the version of the node. The number is ZooKeeper's."""


class StoredNode(NamedTuple):
    """The content of a node, and what ZooKeeper tells about it."""

    data: bytes
    version: int = 0
    """How often the content was set since the node was created."""
    created: int = 0
    """The id of the transaction that created the node (czxid)."""


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Create a persistent node; fails if it exists."""

    path: str
    data: bytes = b""
    sequential: bool = False
    """Whether ZooKeeper appends a number to the path."""


@dataclass(frozen=True, slots=True)
class SetNode:
    """Set the content of a node; fails unless it has this version."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a node; fails unless it has this version and no children."""

    path: str
    version: int = ANY_VERSION


NodeWrite: TypeAlias = CreateNode | SetNode | DeleteNode
