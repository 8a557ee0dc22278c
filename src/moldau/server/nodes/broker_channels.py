"""Connections to other brokers for one kind of request: one for each broker that is asked.

A broker answers the requests of one connection in order. A marker may wait half a minute for the
followers of its partition, and a producer whose transaction is verified must not wait behind it. So
each kind of request has channels of its own.

A channel does not retry: whether a request may be sent twice is for the caller to say.
"""

from __future__ import annotations

from typing import Any, Protocol

from moldau.base.ids import BrokerId
from moldau.base.network import Address
from moldau.engine.broker_errors import UnsupportedVersion
from moldau.engine.connection import ClientConnection
from moldau.engine.errors import ClientClosed, ConnectionLost
from moldau.engine.handshake import Expected
from moldau.engine.link import Link
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings


class Addresses(Protocol):
    """Where brokers are reached by others; `LiveBrokers`."""

    def address(self, broker_id: BrokerId, /) -> Address | None: ...


class BrokerChannels:
    """The ways to other brokers. Owned by the event loop's thread."""

    def __init__(
        self, brokers: Addresses, ports: ClientPorts, *, client_id: str, request_timeout_ms: int
    ) -> None:
        self._brokers = brokers
        self._ports = ports
        self._settings = ConnectionSettings(
            client_id=client_id, request_timeout_ms=request_timeout_ms
        )
        self._links: dict[BrokerId, Link] = {}
        self._closed = False

    async def call(self, broker_id: BrokerId, request: Any, *, lowest_version: int = 0) -> Any:
        """Send a request in the newest version that both know, and return its answer.

        ClientError if there is no answer: whether the broker has carried it out is not known.
        """
        connection = await self._connected(broker_id)
        version = connection.agreed_version(type(request))
        if version < lowest_version:
            name = type(request).__name__
            raise UnsupportedVersion(f"broker {broker_id} serves {name} up to {version} only")
        return await connection.call(request, version)

    async def call_in(self, broker_id: BrokerId, request: Any, version: int) -> Any:
        """Send a request in this version, as `call` does: another would not say the same."""
        connection = await self._connected(broker_id)
        return await connection.call(request, version)

    async def _connected(self, broker_id: BrokerId) -> ClientConnection:
        """Return the connection to a broker, at the address that it has now."""
        if self._closed:
            raise ClientClosed("the broker is stopping")
        address = self._brokers.address(broker_id)
        if address is None:
            raise ConnectionLost(f"the address of broker {broker_id} is not known")
        link = self._links.get(broker_id)
        if link is None or link.address != address:
            if link is not None:
                link.close(ConnectionLost(f"broker {broker_id} has moved"))
                await link.ended()
            expected = Expected(broker_id=broker_id)
            link = Link(address, self._settings, self._ports, expected, lambda _: None)
            self._links[broker_id] = link
        return await link.connected()

    async def close(self) -> None:
        """End the connections; requests without an answer fail with ClientClosed."""
        self._closed = True
        for link in self._links.values():
            link.close(ClientClosed("the broker is stopping"))
        for link in self._links.values():
            await link.ended()
