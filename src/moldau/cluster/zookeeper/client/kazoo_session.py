"""The port to ZooKeeper, with kazoo behind it.

kazoo does what belongs to the wire: it encodes, connects to one server after another, pings, and
opens a session. It has a thread for its connection. Everything that this thread has to tell
(results, watches, states) goes through `_post` to the event loop, in order.

What kazoo offers beyond that is not used. Its recipes act in threads and do not stop when a
session is lost; its retries would repeat a write whose outcome is unknown. Three habits of it are
corrected:

* It opens a new session when one has expired, and would send waiting requests there. A session
  ends here under a lock, in kazoo's thread, so that no request can get into the next one.
* It blocks its caller when some 280 requests are queued, because it writes a byte into a socket
  pair for each. At most `IN_FLIGHT_MAX` are handed to it; the others wait here.
* It forgets all watches when the connection is lost, and calls each of them once. The port allows
  that; so does the order, because watches are called before anything of the next connection.

Nothing else may import this module before a broker is known to use ZooKeeper: kazoo is optional.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
import logging
import ssl
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVarTuple

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState
from kazoo.protocol.states import ZnodeStat

from moldau.cluster.in_turns import sorted_in_turns
from moldau.cluster.zookeeper.client.connect_string import ConnectString
from moldau.cluster.zookeeper.client.kazoo_handler import InOrderHandler
from moldau.cluster.zookeeper.client.kazoo_logging import KazooLogger
from moldau.cluster.zookeeper.client.port import (
    MAX_REQUEST_BYTES,
    BadVersion,
    CheckVersion,
    ConnectionTimedOut,
    CreateNode,
    DeleteNode,
    Node,
    NodeExists,
    NodeKind,
    NodeStat,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    RequestRefused,
    SessionExpired,
    SessionState,
    SetData,
    StateListener,
    UnknownOutcome,
    Watch,
    ZooKeeperError,
    ZooKeeperSession,
)

Ts = TypeVarTuple("Ts")

IN_FLIGHT_MAX: Final = 64
"""Enough to keep a server busy, and far from the number at which kazoo blocks its caller."""

RECONNECT_DELAY_MAX_S: Final = 1.0
"""kazoo's own limit is an hour: far too long after a long outage."""

_ANY_VERSION: Final = -1

CLOSE_WAIT_S: Final = 10.0
"""How long a close waits for the servers. What is left behind then ends by itself."""

_LOST = (kazoo_errors.ConnectionLoss, kazoo_errors.SessionMovedError)
"""The connection ended before the answer; the next one follows."""

_UNKNOWN = (*_LOST, kazoo_errors.OperationTimeoutError, kazoo_errors.RequestTimeoutError)
"""No server has said what came of the request."""

_TOO_OLD: Final = "the server is too old for this request; ZooKeeper 3.4 or newer is needed"
"""Multis came with 3.4, and every write is one."""

_FORBIDDEN: Final = "the access list of the node does not allow it (setAcl in ZooKeeper's shell)"

_NODE_ERRORS = {
    kazoo_errors.NoNodeError: NoNode,
    kazoo_errors.NodeExistsError: NodeExists,
    kazoo_errors.BadVersionError: BadVersion,
    kazoo_errors.NotEmptyError: NotEmpty,
}

_NOT_THE_CAUSE = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""How ZooKeeper answers the operations before and behind the one that failed in a multi."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """How an ensemble is reached; the names are those of Kafka's settings."""

    connect: ConnectString
    session_timeout_s: float = 18.0
    """`zookeeper.session.timeout.ms`. A server may grant another one."""
    connection_timeout_s: float | None = None
    """`zookeeper.connection.timeout.ms`; None is the session's."""
    max_request_bytes: int = MAX_REQUEST_BYTES
    """`jute.maxbuffer` of the servers."""
    tls: ssl.SSLContext | None = None
    """`zookeeper.ssl.client.enable` and what belongs to it; None for a plain connection."""


class KazooZooKeeper:
    """The `ZooKeeper` of a process that talks to a real ensemble."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings

    async def open_session(self, on_state: StateListener) -> KazooSession:
        session = KazooSession(self._settings, on_state)
        await session.start()
        return session


class _Request:
    """One call of kazoo, and the caller that waits for it."""

    __slots__ = ("answer", "is_write", "number", "send")

    def __init__(
        self, number: int, send: Callable[[], Any], answer: asyncio.Future[Any], *, is_write: bool
    ) -> None:
        self.number = number
        """Requests are sent in this order, also those that are sent again."""
        self.send = send
        """Hands it to kazoo and returns kazoo's result, which is filled in later."""
        self.answer = answer
        self.is_write = is_write


