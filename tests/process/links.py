"""A network between the processes of a cluster that a test can cut: a TCP proxy per listener.

All who talk to a broker use its one advertised address, so a proxy cannot stand between two of them
only. Instead the proxy before a listener finds out who connects, from the client id of the first
request: brokers name themselves there (`broker-2-fetcher-0`), everybody else is a client. ZooKeeper
has no such name; there each broker is given a proxy of its own (`between`). Network
namespaces would do without that, but containers often forbid them, and every client of a test would
have to run inside one.

A cut holds the bytes of its direction back and leaves connections open, new ones too. After `heal`
they arrive, also those of a peer that has given up since, as TCP would send them again. `reset`
ends connections instead, and refuses new ones. `forget` lets those that are open fall silent for
ever, as behind a firewall that was restarted.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Final, NamedTuple, Self

CLIENTS: Final = "clients"
CONTROLLER: Final = "controller"
ZOOKEEPER: Final = "zookeeper"

_CHUNK: Final = 1 << 16
_CLOSING_TURNS: Final = 10
_CLIENT_ID_AT: Final = 12
"""Behind the size, the API key, its version and the correlation id."""
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: a close resets the connection."""
_CLOSE_TIMEOUT_S: Final = 10


def broker(broker_id: int) -> str:
    """Return the name by which a broker is cut off."""
    return f"broker-{broker_id}"


class Direction(NamedTuple):
    """Where bytes come from, and where they go."""

    sender: str
    receiver: str


class Connection:
    """One connection through a proxy: both halves, and who is at their ends."""

    def __init__(
        self,
        caller: str,
        receiver: str,
        from_caller: asyncio.StreamReader,
        to_caller: asyncio.StreamWriter,
        from_receiver: asyncio.StreamReader,
        to_receiver: asyncio.StreamWriter,
    ) -> None:
        self.peers = frozenset({caller, receiver})
        self.to_caller = to_caller
        self.to_receiver = to_receiver
        self.pumps = (
            (from_caller, to_receiver, Direction(caller, receiver)),
            (from_receiver, to_caller, Direction(receiver, caller)),
        )
        self.is_forgotten = False

    def abort(self) -> None:
        for writer in (self.to_caller, self.to_receiver):
            _abort(writer)


class Links:
    """The proxies of one cluster, in an event loop and a thread of their own; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links")
        self._thread.start()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._peers: set[str] = {CLIENTS}
        self._held: set[Direction] = set()
        """Directions in which nothing passes."""
        self._refused: set[frozenset[str]] = set()
        self._healed = asyncio.Event()
        """Set, and replaced, when directions are opened again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, act: Callable[[], Awaitable[int | None]]) -> int | None:
        """Run something in the loop's thread, and wait for it."""

        async def run() -> int | None:
            return await act()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_CLOSE_TIMEOUT_S)

    # What a test asks for

    def before(self, receiver: str, port: int) -> int:
        """Put a proxy before a listener; return the port by which others shall reach it."""
        return self._listen(None, receiver, port)

    def between(self, caller: str, receiver: str, port: int) -> int:
        """Put a proxy before a listener for one caller, in whatever protocol; return its port."""
        return self._listen(caller, receiver, port)

    def _listen(self, caller: str | None, receiver: str, port: int) -> int:
        async def listen() -> int:
            server = await asyncio.start_server(
                lambda reader, writer: self._accept(caller, receiver, port, reader, writer),
                "127.0.0.1",
            )
            self._servers.append(server)
            self._peers.add(receiver)
            return int(server.sockets[0].getsockname()[1])

        found = self._do(listen)
        assert found is not None
        return found

    def cut(self, one: str, *others: str) -> None:
        """Let nothing pass between a peer and others, in either direction."""
        for other in others:
            self.cut_one_way(one, other)
            self.cut_one_way(other, one)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        """Let nothing pass from one peer to another."""

        async def hold() -> None:
            self._held.add(Direction(sender, receiver))

        self._do(hold)

    def reset(self, one: str, *others: str) -> None:
        """End all connections between a peer and others, and refuse new ones."""

        async def refuse() -> None:
            self._refused |= {frozenset({one, other}) for other in others}
            for connection in self._between(one, others):
                connection.abort()

        self._do(refuse)

    def forget(self, one: str, *others: str) -> None:
        """Let nothing pass on the connections that are open now; new ones work."""

        async def silence() -> None:
            for connection in self._between(one, others):
                connection.is_forgotten = True

        self._do(silence)

    def _between(self, one: str, others: Iterable[str]) -> list[Connection]:
        pairs = {frozenset({one, other}) for other in others}
        return [connection for connection in self._connections if connection.peers in pairs]

    def heal(self) -> None:
        """Let everything pass again, with what was held back."""

        async def open_all() -> None:
            self._held.clear()
            self._refused.clear()
            self._healed.set()
            self._healed = asyncio.Event()

        self._do(open_all)

    def others(self, *peers: str) -> Iterable[str]:
        """Return all peers but these, clients included."""
        return sorted(self._peers - set(peers))

    # Connections

    async def _passable(self, direction: Direction, connection: Connection | None = None) -> None:
        while direction in self._held or (connection is not None and connection.is_forgotten):
            await self._healed.wait()

    def _accept(
        self,
        known: str | None,
        receiver: str,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        task = self._loop.create_task(self._serve(known, receiver, port, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self,
        known: str | None,
        receiver: str,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            # One that closes before it has said anything, or finds nobody there, is done with.
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                opening, caller = await _opening(reader) if known is None else (b"", known)
                await self._passable(Direction(caller, receiver))
                if frozenset({caller, receiver}) not in self._refused:
                    upstream = await asyncio.open_connection("127.0.0.1", port)
                    upstream[1].write(opening)
                    await self._join(Connection(caller, receiver, reader, writer, *upstream))
        finally:
            _abort(writer)

    async def _join(self, connection: Connection) -> None:
        self._connections.add(connection)
        try:
            await asyncio.gather(*(self._pump(connection, *pump) for pump in connection.pumps))
        finally:
            self._connections.discard(connection)
            connection.abort()

    async def _pump(
        self,
        connection: Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        direction: Direction,
    ) -> None:
        """Pass on the bytes of one direction, and its end."""
        while True:
            try:
                data = await reader.read(_CHUNK)
            except OSError:
                await self._passable(direction, connection)
                _abort(writer)
                return
            await self._passable(direction, connection)
            try:
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()
            except OSError:
                return  # Its other direction tells the sender.

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        # What was accepted just now has no task yet, and a transport takes some turns to close.
        for _ in range(_CLOSING_TURNS):
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0.01)


async def _opening(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """Read a connection's first bytes; return them, and who says them."""
    opening = await reader.readexactly(_CLIENT_ID_AT + 2)
    (size,) = struct.unpack_from(">h", opening, _CLIENT_ID_AT)
    client_id = await reader.readexactly(max(size, 0))
    named = re.match(r"broker-\d+(?=-)", client_id.decode())
    return opening + client_id, named.group() if named else CLIENTS


def _abort(writer: asyncio.StreamWriter) -> None:
    """End a connection at once, with a reset unless it has ended already."""
    transport = writer.transport
    if not transport.is_closing():
        with contextlib.suppress(OSError):
            transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET
            )
        transport.abort()
