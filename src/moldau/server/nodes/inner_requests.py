"""Answers what lies in an envelope as if its client were connected here.

A request that was forwarded goes the same way as any other: `Connection` and its dispatch handle
it, with its sizes, slices and turns. Only the stream is another one: it holds one frame, and keeps
the answer instead of sending it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from struct import Struct
from typing import Final, Protocol

from moldau.base.errors import ProtocolError
from moldau.base.files import Buffer
from moldau.base.memory_budget import MemoryAccount, MemoryBudget
from moldau.base.network import Address, Part
from moldau.protocol.errors import ErrorCode
from moldau.protocol.framing import PREFIX_BYTES
from moldau.protocol.messages.brokers import EnvelopeRequest, EnvelopeResponse
from moldau.security.session import Session
from moldau.server.network.connection import Connection, Dispatch
from moldau.server.network.dispatch import RequestContext
from moldau.server.nodes.envelope import client_host, decode_principal

_SIZE: Final = Struct(">i")
_KEY: Final = Struct(">h")


class InnerStream:
    """A stream of one frame, whose answer is a future."""

    def __init__(self, frame: Buffer, peer: Address, memory: MemoryBudget) -> None:
        self.peer = self.local = peer
        self.memory = MemoryAccount(memory, self)
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[bytes] = loop.create_future()
        """The answer without its size; ProtocolError where a client would be cut off."""
        self._frame = memoryview(b"".join((_SIZE.pack(len(frame)), frame)))
        self._connection: Connection | None = None

    def begin(self, connection: Connection) -> None:
        """Present the frame."""
        self._connection = connection
        self._present()

    def _present(self) -> None:
        if self._connection is None or self.answer.done():
            return
        self._frame = self._frame[self._connection.received(self._frame) :]

    def send(self, parts: Sequence[Part]) -> None:
        """Keep the answer."""
        if parts and not self.answer.done():
            framed = b"".join(parts)  # type: ignore[arg-type]  # no administration sends files
            self.answer.set_result(framed[PREFIX_BYTES:])

    @property
    def unsent(self) -> int:
        """Nothing waits for a client here."""
        return 0

    def expect(self, size: int) -> None:
        """Fail: the frame is all there."""
        self._fail(ProtocolError(f"a frame in an envelope lacks {size} bytes"))

    def lend(self) -> None:
        """Fail to lend: requests are not kept."""

    def pause(self) -> None:
        """Present nothing until `resume`."""

    def resume(self) -> None:
        """Present the frame again, which has waited for its turn."""
        if self._frame:
            asyncio.get_running_loop().call_soon(self._present)

    def close(self) -> None:
        """Learn that the client would be cut off."""
        self._fail(ProtocolError("the request in an envelope cannot be answered"))

    def abort(self) -> None:
        """Learn that the request met a bug, of which the log has the story."""
        self._fail(ConnectionAbortedError())

    def _fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    def reading_is_blocked(self) -> bool:
        """Tell the budget that nobody is slow here."""
        return True

    def sending_is_blocked(self) -> bool:
        """Tell the budget that nobody is slow here."""
        return True


class EnvelopeHandler:
    """Answers Envelope 0."""

    def __init__(
        self, dispatch: Dispatch, served: Collection[int], memory: MemoryBudget, *, frame_limit: int
    ) -> None:
        self._dispatch = dispatch
        self._served = served
        self._memory = memory
        self._frame_limit = frame_limit

    async def __call__(self, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
        """Answer the request inside; an error is one of the envelope, not of that request."""
        frame = request.request_data
        if len(frame) < _KEY.size or _KEY.unpack_from(frame)[0] not in self._served:
            return EnvelopeResponse(None, ErrorCode.INVALID_REQUEST)
        outer = context.session
        try:
            peer = Address(client_host(request.client_host_address), outer.peer.port)
            principal = decode_principal(request.request_principal)
        except ProtocolError:
            return EnvelopeResponse(None, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
        session = Session(outer.listener, outer.security_protocol, peer, principal)
        stream = InnerStream(frame, peer, self._memory)
        connection = Connection(
            stream,
            session,
            self._dispatch,
            frame_limit=self._frame_limit,
            on_close=lambda _: None,
        )
        stream.begin(connection)
        try:
            return EnvelopeResponse(await stream.answer)
        except ProtocolError:
            return EnvelopeResponse(None, ErrorCode.INVALID_REQUEST)
        except ConnectionAbortedError:
            return EnvelopeResponse(None, ErrorCode.UNKNOWN_SERVER_ERROR)
        finally:
            stream.memory.close()


class ActiveController(Protocol):
    """Whoever knows whether the controller is in this process; `Controller`."""

    @property
    def is_active(self) -> bool: ...


def while_active(
    controller: ActiveController, envelopes: EnvelopeHandler
) -> Callable[[EnvelopeRequest, RequestContext], Awaitable[EnvelopeResponse]]:
    """Open envelopes while the controller is in this process, where others may be it too."""

    async def answer(request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
        # Told of the envelope, the broker that sent it looks for the controller. Inside, a client
        # would be told.
        if not controller.is_active:
            return EnvelopeResponse(None, ErrorCode.NOT_CONTROLLER)
        return await envelopes(request, context)

    return answer