class KazooSession(ZooKeeperSession):
    """One session; `start` opens it."""

    def __init__(self, settings: ZooKeeperSettings, on_state: StateListener) -> None:
        super().__init__(settings.connect.chroot, settings.max_request_bytes)
        self._settings = settings
        self._on_state = on_state
        self._loop = asyncio.get_running_loop()
        self._state = SessionState.SUSPENDED
        self._session_id = 0
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._numbers = itertools.count()
        self._waiting: deque[_Request] = deque()
        self._in_flight: set[_Request] = set()
        self._may_send = False
        """Whether there is a connection, as far as the event loop has heard."""
        self._lock = threading.RLock()
        """Held while a request is handed to kazoo, and while kazoo's thread tells something."""
        self._is_over = False
        """Guarded by the lock: nothing may be handed to kazoo any more."""
        self._client_end = threading.Thread(target=self._end_client, daemon=True)
        self._handler = InOrderHandler(settings.tls)
        self._client = KazooClient(
            # A list cannot be mistaken for something with a chroot, which is added here.
            hosts=[_server_text(*server) for server in settings.connect.servers],
            timeout=settings.session_timeout_s,
            handler=self._handler,
            connection_retry={"max_tries": -1, "max_delay": RECONNECT_DELAY_MAX_S},
            logger=KazooLogger(_log),
        )
        self._client.add_listener(self._hear_state)

    async def start(self) -> None:
        """Open the session, and create its chroot if that is missing."""
        settings = self._settings
        timeout_s = settings.connection_timeout_s or settings.session_timeout_s
        self._client.start_async()
        try:
            async with asyncio.timeout(timeout_s):
                await self._opened
                await self._create_chroot()
        except TimeoutError:
            self._stop_using()
            servers = ",".join(_server_text(*server) for server in settings.connect.servers)
            reason = f": {self._handler.tls_failure}" if self._handler.tls_failure else ""
            raise ConnectionTimedOut(
                f"no session with ZooKeeper at {servers} within {timeout_s:g} s{reason}"
            ) from None
        except BaseException:
            self._stop_using()
            raise

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    # Reading

    async def read(self, path: str, watch: Watch | None = None) -> Node:
        full_path, watcher = self._full_path(path), self._watcher(watch)
        data, stat = await self._read(path, lambda: self._client.get_async(full_path, watcher))
        return Node(data or b"", _stat(stat))

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        full_path, watcher = self._full_path(path), self._watcher(watch)
        stat = await self._read(path, lambda: self._client.exists_async(full_path, watcher))
        return None if stat is None else _stat(stat)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        full_path, watcher = self._full_path(path), self._watcher(watch)
        send = lambda: self._client.get_children_async(full_path, watcher)  # noqa: E731
        return await sorted_in_turns(await self._read(path, send))

    async def sync(self) -> None:
        full_path = self._full_path("/")
        await self._read("/", lambda: self._client.sync_async(full_path))

    async def _read(self, path: str, send: Callable[[], Any]) -> Any:
        try:
            return await self._ask(send, is_write=False)
        except _LOST:
            # Reads are repeated on the next connection, unless there will be none.
            raise SessionExpired("the session is over") from None
        except kazoo_errors.KazooException as error:
            raise _translated(error, path) from error

    # Writing

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        self._check_size(operations)
        if not operations:
            return []
        transaction = self._client.transaction()
        for operation in operations:
            _add(transaction, operation, self._full_path(operation.path))
        try:
            answers = await self._ask(transaction.commit_async, is_write=True)
        except kazoo_errors.KazooException as error:
            raise _translated(error, operations[0].path) from error
        for index, (operation, answer) in enumerate(zip(operations, answers, strict=True)):
            if isinstance(answer, Exception) and not isinstance(answer, _NOT_THE_CAUSE):
                raise _translated(answer, operation.path, index)
        return [
            self._result(operation, answer)
            for operation, answer in zip(operations, answers, strict=True)
        ]

    def _result(self, operation: Operation, answer: object) -> OperationResult:
        match operation:
            case CreateNode():
                assert isinstance(answer, str)
                return OperationResult(self._own_path(answer))
            case SetData():
                return OperationResult(operation.path, _stat(answer))
            case _:
                return OperationResult(operation.path)

    # Requests, on the event loop

    async def _ask(self, send: Callable[[], Any], *, is_write: bool) -> Any:
        if self._state is SessionState.EXPIRED:
            raise SessionExpired("the session is over")
        answer = self._loop.create_future()
        self._waiting.append(_Request(next(self._numbers), send, answer, is_write=is_write))
        self._send_waiting()
        return await answer

    def _send_waiting(self) -> None:
        """Hand waiting requests to kazoo, as many as it may have."""
        while self._waiting and self._may_send and len(self._in_flight) < IN_FLIGHT_MAX:
            request = self._waiting.popleft()
            if not request.answer.done():
                self._send(request)

    def _send(self, request: _Request) -> None:
        with self._lock:
            if self._is_over:
                # The event loop will hear of that in a moment, and refuse what waits.
                self._may_send = False
                self._waiting.appendleft(request)
                return
            self._in_flight.add(request)
            # Under the lock, so that nothing that comes behind the answer is told before it.
            request.send().rawlink(
                lambda done: self._post(self._take_answer, request, done.value, done.exception)
            )

    def _take_answer(self, request: _Request, value: Any, error: Exception | None) -> None:
        if request not in self._in_flight:
            return
        self._in_flight.remove(request)
        if isinstance(error, _LOST):
            self._may_send = False
            if not request.is_write and not self._is_over:
                bisect.insort(self._waiting, request, key=lambda one: one.number)
                return
        if not request.answer.done():
            if error is None:
                request.answer.set_result(value)
            else:
                request.answer.set_exception(error)
        self._send_waiting()

    # What kazoo tells, in the thread of its connection

    def _watcher(self, watch: Watch | None) -> Callable[[object], None] | None:
        return None if watch is None else lambda _: self._post(self._fire, watch)

    def _hear_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._post(self._connected, self._client.client_id[0])
        elif state == KazooState.SUSPENDED:
            self._post(self._change_state, SessionState.SUSPENDED)
        elif self._end():
            self._post(self._expired)

    def _end(self) -> bool:
        """Let nothing be sent any more and end kazoo's client; False if it was done already."""
        with self._lock:
            if self._is_over:
                return False
            self._is_over = True
            self._client_end.start()
            return True

    def _end_client(self) -> None:
        """End kazoo's client, in a thread of its own: it waits for the thread of its connection."""
        try:
            self._client.stop()
            self._client.close()
        except Exception:  # noqa: BLE001 - nobody waits for this thread
            _log.exception("kazoo's client did not end")

    def _post(self, callback: Callable[[*Ts], None], *args: *Ts) -> None:
        """Call back on the event loop, in order; a loop that is closed needs to hear nothing."""
        with self._lock, contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    # What kazoo told, on the event loop

    def _fire(self, watch: Watch) -> None:
        if self._state is not SessionState.EXPIRED:
            watch()

    def _connected(self, session_id: int) -> None:
        if self._state is SessionState.EXPIRED:
            return
        self._session_id = session_id
        self._may_send = True
        if self._opened.done():
            self._change_state(SessionState.CONNECTED)
        else:
            self._state = SessionState.CONNECTED
            self._opened.set_result(None)
        self._send_waiting()

    def _change_state(self, state: SessionState) -> None:
        if self._state is not SessionState.EXPIRED and self._state is not state:
            self._state = state
            self._may_send = state is SessionState.CONNECTED
            if self._opened.done():
                self._on_state(state)

    def _expired(self) -> None:
        self._change_state(SessionState.EXPIRED)
        self._refuse_waiting()
        if not self._opened.done():
            self._opened.set_exception(SessionExpired("ZooKeeper refused the session"))

    def _refuse_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if not request.answer.done():
                request.answer.set_exception(SessionExpired("the session is over"))

    def _stop_using(self) -> None:
        self._state = SessionState.EXPIRED
        self._may_send = False
        self._refuse_waiting()
        self._end()

    async def close(self) -> None:
        self._stop_using()
        await asyncio.to_thread(self._client_end.join, CLOSE_WAIT_S)


