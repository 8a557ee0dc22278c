"""The nodes as one server has them, and what a write does to them.

The leader's tree decides whether a write is possible and makes a `Transaction` of it. The trees of
all servers apply the same transactions in the same order, at different times. It must not know of
sessions beyond their ids, of watches or of time.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from moldau.cluster.zookeeper.client.port import (
    PERSISTENT_OWNER,
    BadVersion,
    CheckVersion,
    CreateNode,
    DeleteNode,
    NodeExists,
    NodeKind,
    NodeStat,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    RequestRefused,
    SetData,
)


class Created(NamedTuple):
    """A node that a transaction creates."""

    path: str
    data: bytes
    owner: int
    ctime_ms: int


class DataChanged(NamedTuple):
    """Data that a transaction sets."""

    path: str
    data: bytes


class Deleted(NamedTuple):
    """A node that a transaction deletes."""

    path: str


Change = Created | DataChanged | Deleted


class Transaction(NamedTuple):
    """What was committed as one."""

    zxid: int
    changes: tuple[Change, ...]


class Aspect(enum.Enum):
    """What of a node is watched."""

    DATA = "data"
    CHILDREN = "children"


class Watched(NamedTuple):
    """Something that a session wants to hear of."""

    aspect: Aspect
    path: str


@dataclass(slots=True)
class Znode:
    """One node."""

    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    """The transaction that last created or deleted a child."""
    owner: int
    ctime_ms: int
    version: int = 0
    created_count: int = 0
    """How many children were ever created: the next sequence number."""
    children: dict[str, None] = field(default_factory=dict)

    @property
    def stat(self) -> NodeStat:
        """The node's stat, as readers get it."""
        return NodeStat(self.czxid, self.mzxid, self.version, self.owner, self.ctime_ms)


def parent_of(path: str) -> str:
    """The path of the node above."""
    return path.rpartition("/")[0] or "/"


class Tree:
    """All nodes, after all transactions up to `zxid`."""

    def __init__(self) -> None:
        self.zxid = 0
        self._nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0, PERSISTENT_OWNER, 0)}

    def find(self, path: str) -> Znode | None:
        """The node at a path."""
        return self._nodes.get(path)

    def get(self, path: str) -> Znode:
        """The node at a path; NoNode if there is none."""
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def items(self) -> Iterable[tuple[str, Znode]]:
        """All nodes with their paths."""
        return self._nodes.items()

    def owned_by(self, session_id: int) -> list[str]:
        """The ephemeral nodes of a session."""
        return [path for path, node in self._nodes.items() if node.owner == session_id]

    def has_changed(self, watched: Watched, *, existed: bool, since_zxid: int) -> bool:
        """Whether a watch that was set up to this transaction has missed something."""
        node = self._nodes.get(watched.path)
        if node is None or not existed:
            return existed == (node is None)
        newest = node.mzxid if watched.aspect is Aspect.DATA else node.pzxid
        return newest > since_zxid

    # Writing

    def write(
        self, operations: Sequence[Operation], session_id: int, now_ms: int
    ) -> tuple[Transaction, list[OperationResult]]:
        """Do all operations, or none: the error of the first that cannot be done."""
        zxid = self.zxid + 1
        saved: dict[str, Znode | None] = {}
        changes: list[Change] = []
        results: list[OperationResult] = []
        try:
            for index, operation in enumerate(operations):
                change = self._decide(operation, index, session_id, now_ms)
                if change is not None:
                    self._save(change.path, saved)
                    self._apply(change, zxid)
                    changes.append(change)
                results.append(self._result(operation, change))
        except Exception:
            self._restore(saved)
            raise
        self.zxid = zxid
        return Transaction(zxid, tuple(changes)), results

    def apply(self, transaction: Transaction) -> None:
        """Do what the leader has committed."""
        for change in transaction.changes:
            self._apply(change, transaction.zxid)
        self.zxid = transaction.zxid

    def _decide(
        self, operation: Operation, index: int, session_id: int, now_ms: int
    ) -> Change | None:
        path = operation.path
        if isinstance(operation, CreateNode):
            return self._decide_create(operation, index, session_id, now_ms)
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path, index)
        if operation.version not in {None, node.version}:
            raise BadVersion(path, index)
        match operation:
            case CheckVersion():
                return None
            case SetData():
                return DataChanged(path, operation.data)
            case DeleteNode():
                if node.children:
                    raise NotEmpty(path, index)
                return Deleted(path)

    def _decide_create(
        self, operation: CreateNode, index: int, session_id: int, now_ms: int
    ) -> Created:
        path = operation.path
        parent = self._nodes.get(parent_of(path))
        if parent is None:
            raise NoNode(path, index)
        if parent.owner != PERSISTENT_OWNER:
            raise RequestRefused(path, index, reason="ephemeral nodes have no children")
        if operation.kind is NodeKind.SEQUENTIAL:
            path = f"{path}{parent.created_count:010d}"
        if path in self._nodes:
            raise NodeExists(path, index)
        owner = session_id if operation.kind is NodeKind.EPHEMERAL else PERSISTENT_OWNER
        return Created(path, operation.data, owner, now_ms)

    def _result(self, operation: Operation, change: Change | None) -> OperationResult:
        path = operation.path if change is None else change.path
        stat = self._nodes[path].stat if isinstance(change, DataChanged) else None
        return OperationResult(path, stat)

    def _apply(self, change: Change, zxid: int) -> None:
        path = change.path
        if isinstance(change, DataChanged):
            node = self._nodes[path]
            node.data, node.mzxid = change.data, zxid
            node.version += 1
            return
        parent, name = self._nodes[parent_of(path)], path.rpartition("/")[2]
        parent.pzxid = zxid
        if isinstance(change, Created):
            self._nodes[path] = Znode(change.data, zxid, zxid, zxid, change.owner, change.ctime_ms)
            parent.children[name] = None
            parent.created_count += 1
        else:
            del self._nodes[path]
            del parent.children[name]

    def _save(self, path: str, saved: dict[str, Znode | None]) -> None:
        """Keep what a change is going to touch as it was before the first one."""
        for touched in (path, parent_of(path)):
            if touched not in saved:
                node = self._nodes.get(touched)
                saved[touched] = node and replace(node, children=dict(node.children))

    def _restore(self, saved: dict[str, Znode | None]) -> None:
        for path, node in saved.items():
            if node is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = node


def triggers(change: Change) -> Iterable[Watched]:
    """What has to be heard of by those who watch it."""
    yield Watched(Aspect.DATA, change.path)
    if isinstance(change, DataChanged):
        return
    if isinstance(change, Deleted):
        yield Watched(Aspect.CHILDREN, change.path)
    yield Watched(Aspect.CHILDREN, parent_of(change.path))
