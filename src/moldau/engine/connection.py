"""One connection to a broker: requests out, answers matched to them, versions agreed on first.

A broker answers in order, so the answers belong to the requests in the order in which those were
sent; the correlation id is only checked. For the same reason no request can be overdue before
the one in front of it: deadlines are in order too, and one timer watches the first. A request is
pipelined and costs a future, no task and no timer; who sends thousands of them a second brings a
`Taker` in place of the future, and a `RequestTemplate` in place of the message.

A broker that does not answer in time, that sends bytes which are not the protocol, or that goes
away ends the connection, and everybody who waits is told. One that asks to be left alone
(`throttle_time_ms`, KIP-219) is: what is sent meanwhile is kept here.

Everything goes through the network port, so the same connection talks to a real broker and to one
in the simulation. Reconnecting is `link`'s.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

from moldau.base.errors import ProtocolError
from moldau.base.network import Address, Network, Part, Stream
from moldau.base.tuples import NamedTuple
from moldau.engine.broker_errors import RequestTimedOut, UnsupportedVersion
from moldau.engine.errors import (
    ClientClosed,
    ClientError,
    ConnectionLost,
    CorruptAnswer,
    InvalidArgument,
)
from moldau.engine.handshake import (
    Expected,
    agree_on_versions,
    usable_versions,
    version_of_hello,
)
from moldau.engine.settings import ConnectionSettings
from moldau.engine.throttling import throttles
from moldau.protocol.fields import Versions
from moldau.protocol.framing import PREFIX_BYTES, frame_end
from moldau.protocol.registry import (
    API_VERSIONS_KEY,
    Api,
    decode_response,
    encode_request,
    find_api,
    response_correlation_id,
)
from moldau.protocol.wire import EncodeError, parts_size

RESPONSE_SIZE_MAX = 1 << 30
"""A larger answer is no answer: the first bytes of TLS read as 352 MB (KIP-498)."""

JOINED_SIZE_MAX = 131_072
"""What leaves together is made one piece up to here: as much as the socket takes at once."""

CORRELATION_ID_MASK = 0x7FFFFFFF


class Taker(Protocol):
    """Who is told what a request came to: a future, or what can do without the event loop's turn.

    An answer comes from within `received`, everything else perhaps from within the sending.
    """

    def done(self) -> bool:
        """Tell whether nobody wants to know any more."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Take the answer."""
        ...

    def set_exception(self, error: ClientError, /) -> None:
        """Learn why there is none."""
        ...


class RequestTemplate(Protocol):
    """A kind of request that is rendered, not encoded; its usual answer is known by its bytes."""

    @property
    def api(self) -> Api: ...

    @property
    def version(self) -> int: ...

    def render(self, correlation_id: int, content: bytes) -> Sequence[bytes]:
        """Make the request around this content, with its header and size."""
        ...

    def read(self, frame: memoryview) -> Any:
        """Return what the usual answer says; None if it is another one, to be decoded.

        The frame is gone when the taker has been told.
        """
        ...


class LentAnswer:
    """An answer whose records lie in the connection's receive buffer, until that is given back.

    Those of a short answer are a copy.
    """

    __slots__ = ("_give_back", "message")

    def __init__(self, message: Any, give_back: Callable[[], None] | None) -> None:
        self.message = message
        self._give_back = give_back

    def release(self) -> None:
        """Give the buffer back: the message is needed no more."""
        give_back, self._give_back, self.message = self._give_back, None, None
        if give_back is not None:
            give_back()


async def wait_for_lent(future: asyncio.Future[LentAnswer | None]) -> LentAnswer | None:
    """Wait for an answer; one that came as the waiting was cancelled is released."""
    try:
        return await future
    except asyncio.CancelledError:
        if not future.cancelled() and future.exception() is None:
            unwanted = future.result()
            if unwanted is not None:
                unwanted.release()
        raise


class _Waiting(NamedTuple):
    """A request on its way."""

    correlation_id: int
    api: Api
    version: int
    answer: Taker
    deadline: float
    """By the event loop's clock, and never before that of the request in front."""
    template: RequestTemplate | None
    is_lent: bool = False
    """Whether the taker is to get a `LentAnswer`."""


def _nobody(connection: ClientConnection) -> None:
    """Hear of a lost connection that nobody looks after."""