def _server_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _add(transaction: Any, operation: Operation, path: str) -> None:
    match operation:
        case CheckVersion():
            transaction.check(path, operation.version)
        case CreateNode():
            transaction.create(
                path,
                operation.data,
                ephemeral=operation.kind is NodeKind.EPHEMERAL,
                sequence=operation.kind is NodeKind.SEQUENTIAL,
            )
        case SetData():
            transaction.set_data(path, operation.data, _version(operation.version))
        case DeleteNode():
            transaction.delete(path, _version(operation.version))


def _version(version: int | None) -> int:
    return _ANY_VERSION if version is None else version


def _stat(stat: ZnodeStat) -> NodeStat:
    return NodeStat(
        czxid=stat.czxid,
        mzxid=stat.mzxid,
        version=stat.version,
        ephemeral_owner=stat.ephemeralOwner or 0,
        ctime_ms=stat.ctime,
    )


def _translated(error: Exception, path: str, index: int = 0) -> ZooKeeperError:
    """Say in the port's words what kazoo raised."""
    if isinstance(error, _UNKNOWN):
        return UnknownOutcome(f"{path}: the connection was lost while a write was under way")
    if isinstance(error, kazoo_errors.SessionExpiredError):
        return SessionExpired("the session is over")
    known = _NODE_ERRORS.get(type(error))
    if known is not None:
        return known(path, index)
    if isinstance(error, kazoo_errors.UnimplementedError):
        return RequestRefused(path, index, reason=_TOO_OLD)
    if isinstance(error, kazoo_errors.NoAuthError):
        return RequestRefused(path, index, reason=_FORBIDDEN)
    return RequestRefused(path, index, reason=type(error).__name__)
