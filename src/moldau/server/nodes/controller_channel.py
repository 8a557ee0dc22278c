"""One connection to the active controller, for one kind of request.

A node answers the requests of one connection in order. A metadata fetch is held for half a second,
and a forwarded CreateTopics may take as long: a heartbeat behind one of them would come too late.
So each kind of request has a channel of its own.

A channel asks one controller at a time, and the next one after a failure. It does not retry: the
caller decides how long to wait, and whether a request may be sent twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moldau.base.checks import invariant
from moldau.base.network import Address
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ClientClosed, ClientError
from moldau.engine.handshake import Expected
from moldau.engine.link import Link
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings

REQUEST_TIMEOUT_MS: Final = 30_000
"""Kafka's `controller.socket.timeout.ms`; a heartbeat that takes longer has missed its session."""

RECONNECT_BACKOFF_MAX_MS: Final = 200


class ControllerChannel:
    """The way to whoever is the controller. Owned by the event loop's thread."""

    def __init__(
        self,
        addresses: Sequence[Address],
        ports: ClientPorts,
        *,
        client_id: str,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
    ) -> None:
        invariant(addresses, "a node that asks a controller knows where one is")
        settings = ConnectionSettings(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            # One that does not answer may be gone for good, and another one may be there.
            socket_connection_setup_timeout_ms=min(request_timeout_ms, 2_000),
            socket_connection_setup_timeout_max_ms=request_timeout_ms,
            # A session may be short: a controller that is back must hear of its brokers in time.
            reconnect_backoff_max_ms=RECONNECT_BACKOFF_MAX_MS,
        )
        self._links = [
            Link(address, settings, ports, Expected(), self._lost) for address in addresses
        ]
        self._current = 0

    async def connected(self) -> ClientConnection:
        """Return a connection to the controller that answered last; ClientError if none does."""
        try:
            return await self._links[self._current].connected()
        except ClientClosed:
            raise
        except ClientError:
            self.look_elsewhere()
            raise

    async def call(self, request: Any) -> Any:
        """Send a request in the newest version that both know, and return its answer.

        ClientError if it cannot be known whether the controller has carried it out.
        """
        connection = await self.connected()
        try:
            return await connection.call(request)
        except ClientClosed:
            raise
        except ClientError:
            self.look_elsewhere()
            raise

    def look_elsewhere(self) -> None:
        """Ask another controller next: this one is gone, or says that it is not the active one."""
        self._current = (self._current + 1) % len(self._links)

    def _lost(self, link: Link) -> None:
        """Leave it to the next request to notice."""

    async def close(self) -> None:
        """End the connections; requests without an answer fail with ClientClosed."""
        for link in self._links:
            link.close(ClientClosed("the node is stopping"))
        for link in self._links:
            await link.ended()