class ClientConnection:
    """A connection, open until closed or lost. Owned by the event loop's thread."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._client_id = settings.client_id
        self._request_timeout_s = settings.request_timeout_ms / 1000
        idle_ms = settings.connections_max_idle_ms
        self._idle_s = idle_ms / 1000 if idle_ms >= 0 else math.inf
        self._loop = asyncio.get_running_loop()
        self._stream: Stream | None = None
        self._lost: ClientError | None = None
        self._waiting: deque[_Waiting] = deque()
        self._leaving: deque[_Waiting] = deque()
        """Requests that are not answered, until the last byte of them has left."""
        self._next_id = 0
        self._last_used = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._quiet_until = -math.inf
        self._held: list[Part] = []
        self._corked = False
        self._release: asyncio.TimerHandle | None = None
        self._agreed: dict[type[Any], int] = {}
        self.versions: dict[int, Versions] = {}
        """What the broker speaks and we may use, by API key."""
        self.was_idle = False
        """Whether it was closed because nobody had used it for long."""
        self.on_lost: Callable[[ClientConnection], None] = _nobody
        """Called once, when the connection is over, whoever ended it."""

    @classmethod
    async def open(
        cls,
        network: Network,
        address: Address,
        settings: ConnectionSettings,
        expected: Expected = Expected(),  # noqa: B008 - a named tuple cannot change
    ) -> Self:
        """Connect and agree on versions; OSError, ConnectionLost or BrokerError if that fails.

        There is no limit of its own on how long connecting takes. Cancelled, it leaves nothing.
        """
        connection = cls(settings)
        await network.connect(*address, connection._accept)
        try:
            ceilings = settings.version_ceilings
            offered = await agree_on_versions(
                connection.send, expected, ceilings.get(API_VERSIONS_KEY)
            )
        except BaseException:
            connection.close()
            raise
        connection.versions = usable_versions(offered, ceilings)
        return connection

    def _accept(self, stream: Stream) -> Self:
        self._stream = stream
        self._last_used = self._loop.time()
        self._wake_at(self._last_used + self._idle_s)
        return self

    # Asking

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._stream is not None and self._lost is None

    @property
    def in_flight(self) -> int:
        """How many requests wait for their answers."""
        return len(self._waiting)

    @property
    def waiting_since(self) -> float | None:
        """Since when, by the loop's clock, the first request has waited; None if none does."""
        return self._waiting[0].deadline - self._request_timeout_s if self._waiting else None

    @property
    def unsent_size(self) -> int:
        """How many bytes of requests the broker has not taken yet."""
        return self._stream.unsent if self._stream is not None else 0

    @property
    def throttled_until(self) -> float:
        """Until when, by the loop's clock, requests are kept back because the broker asked."""
        return self._quiet_until

    async def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request, in the newest version both know, and return its answer.

        Cancelled, the answer is dropped when it comes.
        """
        if version is None:
            version = self.agreed_version(type(request))
        return await self.send(request, version)

    def agreed_version(self, request_type: type[Any]) -> int:
        """Return the newest version of a request that the broker and we know."""
        version = self._agreed.get(request_type)
        if version is None:
            version = self._agreed[request_type] = self._agree(find_api(request_type.KEY))
        return version

    def _agree(self, api: Api) -> int:
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

    def send(
        self,
        request: Any,
        version: int,
        *,
        timeout_ms: float | None = None,
        answered: bool = True,
    ) -> asyncio.Future[Any]:
        """Send a request now; the future is its answer.

        One that is not answered gets None once all of it has left: until then it can be lost with
        the connection. It fails with RequestTimedOut, CorruptAnswer or ConnectionLost. A caller may
        cancel it and forget about it: the answer is dropped when it comes.
        """
        timeout_s = self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._send_encoded(request, version, answer, timeout_s, answered=answered)
        return answer

    async def call_in_place(self, request: Any, version: int) -> LentAnswer | None:
        """Send a request; large records of its answer are not copied, and have to be released."""
        answer: asyncio.Future[LentAnswer | None] = self._loop.create_future()
        self._send_encoded(request, version, answer, self._request_timeout_s, is_lent=True)
        return await wait_for_lent(answer)

    def send_for(self, taker: Taker, request: Any, version: int, *, answered: bool = True) -> None:
        """Send a request now; the taker is told what a future would be."""
        self._send_encoded(request, version, taker, self._request_timeout_s, answered=answered)

    def send_rendered(
        self,
        taker: Taker,
        template: RequestTemplate,
        content: bytes,
        *,
        answered: bool = True,
        is_lent: bool = False,
    ) -> None:
        """Send the request that a template renders; the taker gets what the template reads.

        An answer that it does not read is decoded, and may be lent.
        """
        self._check_open()
        correlation_id = self._new_id()
        parts = template.render(correlation_id, content)
        wanted = (correlation_id, template.api, template.version, taker, template)
        self._post(wanted, parts, self._request_timeout_s, answered=answered, is_lent=is_lent)

    def _send_encoded(
        self,
        request: Any,
        version: int,
        taker: Taker,
        timeout_s: float,
        *,
        answered: bool = True,
        is_lent: bool = False,
    ) -> None:
        self._check_open()
        api = find_api(request.KEY)
        correlation_id = self._new_id()
        try:
            parts = encode_request(api, version, correlation_id, self._client_id, request)
        except EncodeError as error:  # whatever no check of arguments has caught
            raise InvalidArgument(str(error)) from None
        wanted = (correlation_id, api, version, taker, None)
        self._post(wanted, parts, timeout_s, answered=answered, is_lent=is_lent)

    def _check_open(self) -> None:
        if self._stream is None or self._lost is not None:
            raise again(self._lost)

    def _new_id(self) -> int:
        correlation_id = self._next_id
        self._next_id = (correlation_id + 1) & CORRELATION_ID_MASK
        return correlation_id

    def _post(
        self,
        wanted: tuple[int, Api, int, Taker, RequestTemplate | None],
        parts: Sequence[Part],
        timeout_s: float,
        *,
        answered: bool,
        is_lent: bool = False,
    ) -> None:
        """Send bytes, and remember what is to come back."""
        correlation_id, api, version, taker, template = wanted
        now = self._last_used = self._loop.time()
        deadline = max(now, self._quiet_until) + timeout_s
        waiting = self._waiting if answered else self._leaving
        if waiting:
            deadline = max(deadline, waiting[-1].deadline)
        waiting.append(_Waiting(correlation_id, api, version, taker, deadline, template, is_lent))
        self._wake_at(deadline)
        if self._release is not None or self._corked:
            self._held += parts
        else:
            assert self._stream is not None
            self._stream.send(_joined(parts))
            if not answered:
                self.drained()

    def cork(self) -> None:
        """Keep what is sent until `uncork`, so that several requests leave together."""
        self._corked = True

    def uncork(self) -> None:
        """Send what was kept, unless the broker asked for quiet."""
        self._corked = False
        if self._release is None:
            self._send_held()

    # Being answered

    def received(self, data: memoryview) -> int:
        """Match whole frames to the requests they answer."""
        position = 0
        while (end := frame_end(data, position, RESPONSE_SIZE_MAX)) <= len(data):
            self._answered(data[position + PREFIX_BYTES : end], is_last=end == len(data))
            position = end
        assert self._stream is not None
        self._stream.expect(end - position)
        return position

    def _answered(self, frame: memoryview, *, is_last: bool) -> None:
        if not self._waiting:
            raise ProtocolError("the broker sent a response without a request")
        correlation_id, api, version, answer, _, template, is_lent = self._waiting[0]
        if response_correlation_id(frame) != correlation_id:
            raise ProtocolError("the broker sent responses out of order")
        if template is not None and (usual := template.read(frame)) is not None:
            self._waiting.popleft()
            if not answer.done():
                answer.set_result(usual)
            return
        # One that cannot be decoded ends the connection, and who waits for it is told then.
        decoded, give_back = self._decoded(self._waiting[0], frame, is_last=is_last)
        self._waiting.popleft()
        if not answer.done():
            answer.set_result(LentAnswer(decoded, give_back) if is_lent else decoded)
        throttle_ms = getattr(decoded, "throttle_time_ms", 0)
        if throttle_ms > 0 and throttles(api.key, version):
            self._keep_quiet(throttle_ms / 1000)

    def _decoded(
        self, wanted: _Waiting, frame: memoryview, *, is_last: bool
    ) -> tuple[Any, Callable[[], None] | None]:
        """Decode an answer, and return what gives its buffer back if that is lent.

        What an answer carries outlives this call; the buffer does not, unless it is lent.
        """
        give_back, version = None, wanted.version
        if wanted.is_lent and is_last and not wanted.answer.done():
            assert self._stream is not None
            give_back = self._stream.lend()
        if give_back is None:
            frame = memoryview(bytes(frame))
        if wanted.api.key == API_VERSIONS_KEY:
            version = version_of_hello(version, frame)
        try:
            return decode_response(wanted.api, version, frame), give_back
        except ProtocolError:
            if give_back is not None:
                give_back()
            raise

    def drained(self) -> None:
        """Tell whoever has only been waiting for the bytes to leave, if they have."""
        if self._held or self.unsent_size:
            return
        while self._leaving:
            answer = self._leaving.popleft().answer
            if not answer.done():
                answer.set_result(None)

    def _keep_quiet(self, wish_s: float) -> None:
        """Leave the broker alone for as long as it asks, but never longer than for an answer."""
        until = self._loop.time() + min(wish_s, self._request_timeout_s)
        if until <= self._quiet_until:
            return
        self._quiet_until = until
        if self._release is not None:
            self._release.cancel()
        self._release = self._loop.call_at(until, self._speak_again)

    def _speak_again(self) -> None:
        self._release = None
        if not self._corked:
            self._send_held()

    def _send_held(self) -> None:
        held, self._held = self._held, []
        if held and self._stream is not None and self._lost is None:
            self._stream.send(_joined(held))
        self.drained()

    # Time

    def _wake_at(self, when: float) -> None:
        """Have the timer ring by then; it may ring earlier."""
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._rang)

    def _rang(self) -> None:
        self._timer = None
        now = self._loop.time()
        if self._waiting or self._leaving:
            # What was sent before the broker asked for quiet is read by it only afterwards.
            after_quiet = self._quiet_until + self._request_timeout_s
            due = max(self._first().deadline, after_quiet)
            if now < due:
                self._wake_at(due)
            else:
                self._end(self._overdue())
        elif now < self._last_used + self._idle_s:
            self._wake_at(self._last_used + self._idle_s)
        else:
            self.was_idle = True
            self._end(ConnectionLost("the connection was idle and has been closed"))

    def _first(self) -> _Waiting:
        """Return the request that is due first."""
        heads = [requests[0] for requests in (self._waiting, self._leaving) if requests]
        return min(heads, key=lambda head: head.deadline)

    def _overdue(self) -> RequestTimedOut:
        assert self._stream is not None
        name = self._first().api.name
        return RequestTimedOut(f"no answer to {name} from {self._stream.peer} in time")

    # Ending

    def closed(self, error: Exception | None) -> None:
        """Tell everybody who waits that no answer will come."""
        if self._lost is None:
            self._lost = self._reason(error)
        for timer in (self._timer, self._release):
            if timer is not None:
                timer.cancel()
        self._timer = self._release = None
        self._held = []
        # Only the first in the queue has been answered badly or too late.
        told = self._lost
        while requests := self._waiting or self._leaving:
            answer = requests.popleft().answer
            if not answer.done():
                answer.set_exception(told)
            told = again(self._lost)
        self.on_lost(self)

    def _reason(self, error: Exception | None) -> ClientError:
        peer = self._stream.peer if self._stream is not None else "a broker"
        reason: ClientError
        if isinstance(error, ProtocolError):
            reason = CorruptAnswer(f"{peer} sent what is not the protocol: {error}")
        else:
            reason = ConnectionLost(f"the connection to {peer} ended: {error or 'closed there'}")
        reason.__cause__ = error
        return reason

    def close(self, reason: ClientError | None = None) -> None:
        """End the connection; requests without an answer fail for this reason."""
        self._end(reason or ConnectionLost("the connection was closed"))

    def _end(self, reason: ClientError) -> None:
        if self._lost is None:
            self._lost = reason
            if self._stream is not None:
                self._stream.abort()


def _joined(parts: Sequence[Part]) -> Sequence[Part]:
    """Make one part of several, where copying them costs less than handling each."""
    if len(parts) > 1 and parts_size(parts) <= JOINED_SIZE_MAX:
        return [b"".join(parts)]  # type: ignore[arg-type]  # a client sends no files
    return parts


def again(reason: ClientError | None) -> ClientError:
    """Make the error for who was not the cause of the end, or comes after it."""
    if reason is None:
        return ConnectionLost("the connection is not open")
    if isinstance(reason, ClientClosed):
        return ClientClosed(reason.what)
    what = (
        reason.what
        if isinstance(reason, ConnectionLost)
        else f"the connection ended: {reason.what}"
    )
    lost = ConnectionLost(what)
    lost.__cause__ = reason.__cause__
    return lost
