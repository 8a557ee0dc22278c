"""All connections of a broker: how many there may be, and which have been quiet for too long.

A connection beyond a limit is closed as soon as it is accepted, as Kafka does; the client sees a
closed connection and tries again. Idle ones are found by one look over all of them from time to
time, so that a quiet connection costs no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.base.network import Accept, Nobody, Receiver, Stream
from moldau.security.session import Session
from moldau.server.network.connection import Connection, Dispatch
from moldau.server.network.listeners import Endpoint

logger = logging.getLogger(__name__)


class ConnectionLimits(NamedTuple):
    """How many connections there may be."""

    count_max: int
    per_host_max: int
    host_overrides: Mapping[str, int]


class Connections:
    """Every open connection, in the order in which they were opened."""

    def __init__(
        self,
        dispatch: Dispatch,
        *,
        frame_limit: int,
        limits: Callable[[], ConnectionLimits],
    ) -> None:
        self._dispatch = dispatch
        self._frame_limit = frame_limit
        self._limits = limits
        self._open: dict[Connection, None] = {}
        self._held: list[Stream] | None = []
        """Streams accepted before the broker was ready; None once it is."""
        self._per_host: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def acceptor(self, endpoint: Endpoint) -> Accept:
        """Return what takes the connections of one listener."""

        def accept(stream: Stream) -> Receiver:
            refusal = self._refusal(stream)
            if refusal is not None:
                logger.warning("refusing %s: %s", stream.peer, refusal)
                stream.abort()
                return Nobody()
            connection = Connection(
                stream,
                Session(endpoint.name, endpoint.security_protocol, stream.peer),
                self._dispatch,
                frame_limit=self._frame_limit,
                on_close=self._forget,
            )
            if self._held is not None:
                stream.pause()
                self._held.append(stream)
            self._open[connection] = None
            self._per_host[stream.peer.host] += 1
            return connection

        return accept

    def dispatch_by(self, dispatch: Dispatch) -> None:
        """Have requests of connections that are accepted from now on handled by this."""
        self._dispatch = dispatch

    def begin(self) -> None:
        """Begin to answer: what arrived while the broker was starting has only waited."""
        held, self._held = self._held, None
        for stream in held or ():
            stream.resume()

    def _refusal(self, stream: Stream) -> str | None:
        limits = self._limits()
        if len(self._open) >= limits.count_max:
            return f"there are {len(self._open)} connections, max.connections"
        host = stream.peer.host
        limit = limits.host_overrides.get(host, limits.per_host_max)
        if self._per_host[host] >= limit:
            return f"{host} has {limit} connections, max.connections.per.ip"
        return None

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        host = connection.session.peer.host
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def close_idle(self, before: float) -> int:
        """Close those that have been silent since before this time; returns how many.

        One that does not take what is queued for it either is still there at the next look, and
        is closed then without waiting.
        """
        idle = [connection for connection in self._open if connection.idle_since(before)]
        for connection in idle:
            connection.close()
        return len(idle)

    async def finish(self, patience_s: float) -> None:
        """Take no new requests, and wait for those that are being carried out."""
        under_way = [work for connection in self._open if (work := connection.finish()) is not None]
        if under_way:
            await asyncio.wait(under_way, timeout=patience_s)

    def close_all(self) -> None:
        """Close every connection."""
        for connection in tuple(self._open):
            connection.close()
