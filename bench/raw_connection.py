"""A connection that knows frames and codecs and nothing else.

Where hundreds of members of groups are played by one process, a client library would cost more
than the broker under test. So a request is encoded, sent, and its answer decoded; whatever a
client does beyond that (finding coordinators, heartbeats, trying again) is left out or done by the
load itself.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from moldau.protocol.registry import api_of, decode_response, encode_request

CLIENT_ID = "bench"
CORRELATION = 1
"""Answers come in the order of the requests, so all requests may have the same."""

_PREFIX = 4


class _Waiting(NamedTuple):
    """Who waits for an answer."""

    answered: Callable[[bytes], None]
    failed: Callable[[Exception], None]


class RawConnection(asyncio.Protocol):
    """One connection from an event loop."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._waiting: deque[_Waiting] = deque()

    @classmethod
    async def open(cls, address: str) -> Self:
        """Connect; OSError if nobody listens."""
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, host, int(port))
        return connection

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def lend(self) -> int:
        """Hand the socket out to somebody who reads and writes it without an event loop."""
        assert self._transport is not None
        self._transport.pause_reading()
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        return descriptor

    def take_back(self) -> None:
        """Go on with the socket; everything that was asked meanwhile has been answered."""
        assert self._transport is not None
        self._transport.resume_reading()

    async def ask(self, request: Any, version: int) -> Any:
        """Send a request and return its answer."""
        answer = await self.exchange(framed(request, version))
        return decode_response(api_of(request), version, memoryview(answer))

    def exchange(self, frame: bytes) -> asyncio.Future[bytes]:
        """Send a whole frame; the future is the answer's, without its size."""
        answer = asyncio.get_running_loop().create_future()
        self.send(frame, answer.set_result, answer.set_exception)
        return answer

    def send(
        self, frame: bytes, answered: Callable[[bytes], None], failed: Callable[[Exception], None]
    ) -> None:
        """Send a whole frame; the answer is handed over in the moment in which it comes."""
        self._waiting.append(_Waiting(answered, failed))
        assert self._transport is not None
        self._transport.write(frame)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _PREFIX:
            (size,) = struct.unpack_from(">i", self._received)
            end = _PREFIX + size
            if len(self._received) < end:
                return
            answer = bytes(self._received[_PREFIX:end])
            del self._received[:end]
            self._waiting.popleft().answered(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        for waiting in self._waiting:
            waiting.failed(exc or ConnectionResetError("the broker has hung up"))


def framed(request: Any, version: int) -> bytes:
    """Return a request as it goes over the wire, size and header included."""
    parts = encode_request(api_of(request), version, CORRELATION, CLIENT_ID, request)
    return b"".join(map(bytes, parts))  # type: ignore[arg-type]  # only records come as file parts
