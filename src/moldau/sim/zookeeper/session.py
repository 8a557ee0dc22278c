"""The port to ZooKeeper for one simulated process.

It does what a client library does: reconnects to any server, repeats reads, reports writes under
way as unknown. When a connection is lost it either calls all watches at once, as kazoo does, or
takes them along to the next server, as Java's client does. The seed draws which, so that no caller
can depend on one of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.base.checks import invariant
from moldau.cluster.zookeeper.client.port import (
    MAX_REQUEST_BYTES,
    ConnectionTimedOut,
    Node,
    NodeError,
    NodeStat,
    Operation,
    OperationResult,
    RequestRefused,
    SessionExpired,
    SessionState,
    StateListener,
    UnknownOutcome,
    Watch,
    ZooKeeperSession,
)
from moldau.sim.zookeeper.ensemble import Link, SimEnsemble
from moldau.sim.zookeeper.tree import Aspect, Watched

SESSION_TIMEOUT_S: Final = 18.0
PINGS_PER_TIMEOUT: Final = 4
SILENT_PINGS_MAX: Final = 2
"""A client gives a connection up before its session can have expired."""
RETRY_MEAN_S: Final = 0.5
"""Between two attempts to connect."""
WATCHES_KEPT_CHANCE: Final = 0.5


class SimZooKeeper:
    """The `ZooKeeper` of one simulated process."""

    def __init__(
        self,
        ensemble: SimEnsemble,
        name: str,
        *,
        chroot: str = "",
        session_timeout_s: float = SESSION_TIMEOUT_S,
        max_request_bytes: int = MAX_REQUEST_BYTES,
    ) -> None:
        self.ensemble = ensemble
        self.name = name
        self.chroot = chroot
        self.session_timeout_s = session_timeout_s
        self.max_request_bytes = max_request_bytes

    async def open_session(self, on_state: StateListener) -> SimZooKeeperSession:
        session = SimZooKeeperSession(self, on_state)
        await session.start()
        return session


@dataclass(eq=False, slots=True)
class _Request:
    """What a server does for a client, and the caller that waits for it."""

    execute: Callable[[Link], Any]
    answer: asyncio.Future[Any]
    is_write: bool = False
    watched: Watched | None = None
    watch: Watch | None = None


class SimZooKeeperSession(ZooKeeperSession):
    """One session; `start` opens it."""

    def __init__(self, zookeeper: SimZooKeeper, on_state: StateListener) -> None:
        super().__init__(zookeeper.chroot, zookeeper.max_request_bytes)
        self.name = zookeeper.name
        self._session_id = 0
        self.link: Link | None = None
        self._ensemble = zookeeper.ensemble
        self._timeout_s = zookeeper.session_timeout_s
        self._on_state = on_state
        self._loop = zookeeper.ensemble.loop
        self._process = contextvars.copy_context()
        self._state = SessionState.SUSPENDED
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._waiting: deque[_Request] = deque()
        self._in_flight: deque[_Request] = deque()
        self._watches: dict[Watched, list[Watch]] = {}
        self._existed: dict[Watched, bool] = {}
        """Whether what is watched was there when it was read."""
        self._last_zxid = 0
        self._silent_pings = 0
        """Pings that were sent since something was heard."""
        self._disconnected = asyncio.Event()

    async def start(self) -> None:
        """Open the session, and create its chroot if that is missing."""
        self._connect()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._opened
                await self._create_chroot()
        except BaseException as error:
            self._stop_using()
            if isinstance(error, TimeoutError):
                text = f"no session with ZooKeeper within {self._timeout_s:g} s"
                raise ConnectionTimedOut(text) from None
            raise

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    # Requests

    async def read(self, path: str, watch: Watch | None = None) -> Node:
        watched = Watched(Aspect.DATA, self._full_path(path))

        def execute(link: Link) -> Node:
            node = link.server.tree.get(watched.path)
            return Node(node.data, node.stat)

        node: Node = await self._ask(execute, watched, watch)
        return node

    async def exists(self, path: str, watch: Watch | None = None) -> NodeStat | None:
        watched = Watched(Aspect.DATA, self._full_path(path))

        def execute(link: Link) -> NodeStat | None:
            node = link.server.tree.find(watched.path)
            return None if node is None else node.stat

        stat: NodeStat | None = await self._ask(execute, watched, watch)
        return stat

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        watched = Watched(Aspect.CHILDREN, self._full_path(path))

        def execute(link: Link) -> list[str]:
            return sorted(link.server.tree.get(watched.path).children)

        names: list[str] = await self._ask(execute, watched, watch)
        return names

    async def sync(self) -> None:
        await self._ask(lambda link: link.server.catch_up())

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        self._check_size(operations)
        if not operations:
            return []
        full = [self._on_servers(operation) for operation in operations]
        results: list[OperationResult] = await self._ask(
            lambda link: self._ensemble.write(link, full), is_write=True
        )
        return [OperationResult(self._own_path(one.path), one.stat) for one in results]

    def _on_servers(self, operation: Operation) -> Operation:
        return replace(operation, path=self._full_path(operation.path))

    async def _ask(
        self,
        execute: Callable[[Link], Any],
        watched: Watched | None = None,
        watch: Watch | None = None,
        *,
        is_write: bool = False,
    ) -> Any:
        if self._state is SessionState.EXPIRED:
            raise SessionExpired("the session is over")
        answer = self._loop.create_future()
        watched = None if watch is None else watched
        self._waiting.append(_Request(execute, answer, is_write, watched, watch))
        self._send_waiting()
        return await answer

    def _send_waiting(self) -> None:
        while self._waiting and self.link is not None:
            request = self._waiting.popleft()
            if not request.answer.done():
                self._in_flight.append(request)
                self.link.up.send(functools.partial(self._serve, self.link, request))

    # What servers do when a message of this client arrives

    def _serve(self, link: Link, request: _Request) -> None:
        if not self._ensemble.is_current(link):
            return
        value, error = None, None
        try:
            value = request.execute(link)
        except NodeError as raised:
            error = raised
        if not link.is_open:
            return
        if request.watched is not None and error is None:
            link.watched[request.watched] = None
        zxid = link.server.tree.zxid
        link.down.send(functools.partial(self._hear_answer, link, request, value, error, zxid))

    def _serve_ping(self, link: Link) -> None:
        if self._ensemble.is_current(link) and link.is_open:
            link.down.send(functools.partial(self._hear, link))

    def _serve_close(self, link: Link) -> None:
        if self._ensemble.is_current(link) and link.is_open:
            self._ensemble.close_session(link)

    # What this client hears

    def _hear(self, link: Link, zxid: int = 0) -> bool:
        """Note that a server is there; False if it is one of an earlier connection."""
        if link is not self.link:
            return False
        self._silent_pings = 0
        self._last_zxid = max(self._last_zxid, zxid)
        return True

    def _hear_answer(
        self, link: Link, request: _Request, value: Any, error: NodeError | None, zxid: int
    ) -> None:
        if not self._hear(link, zxid):
            return
        answered = self._in_flight.popleft()
        invariant(answered is request, "answers came out of order")
        if request.watched is not None and request.watch is not None and error is None:
            self._watches.setdefault(request.watched, []).append(request.watch)
            self._existed[request.watched] = value is not None
        if request.answer.done():
            return
        if error is None:
            request.answer.set_result(value)
        else:
            request.answer.set_exception(self._own_error(error))

    def hear_change(self, link: Link, watched: Watched, zxid: int) -> None:
        """Call the watches of something that has changed."""
        if self._hear(link, zxid):
            self._existed.pop(watched, None)
            for watch in self._watches.pop(watched, []):
                watch()

    def hear_connected(self, link: Link, session_id: int) -> None:
        """Go on with a new connection."""
        if self._state is SessionState.EXPIRED:
            return
        if self.link is not None:
            self._lose_connection()
        self.link, self._session_id = link, session_id
        self._hear(link)
        if self._existed:
            kept, zxid = dict(self._existed), self._last_zxid
            link.up.send(lambda: self._ensemble.keep_watches(link, self, kept, zxid))
        if self._opened.done():
            self._change_state(SessionState.CONNECTED)
        else:
            self._state = SessionState.CONNECTED
            self._opened.set_result(None)
        self._ping_later(link)
        self._send_waiting()

    def hear_lost(self, link: Link) -> None:
        """Learn that a connection is over."""
        if link is self.link:
            self._lose_connection()

    def hear_expired(self) -> None:
        """End for good."""
        if self.link is not None:
            self._lose_connection()
        self._change_state(SessionState.EXPIRED)
        self._stop_using()

    # The connection

    def _connect(self) -> None:
        """Try to connect, until there is a connection or the session is over."""
        if self.link is not None or self._state is SessionState.EXPIRED:
            return
        ensemble = self._ensemble
        ensemble.call(
            lambda: ensemble.connect(self, self._process, self._timeout_s, self._last_zxid)
        )
        self._loop.call_later(
            RETRY_MEAN_S / 2 + self._loop.delay_s(RETRY_MEAN_S / 2), self._connect
        )

    def _ping_later(self, link: Link) -> None:
        self._loop.call_later(self._timeout_s / PINGS_PER_TIMEOUT, self._ping, link)

    def _ping(self, link: Link) -> None:
        if link is not self.link:
            return
        if self._silent_pings == SILENT_PINGS_MAX:
            self._lose_connection()
            return
        self._silent_pings += 1
        link.up.send(functools.partial(self._serve_ping, link))
        self._ping_later(link)

    def _lose_connection(self) -> None:
        self.link = None
        self._disconnected.set()
        self._change_state(SessionState.SUSPENDED)
        under_way, self._in_flight = self._in_flight, deque()
        for request in reversed(under_way):
            if not request.is_write and self._state is not SessionState.EXPIRED:
                self._waiting.appendleft(request)
            elif not request.answer.done():
                request.answer.set_exception(_lost(request))
        if self._ensemble.chance.random() >= WATCHES_KEPT_CHANCE:
            watches, self._watches = self._watches, {}
            self._existed.clear()
            for watch in [one for several in watches.values() for one in several]:
                watch()
        self._connect()

    # The session

    def _change_state(self, state: SessionState) -> None:
        if self._state is not SessionState.EXPIRED and self._state is not state:
            self._state = state
            if self._opened.done():
                self._on_state(state)

    def _stop_using(self) -> None:
        self._state = SessionState.EXPIRED
        self._watches.clear()
        self._existed.clear()
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            if not request.answer.done():
                request.answer.set_exception(SessionExpired("the session is over"))

    async def close(self) -> None:
        self._stop_using()
        if self.link is not None:
            self._disconnected.clear()
            self.link.up.send(functools.partial(self._serve_close, self.link))
            await self._disconnected.wait()

    def _own_error(self, error: NodeError) -> NodeError:
        """Name the node as this client does."""
        path, index = self._own_path(error.path), error.operation_index
        if isinstance(error, RequestRefused):
            return RequestRefused(path, index, reason=error.reason)
        return type(error)(path, index)


def _lost(request: _Request) -> Exception:
    if request.is_write:
        return UnknownOutcome("the connection was lost while a write was under way")
    return SessionExpired("the session is over")
