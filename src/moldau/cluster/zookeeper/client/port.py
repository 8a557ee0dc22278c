"""The port to ZooKeeper: sessions, and what the controller and the brokers do in them.

It is small on purpose: versioned nodes, multi, one-shot watches and the state of the session. There
are no locks, elections or caches. Whoever needs those builds them on top, where they can be tested
without threads. It lies in `cluster/` and not in `base/`, because only the metadata of a cluster is
kept in ZooKeeper; no other floor uses it.

All implementations promise the following, which `tests/contract/test_zookeeper_*.py` check:

* **Writes** are conditional where the caller names a version. A multi is all or nothing. Requests
  of one session are carried out in the order in which they were called. Those that are called while
  the connection is lost wait for it, and so do reads that were under way; they are not lost.
* **A lost connection** (SUSPENDED) makes the outcome of writes under way unknown: `UnknownOutcome`.
  Nothing is sent a second time. Once connected again, `sync` and a read tell the outcome.
* **An expired session** is over for good. Its ephemeral nodes are gone and its watches never fire.
  All calls raise `SessionExpired`, which also says that this call wrote nothing. A new session is a
  new life: open one, register again, read everything again.
* **A session notices its expiry only from the servers.** While no server can be reached it stays
  SUSPENDED, although the others may see it expired already. So who must stop acting in time has to
  do so when it is suspended, and to fence each write by a version.
* **A watch** is called once, on the event loop, after the first change of what was read. It does
  not tell what happened: there may have been several changes, or none. Read again, with a new
  watch. In particular it may be called when the connection is lost, because changes can pass
  unnoticed then. Java's client keeps watches over a reconnection, kazoo does not.
* **Order.** Results, watches and states reach the event loop in the order in which the servers sent
  them. A watch is called before the result of any read or write that is newer than the change. So a
  caller whose watch was not called has the newest state that this session could have seen.
* **Reads may be stale**: a server may lag behind. A session never goes back in time, and sees its
  own writes. `sync` before a read makes it as new as everything committed when `sync` was called.

Paths are absolute and below the chroot of the session, which callers never see.
"""

from __future__ import annotations

import contextlib
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from moldau.base.errors import MoldauError

MAX_REQUEST_BYTES: Final = 0xFFFFF
"""ZooKeeper's default of `jute.maxbuffer`: a larger request makes a server close the connection."""

PERSISTENT_OWNER: Final = 0
"""The owner of nodes that are not ephemeral."""

_REQUEST_BYTES: Final = 17
"""Of every multi: the header of the request, and the mark of its end."""
_OPERATION_BYTES: Final = 13
"""Of every operation in a multi: its header, and the length of its path."""
_VERSION_BYTES: Final = 4
_LENGTH_BYTES: Final = 4
_CREATE_BYTES: Final = 31
"""The access control list of a node that everybody may use, and the flags."""


class SessionState(enum.Enum):
    """What a session knows of itself."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    """The connection is lost. The session may go on, or be over already."""
    EXPIRED = "expired"
    """Over for good: it expired, or its owner closed it."""


class NodeKind(enum.Enum):
    """How long a node lives, and who names it."""

    PERSISTENT = "persistent"
    EPHEMERAL = "ephemeral"
    """Deleted with the session that created it."""
    SEQUENTIAL = "sequential"
    """Persistent. ZooKeeper appends ten digits that grow with every child of its parent."""


# Errors


class ZooKeeperError(MoldauError):
    """The root of what this port raises."""


class NodeError(ZooKeeperError):
    """ZooKeeper refused a request because of a node; nothing was written."""

    reason = "refused"

    def __init__(self, path: str, operation_index: int = 0) -> None:
        super().__init__(f"{path}: {self.reason}")
        self.path = path
        self.operation_index = operation_index
        """Which operation of a multi failed."""


class NoNode(NodeError):  # noqa: N818 - ZooKeeper's name of it
    """The node does not exist; for a create, its parent."""

    reason = "no such node"


class NodeExists(NodeError):  # noqa: N818 - ZooKeeper's name of it
    """The node to be created is there already."""

    reason = "the node exists"


class BadVersion(NodeError):  # noqa: N818 - ZooKeeper's name of it
    """The node has another version than the request names."""

    reason = "another version"


class NotEmpty(NodeError):  # noqa: N818 - ZooKeeper's name of it
    """The node to be deleted has children."""

    reason = "the node has children"


class RequestRefused(NodeError):  # noqa: N818 - it names the event
    """Refused for a reason that no caller can handle, such as missing permissions."""

    def __init__(self, path: str, operation_index: int = 0, *, reason: str) -> None:
        self.reason = reason
        super().__init__(path, operation_index)


class UnknownOutcome(ZooKeeperError):  # noqa: N818 - it names the state
    """The connection was lost while this write was under way: it may have happened or not."""


class SessionExpired(ZooKeeperError):  # noqa: N818 - it names the event
    """The session is over; this call wrote nothing."""


class ConnectionTimedOut(ZooKeeperError):  # noqa: N818 - it names the event
    """No session could be opened within the time for it."""


class RequestTooLarge(ZooKeeperError):  # noqa: N818 - it names the event
    """The servers would not take a request of this size; nothing was sent."""

    def __init__(self, size: int, size_max: int) -> None:
        super().__init__(f"a multi of {size} bytes, but at most {size_max} are taken")


# What nodes hold, and what is written


@dataclass(frozen=True, slots=True)
class NodeStat:
    """What ZooKeeper keeps beside the data of a node."""

    czxid: int
    """The transaction that created it: larger for each node that was created later."""
    mzxid: int
    """The transaction that last set its data."""
    version: int
    """How often its data was set since it was created."""
    ephemeral_owner: int
    """The id of the session that it ends with, or `PERSISTENT_OWNER`."""
    ctime_ms: int
    """When it was created, by the clock of a server."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was read. No data, which ZooKeeper calls null, is read as empty."""

    data: bytes
    stat: NodeStat


