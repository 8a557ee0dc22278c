"""A TCP proxy between one client and one server, on the event loop of a test.

It holds bytes back in one direction or both, and resets connections. `process/links.py` does more,
for Kafka's protocol only: it has to know who connects.
"""

from __future__ import annotations

import asyncio
import contextlib


class TcpProxy:
    """Passes bytes to a loopback port and back."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._requests_pass = asyncio.Event()
        self._answers_pass = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self.heal()

    async def start(self) -> int:
        """Listen; return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1")
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self, *, requests: bool = True, answers: bool = True) -> None:
        """Hold what comes from the client, from the server, or both; also of new connections."""
        if requests:
            self._requests_pass.clear()
        if answers:
            self._answers_pass.clear()

    def heal(self) -> None:
        """Let everything pass, with what was held."""
        self._requests_pass.set()
        self._answers_pass.set()

    def reset(self) -> None:
        """End all connections; what was held of them is lost."""
        for connection in list(self._connections):
            connection.cancel()

    async def close(self) -> None:
        """End everything."""
        self._server.close()
        self.reset()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.ensure_future(self._pass(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass bytes both ways until one side has ended."""
        writers, pumps = [writer], []
        try:
            with contextlib.suppress(OSError):
                from_server, to_server = await asyncio.open_connection(
                    "127.0.0.1", self._target_port
                )
                writers.append(to_server)
                pumps = [
                    asyncio.ensure_future(_pump(reader, to_server, self._requests_pass)),
                    asyncio.ensure_future(_pump(from_server, writer, self._answers_pass)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for one in writers:
                one.transport.abort()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passing: asyncio.Event
) -> None:
    """Pass on the bytes of one direction until it ends."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            await passing.wait()
            writer.write(data)
            await writer.drain()
