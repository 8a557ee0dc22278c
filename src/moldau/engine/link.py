"""The way to one broker: a connection when one is needed, and patience after failures.

Everybody who wants the broker while it is being connected to waits for the same attempt. After a
failure, or a connection that was lost, the next attempt waits longer each time, and may itself
take longer (KIP-144, KIP-601).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from moldau.base.network import Address
from moldau.base.shielding import shielded
from moldau.engine.backoff import Backoff
from moldau.engine.broker_errors import BrokerError
from moldau.engine.connection import ClientConnection, again
from moldau.engine.errors import ClientError, ConnectionLost
from moldau.engine.handshake import Expected
from moldau.engine.ports import ClientPorts
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.errors import ErrorCode


class Link:
    """One broker at one address. Owned by the event loop's thread."""

    def __init__(
        self,
        address: Address,
        settings: ConnectionSettings,
        ports: ClientPorts,
        expected: Expected,
        on_lost: Callable[[Link], None],
    ) -> None:
        self.address = address
        self.expected = expected
        self.connection: ClientConnection | None = None
        """The last one that was made; it may be over."""
        self._settings = settings
        self._ports = ports
        self._on_lost = on_lost
        self._attempt: asyncio.Task[ClientConnection] | None = None
        self._failure_count = 0
        self._not_before = 0.0
        self._waits = Backoff(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms)
        self._patience = Backoff(
            settings.socket_connection_setup_timeout_ms,
            settings.socket_connection_setup_timeout_max_ms,
        )
        self._closed: ClientError | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to use at once."""
        return self.connection is not None and self.connection.is_open

    @property
    def is_resting(self) -> bool:
        """Whether the last attempt failed so recently that the next one has to wait."""
        return self._ports.clock.monotonic() < self._not_before

    @property
    def is_over(self) -> bool:
        """Whether it was closed and nothing of it runs any more."""
        return self._closed is not None and self._attempt is None

    async def connected(self) -> ClientConnection:
        """Return the open connection, or make one; ConnectionLost or what the handshake found.

        Cancelled, the attempt goes on for whoever comes next.
        """
        if self.connection is not None and self.connection.is_open:
            return self.connection
        attempt = self.attempt()
        try:
            return await shielded(attempt)
        except asyncio.CancelledError:
            if attempt.cancelled() and not _is_being_cancelled():
                raise again(self._closed) from None
            raise

    def attempt(self) -> asyncio.Task[ClientConnection]:
        """Return the attempt to connect that is under way, or begin one."""
        if self._closed is not None:
            raise again(self._closed)
        if self._attempt is None:
            self._attempt = asyncio.ensure_future(self._connect())
            self._attempt.add_done_callback(self._attempted)
        return self._attempt

    def _attempted(self, attempt: asyncio.Task[ClientConnection]) -> None:
        self._attempt = None
        if not attempt.cancelled():
            attempt.exception()  # seen: nobody may be waiting for it any more

    async def _connect(self) -> ClientConnection:
        """Wait as long as the failures before ask for, then try once."""
        clock, random = self._ports.clock, self._ports.random
        if (rest_s := self._not_before - clock.monotonic()) > 0:
            await asyncio.sleep(rest_s)
        try:
            async with asyncio.timeout(self._patience.wait_s(self._failure_count + 1, random)):
                connection = await ClientConnection.open(
                    self._ports.network, self.address, self._settings, self.expected
                )
        except (ConnectionLost, OSError, ValueError, OverflowError) as error:
            # A name or a port that no address can have is what a broker gave out: unreachable too.
            self._failed()
            why = "no answer in time" if isinstance(error, TimeoutError) else _text(error)
            raise ConnectionLost(f"{self.address} cannot be reached: {why}") from error
        except ClientError as error:
            self._failed()
            if isinstance(error, BrokerError) and error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
                raise ConnectionLost(f"{self.address} belongs to another broker now") from error
            raise
        self._failure_count = 0
        self.connection = connection
        connection.on_lost = self._lost
        return connection

    def _failed(self) -> None:
        self._failure_count += 1
        rest_s = self._waits.wait_s(self._failure_count, self._ports.random)
        self._not_before = self._ports.clock.monotonic() + rest_s

    def _lost(self, connection: ClientConnection) -> None:
        if not connection.was_idle and self._closed is None:
            self._failed()
            self._on_lost(self)

    def close(self, reason: ClientError) -> None:
        """Close the connection, and end an attempt to make one; `ended` waits for that."""
        self._closed = reason
        if self.connection is not None:
            self.connection.close(reason)
        if self._attempt is not None:
            self._attempt.cancel()

    async def ended(self) -> None:
        """Wait until nothing of it runs any more."""
        if self._attempt is not None:
            await asyncio.wait([self._attempt])


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _text(error: Exception) -> str:
    if isinstance(error, ClientError):
        return error.what
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
