"""A connection to ZooKeeper for one command: blocking calls, bounded in time.

The brokers' port (`moldau.cluster.zookeeper.client`) serves other needs: it creates a chroot that
is missing, and leaves out most of what ZooKeeper tells of a node. kazoo is optional, so it is
imported only when a connection is opened.

What ZooKeeper refuses is told in the words of its own command line.
"""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from moldau.base.errors import UserError
from moldau.cluster.zookeeper.client.connect_string import parse_connect_string

CONNECT_TIMEOUT_S: Final = 10.0
SESSION_TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 30.0
RECONNECT_DELAY_MAX_S: Final = 1.0
ANY_VERSION: Final = -1

_TEXTS: Final = {
    "NoNodeError": "Node does not exist: ",
    "NoChildrenForEphemeralsError": "Ephemerals cannot have children: ",
    "NodeExistsError": "Node already exists: ",
    "NotEmptyError": "Node not empty: ",
    "NotReadOnlyCallError": "Not a read-only call: ",
    "InvalidACLError": "Acl is not valid : ",
    "NoAuthError": "Insufficient permission : ",
    "BadArgumentsError": "Arguments are not valid : ",
    "BadVersionError": "version No is not valid : ",
}
"""ZooKeeper's own words, by kazoo's names of the errors."""


class NodeRefused(UserError):  # noqa: N818 - it names the event
    """ZooKeeper refused a request because of a node."""


class NodeMissing(NodeRefused):
    """The node does not exist; for a create, its parent."""


class NodeStatus(NamedTuple):
    """All that ZooKeeper tells of a node, in the order in which kazoo has it."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    child_version: int
    acl_version: int
    ephemeral_owner: int
    data_length: int
    child_count: int
    pzxid: int


class ZooKeeperConnection:
    """An open connection; also a context manager that closes it."""

    def __init__(self, client: Any, error_type: type[Exception]) -> None:
        self._client = client
        self._error_type = error_type

    @property
    def is_connected(self) -> bool:
        """Whether a server can be reached now."""
        return bool(self._client.connected)

    def read(self, path: str) -> tuple[bytes | None, NodeStatus]:
        """Return the data of a node, which may be none, and its status."""
        data, status = self._answer(path, self._client.get_async(path))
        return data, NodeStatus(*status)

    def status(self, path: str) -> NodeStatus:
        """Return the status of a node."""
        status = self._answer(path, self._client.exists_async(path))
        if status is None:
            raise NodeMissing(_TEXTS["NoNodeError"] + path)
        return NodeStatus(*status)

    def children(self, path: str) -> tuple[list[str], NodeStatus]:
        """Return the names of a node's children, sorted, and its status."""
        names, status = self._answer(path, self._client.get_children_async(path, include_data=True))
        return sorted(names), NodeStatus(*status)

    def create(
        self, path: str, data: bytes | None, *, is_ephemeral: bool, is_sequential: bool
    ) -> str:
        """Create a node and return its path."""
        created: str = self._answer(
            path,
            self._client.create_async(path, data, ephemeral=is_ephemeral, sequence=is_sequential),
        )
        return created

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> NodeStatus:
        """Set the data of a node, if it has this version."""
        return NodeStatus(*self._answer(path, self._client.set_async(path, data, version)))

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node without children, if it has this version."""
        self._answer(path, self._client.delete_async(path, version))

    def _answer(self, path: str, pending: Any) -> Any:
        try:
            return pending.get(timeout=ANSWER_TIMEOUT_S)
        except self._client.handler.timeout_exception:
            raise UserError(f"no answer from ZooKeeper within {ANSWER_TIMEOUT_S:g} s") from None
        except self._error_type as error:
            name = type(error).__name__
            if name == "NoNodeError":
                raise NodeMissing(_TEXTS[name] + path) from None
            code = name.removesuffix("Error")
            raise NodeRefused(_TEXTS.get(name, f"KeeperErrorCode = {code} for ") + path) from None

    def close(self) -> None:
        """End the session; its ephemeral nodes go with it."""
        self._client.stop()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def require_kazoo() -> None:
    """Raise UserError, which says how to install it, if kazoo is missing."""
    try:
        import kazoo.client  # noqa: F401, PLC0415 - optional
    except ImportError as error:
        raise UserError(
            "kazoo, which connects to ZooKeeper, is not installed: pip install 'moldau[zookeeper]'"
        ) from error


def check_servers(connect: str) -> None:
    """Raise UserError unless this is written as `host:port,host:port/chroot`."""
    parse_connect_string(connect)


def connect_to(
    connect: str,
    *,
    connect_timeout_s: float = CONNECT_TIMEOUT_S,
    session_timeout_s: float = SESSION_TIMEOUT_S,
) -> ZooKeeperConnection:
    """Connect to `host:port,host:port/chroot`; UserError if that fails or kazoo is missing."""
    check_servers(connect)
    require_kazoo()
    from kazoo.client import KazooClient  # noqa: PLC0415 - optional
    from kazoo.exceptions import KazooException  # noqa: PLC0415 - optional

    # It would warn of each try to connect. What counts is told once, by the exception.
    silent = logging.getLogger(f"{__name__}.kazoo")
    silent.disabled = True
    client = KazooClient(
        connect.strip(),
        timeout=session_timeout_s,
        connection_retry={"max_tries": -1, "max_delay": RECONNECT_DELAY_MAX_S},
        logger=silent,
    )
    # Its blocking start would also look for the chroot, and warn if it is missing.
    client.start_async().wait(connect_timeout_s)
    if not client.connected:
        client.stop()
        client.close()
        raise UserError(
            f"no answer from ZooKeeper at {connect} within {connect_timeout_s:g} s"
        ) from None
    return ZooKeeperConnection(client, KazooException)
