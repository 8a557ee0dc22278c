"""One connection to a broker: requests out, answers matched to them, versions agreed on first.

A broker answers in order, so the answers belong to the requests in the order in which those were
sent; the correlation id is only checked. Everything goes through the network port, so the same
connection talks to a real broker and to one in the simulation.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple, Self

from moldau.base.errors import MoldauError, ProtocolError
from moldau.base.network import Network, Stream
from moldau.protocol.fields import Versions
from moldau.protocol.framing import PREFIX_BYTES, frame_end
from moldau.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.registry import (
    Api,
    api_of,
    decode_response,
    encode_request,
    response_correlation_id,
)

RESPONSE_SIZE_MAX = 1 << 30
"""A larger answer is no answer: the first bytes of TLS read as 352 MB (KIP-498)."""

SOFTWARE_NAME = "moldau"
SOFTWARE_VERSION = "0.1"


class ConnectionLost(MoldauError):  # noqa: N818 - it names the event
    """The connection ended; whether requests without an answer took effect is unknown."""


class UnsupportedVersion(MoldauError):  # noqa: N818 - it names the finding
    """Broker and client have no version of this API in common."""


class _Waiting(NamedTuple):
    """A request on its way."""

    correlation_id: int
    api: Api
    version: int
    answer: asyncio.Future[Any]


class ClientConnection:
    """A connection, open until closed or lost. Owned by the event loop's thread."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._stream: Stream | None = None
        self._waiting: deque[_Waiting] = deque()
        self._next_id = 0
        self._lost: Exception | None = None
        self.versions: dict[int, Versions] = {}
        """What the broker speaks, by API key."""

    @classmethod
    async def open(cls, network: Network, host: str, port: int, client_id: str) -> Self:
        """Connect and agree on versions; OSError or ConnectionLost if that fails."""
        connection = cls(client_id)
        await network.connect(host, port, connection._accept)
        try:
            await connection._negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    def _accept(self, stream: Stream) -> Self:
        self._stream = stream
        return self

    async def _negotiate(self) -> None:
        hello = ApiVersionsRequest(SOFTWARE_NAME, SOFTWARE_VERSION)
        response: ApiVersionsResponse = await self.send(hello, 3)
        self.versions = {
            one.api_key: Versions(one.min_version, one.max_version) for one in response.api_keys
        }

    async def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request, in the newest version both know, and return its answer."""
        if version is None:
            version = self.agreed_version(request)
        return await self.send(request, version)

    def agreed_version(self, request: Any) -> int:
        """Return the newest version of a request that the broker and we know."""
        api = api_of(type(request))
        offered = self.versions.get(api.key)
        if offered is None:
            raise UnsupportedVersion(f"the broker does not serve {api.name}")
        version = min(offered.last, api.versions.last)
        if version < max(offered.first, api.versions.first):
            raise UnsupportedVersion(
                f"{api.name}: the broker serves {offered.first}-{offered.last}, "
                f"we speak {api.versions.first}-{api.versions.last}"
            )
        return version

    def send(self, request: Any, version: int, *, answered: bool = True) -> asyncio.Future[Any]:
        """Send a request now; the future is its answer (None at once where there is none)."""
        if self._stream is None or self._lost is not None:
            raise ConnectionLost("the connection is not open")
        api = api_of(type(request))
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        parts = encode_request(api, version, correlation_id, self._client_id, request)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if answered:
            self._waiting.append(_Waiting(correlation_id, api, version, answer))
        else:
            answer.set_result(None)
        self._stream.send(parts)
        return answer

    def received(self, data: memoryview) -> int:
        """Match whole frames to the requests they answer."""
        position = 0
        while (end := frame_end(data, position, RESPONSE_SIZE_MAX)) <= len(data):
            # What an answer carries outlives this call; the buffer does not.
            self._answered(memoryview(bytes(data[position + PREFIX_BYTES : end])))
            position = end
        assert self._stream is not None
        self._stream.expect(end - position)
        return position

    def _answered(self, frame: memoryview) -> None:
        if not self._waiting:
            raise ProtocolError("an answer came that nobody asked for")
        waiting = self._waiting[0]
        if response_correlation_id(frame) != waiting.correlation_id:
            raise ProtocolError("an answer came out of order")
        if not waiting.answer.done():
            # One that cannot be decoded ends the connection, and who waits for it is told then.
            waiting.answer.set_result(decode_response(waiting.api, waiting.version, frame))
        self._waiting.popleft()

    def drained(self) -> None:
        """Nothing to do: whoever sends waits for answers."""

    def closed(self, error: Exception | None) -> None:
        """Tell everybody who waits that no answer will come."""
        self._lost = error or ConnectionResetError("closed by the broker")
        while self._waiting:
            answer = self._waiting.popleft().answer
            if not answer.done():
                lost = ConnectionLost(f"the connection ended: {self._lost}")
                lost.__cause__ = error
                answer.set_exception(lost)

    def close(self) -> None:
        """End the connection; requests without an answer fail."""
        if self._stream is not None:
            self._stream.abort()