@dataclass(frozen=True, slots=True)
class CheckVersion:
    """Let the multi fail unless a node has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Create a node; its parent must exist, and must not be ephemeral."""

    path: str
    data: bytes = b""
    kind: NodeKind = NodeKind.PERSISTENT


@dataclass(frozen=True, slots=True)
class SetData:
    """Set the data of a node, if it has this version; None is any."""

    path: str
    data: bytes
    version: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a node without children, if it has this version; None is any."""

    path: str
    version: int | None = None


Operation = CheckVersion | CreateNode | SetData | DeleteNode


@dataclass(frozen=True, slots=True)
class OperationResult:
    """What came of one operation of a multi."""

    path: str
    """The path of the node. A sequential one has its digits."""
    stat: NodeStat | None = None
    """Of a node whose data was set. ZooKeeper returns none for other operations: to learn the czxid
    of a new node, create it and set its data in one multi, as Kafka does."""


Watch = Callable[[], None]
"""Called once, after something changed, or may have."""

StateListener = Callable[[SessionState], None]


class ZooKeeperSession(ABC):
    """One session with an ensemble, from its opening to its end. All of it on the event loop."""

    def __init__(self, chroot: str, max_request_bytes: int) -> None:
        self._chroot = chroot
        self._max_request_bytes = max_request_bytes

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The id by which ephemeral nodes name their owner; never 0."""

    @property
    @abstractmethod
    def state(self) -> SessionState:
        """The state that was told last."""

    @abstractmethod
    async def read(self, path: str, watch: Watch | None = None) -> Node:
        """Read a node. The watch is for its data and its deletion; none is left after NoNode."""

    @abstractmethod
    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        """Look for a node. The watch is for its creation, its data and its deletion."""

    @abstractmethod
    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Name the children of a node, sorted.

        The watch is for children that come or go, not for their data, and for the node's deletion.
        """

    @abstractmethod
    async def sync(self) -> None:
        """Let reads that are called from now on see all that is committed now."""

    @abstractmethod
    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """Do all of these operations, in order, or none of them.

        Raises the error of the first operation that cannot be done. A caller that is cancelled
        does not know the outcome. Encoding happens on the event loop, at about ten microseconds an
        operation: send a few hundred at once, not thousands.
        """

    @abstractmethod
    async def close(self) -> None:
        """End the session and delete its ephemeral nodes; may be called twice.

        While suspended nobody can be told. Then ZooKeeper expires the session by its time-out.
        """

    # What follows from the above

    async def create(
        self, path: str, data: bytes = b"", kind: NodeKind = NodeKind.PERSISTENT
    ) -> str:
        """Create a node and return its path."""
        return (await self.multi([CreateNode(path, data, kind)]))[0].path

    async def set_data(self, path: str, data: bytes, version: int | None = None) -> NodeStat:
        """Set the data of a node, if it has this version."""
        stat = (await self.multi([SetData(path, data, version)]))[0].stat
        assert stat is not None
        return stat

    async def delete(self, path: str, version: int | None = None) -> None:
        """Delete a node without children, if it has this version."""
        await self.multi([DeleteNode(path, version)])

    @property
    def max_multi_bytes(self) -> int:
        """The limit to the sum of `operation_bytes` over one multi."""
        return self._max_request_bytes - _REQUEST_BYTES

    def operation_bytes(self, operation: Operation) -> int:
        """The bytes that an operation adds to a multi, for callers that divide a large one."""
        size = _OPERATION_BYTES + len(self._full_path(operation.path).encode())
        match operation:
            case CreateNode():
                return size + _LENGTH_BYTES + len(operation.data) + _CREATE_BYTES
            case SetData():
                return size + _LENGTH_BYTES + len(operation.data) + _VERSION_BYTES
            case CheckVersion() | DeleteNode():
                return size + _VERSION_BYTES

    def _check_size(self, operations: Sequence[Operation]) -> None:
        size = sum(map(self.operation_bytes, operations))
        if size > self.max_multi_bytes:
            raise RequestTooLarge(size, self.max_multi_bytes)

    async def _create_chroot(self) -> None:
        """Create the nodes of the chroot that are missing, before the session is given away."""
        chroot, self._chroot = self._chroot, ""
        names = chroot.split("/")[1:]
        for depth in range(1, len(names) + 1):
            path = "/" + "/".join(names[:depth])
            # Who may not create nodes has to find them, so look first.
            while await self.exists(path) is None:
                with contextlib.suppress(NodeExists, UnknownOutcome):
                    await self.create(path)
        self._chroot = chroot

    def _full_path(self, path: str) -> str:
        """The path of a node as the servers name it."""
        return self._chroot + path if path != "/" else self._chroot or "/"

    def _own_path(self, full_path: str) -> str:
        """The path of a node as callers name it."""
        return full_path[len(self._chroot) :] or "/"


class ZooKeeper(Protocol):
    """An ensemble, as one process reaches it."""

    async def open_session(self, on_state: StateListener) -> ZooKeeperSession:
        """Open a session; it is CONNECTED, and its chroot exists.

        `on_state` is called with every later state, up to and including EXPIRED. It is not called
        for a `close` of the owner. ConnectionTimedOut if no server answers in time.
        """
        ...
