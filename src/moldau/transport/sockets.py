"""The network port over plain sockets: ports that listen, peers that are connected to.

Every connected socket becomes a `SocketStream`; the streams of one network share what they are
watched by and the buffer they read into. This module knows nothing of Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Final, cast

from moldau.base.executor import Executor
from moldau.base.memory_budget import MemoryBudget
from moldau.base.network import Accept, Listener, Stream
from moldau.base.tuples import NamedTuple
from moldau.transport.buffers import BufferPool
from moldau.transport.memory_watch import watch_memory
from moldau.transport.readiness import Readiness, readiness_of
from moldau.transport.stream import SocketStream, address_of

logger = logging.getLogger(__name__)

ACCEPTS_PER_TURN = 64
"""A storm of new connections may not starve those that are open."""

NEXT_ADDRESS_DELAY_S = 0.25
"""How long one address of a name may stay silent before the next is tried as well (RFC 8305)."""

OUT_OF_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class SocketBuffers(NamedTuple):
    """The sizes of a socket's buffers in the kernel; -1 leaves them to the kernel's own tuning."""

    send: int = -1
    receive: int = -1

    def apply(self, sock: socket.socket) -> None:
        """Set the sizes, before the socket is connected or listens."""
        if self.send != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send)
        if self.receive != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive)


SYSTEM_BUFFERS: Final = SocketBuffers()


class SocketListener:
    """An open port that accepts connections."""

    def __init__(self, network: SocketNetwork, sock: socket.socket, accept: Accept) -> None:
        self._network = network
        self._socket = sock
        self._accept = accept
        self._loop = asyncio.get_running_loop()
        self.address = address_of(sock.getsockname())
        self._loop.add_reader(sock.fileno(), self._ready)

    def _ready(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connected, _peer = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                self._rest(error)
                return
            self._network.adopt(connected, self._accept, accepted=True)

    def _rest(self, error: OSError) -> None:
        """Stop accepting for a second: a readable port would keep the loop spinning."""
        logger.warning("%s accepts no connections for a second: %s", self.address, error.strerror)
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(1.0, self._accept_again)

    def _accept_again(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket.fileno(), self._ready)

    def close(self) -> None:
        """Accept no more; streams already accepted stay."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()


class SocketNetwork:
    """This machine's network."""

    def __init__(
        self,
        executor: Executor | None = None,
        *,
        accepted: SocketBuffers = SYSTEM_BUFFERS,
        opened: SocketBuffers = SYSTEM_BUFFERS,
        backlog: int = 50,
        memory: MemoryBudget | None = None,
    ) -> None:
        """Make a network; streams that share a budget share the pressure on it.

        Connections that are accepted and those that are opened from here have buffers of their own.
        """
        self._executor = executor
        self._memory = memory or MemoryBudget()
        self._pool = BufferPool(self._memory)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readiness: Readiness | None = None
        self._accepted = accepted
        self._opened = opened
        self._backlog = backlog

    async def listen(self, host: str, port: int, accept: Accept) -> Listener:
        """Open a port; an empty host is every interface."""
        family, address = (await _resolve(host or "::", port, passive=True))[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and not host:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            self._accepted.apply(sock)  # connections inherit them
            sock.bind(address)
            sock.listen(self._backlog)
        except OSError:
            sock.close()
            raise
        return SocketListener(self, sock, accept)

    async def connect(self, host: str, port: int, receiver: Accept) -> Stream:
        """Open a stream to a peer, at whichever address of its name answers first."""
        targets = await _resolve(host, port, passive=False)
        sock = await (self._connected(*targets[0]) if len(targets) == 1 else self._first(targets))
        stream = self.adopt(sock, receiver, accepted=False)
        if stream is None:
            raise ConnectionResetError(errno.ECONNRESET, f"{host}:{port} closed at once")
        return cast("Stream", stream)

    async def _connected(self, family: int, address: SocketAddress) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            self._opened.apply(sock)
            await asyncio.get_running_loop().sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _first(self, targets: Sequence[Target]) -> socket.socket:
        """Try address after address, without waiting long for one that is silent (KIP-302)."""
        waiting = list(targets)
        tries: set[asyncio.Task[socket.socket]] = set()
        refusal: BaseException | None = None
        try:
            while waiting or tries:
                if waiting:
                    tries.add(asyncio.ensure_future(self._connected(*waiting.pop(0))))
                done, tries = await asyncio.wait(
                    tries,
                    timeout=NEXT_ADDRESS_DELAY_S if waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for one in done:
                    refusal = one.exception()
                    if refusal is None:
                        tries |= done - {one}
                        return one.result()
        finally:
            await _give_up(tries)
        assert refusal is not None
        raise refusal

    def adopt(self, sock: socket.socket, accept: Accept, *, accepted: bool) -> SocketStream | None:
        """Make a stream of a connected socket; None if the peer has gone already."""
        try:
            sock.setblocking(False)
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            loop = asyncio.get_running_loop()
            stream = SocketStream(
                loop, self._ready_on(loop), sock, self._pool, self._executor, accepted=accepted
            )
        except OSError:
            sock.close()
            return None
        try:
            stream.start(accept)
        except OSError as error:
            logger.warning("%s cannot be watched: %s", stream.peer, error.strerror)
            stream.abort()
            return None
        return stream

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call behind the streams that are being called in a row, or in the next turn."""
        readiness = self._readiness
        if readiness is None:
            asyncio.get_running_loop().call_soon(callback)
        else:
            readiness.call_soon(callback)

    def _ready_on(self, loop: asyncio.AbstractEventLoop) -> Readiness:
        """Return what watches the streams of this network on a loop; there is but one as a rule."""
        if self._loop is not loop or self._readiness is None:
            self._loop, self._readiness = loop, readiness_of(loop)
            watch_memory(loop, self._memory)
        return self._readiness


SocketAddress = tuple[str, int]
Target = tuple[int, SocketAddress]
"""The family of an address, and the address."""


async def _give_up(tries: set[asyncio.Task[socket.socket]]) -> None:
    """End what is still under way, and close what has been reached too late to be used."""
    for one in tries:
        one.cancel()
    for outcome in await asyncio.gather(*tries, return_exceptions=True):
        if isinstance(outcome, socket.socket):
            outcome.close()


async def _resolve(host: str, port: int, *, passive: bool) -> list[Target]:
    """Find the addresses of a name; one that is an address already needs no thread to ask."""
    flags = socket.AI_PASSIVE if passive else 0
    # In bytes, or Python loads its tables of Unicode for names, half a megabyte.
    plain = host.encode() if host.isascii() else host
    try:
        found = socket.getaddrinfo(
            plain, port, type=socket.SOCK_STREAM, flags=flags | socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=flags
        )
    return [(family, cast("SocketAddress", address)) for family, _, _, _, address in found]
