"""From a frame to its handler and back: header, version, decoding, handling, encoding, counting.

Every API the broker answers has one `Route`: the versions it advertises, the permissions it needs
(ADR 0013) and the function that handles it. A handler takes the decoded request and a
`RequestContext` and returns the response message, an awaitable of it, or None where the protocol
sends no answer. It never sees bytes.

Codecs are compiled on the first use of a version, so a broker pays for what its clients speak.

What takes long because of its size does not take long at a stretch (`slices`). A small request is
decoded in one go. A large one that is not decoded within a first slice is decoded, handled and
answered as one piece of sliced work, once it has its turn (`turns`). A response with many elements
is encoded in slices, whatever request asked for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from typing import Any, NamedTuple, Protocol

from moldau.base.clock import Clock
from moldau.base.errors import InvariantViolated, ProtocolError
from moldau.base.limits import FLAT_REQUEST_BYTES, LARGE_REQUESTS_AT_ONCE
from moldau.base.network import Part
from moldau.base.prompt_future import PromptFuture
from moldau.observe.loop_lag import NOTED_S, LoopLag
from moldau.observe.requests import RequestMetrics
from moldau.protocol.fields import Versions
from moldau.protocol.registry import (
    API_VERSIONS_KEY,
    Api,
    RequestHeader,
    decode_header,
    decode_request,
    decode_request_in_slices,
    encode_response,
    encode_response_in_slices,
    encode_short_response,
    find_api,
)
from moldau.protocol.release import release_in_slices
from moldau.security.authorizer import ALLOW_ALL, Authorizer, Resource
from moldau.security.operations import AclOperation, AclResourceType
from moldau.security.session import Session
from moldau.server.network.connection import Connection, Pending
from moldau.server.network.permissions import DENIED, Check, Permission
from moldau.server.network.slices import Finished, Sliced, SlicedWork
from moldau.server.network.turns import Turn, Turns


class AnswerMemory(Protocol):
    """The memory that answers to one connection may take."""

    def reserve(self, size: int) -> asyncio.Future[None]:
        """Ask for memory for the work on an answer; done when it is there."""
        ...


class RequestContext(NamedTuple):
    """Who asks, and in which words."""

    session: Session
    version: int
    client_id: str | None
    memory: AnswerMemory
    """For handlers whose work on one answer takes much: the connection charges it to its client."""
    authorizer: Authorizer

    def allows(self, operation: AclOperation, resource: AclResourceType, name: str) -> bool:
        """Tell whether the client may do this; for permissions that are checked by handlers."""
        return self.authorizer.allows(self.session, operation, Resource(resource, name))


Handler = Callable[[Any, RequestContext], Any]
"""(request, context) -> response, None where there is no answer, or one that will come.

A coroutine is work under way: it is finished even if the client leaves. A future is a request
that is parked: it is cancelled when the client leaves. An `Applied` is one that holds up no request
behind it. A `Droppable` is work under way that a
stop waits for, and that is cancelled when the client leaves. A generator is work whose length the
client decides: it is done in slices, and dropped when the client leaves; it returns any of the
others. Records of a request lie in a receive buffer: a generator takes a copy of them before it
yields.
"""


class Applied:
    """The answer to a request that has taken effect and waits for its acknowledgement alone.

    Requests behind it on its connection are handled meanwhile. It is cancelled when the client
    leaves.
    """

    __slots__ = ("future",)

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self.future = future

    def __await__(self) -> Generator[Any, None, Any]:
        return self.future.__await__()


class Droppable:
    """Work that has no effect beside its answer, or none yet: without a client it may end."""

    __slots__ = ("_ended", "_work")

    def __init__(
        self, work: Coroutine[Any, Any, Any], ended: Callable[[], None] | None = None
    ) -> None:
        self._work = work
        self._ended = ended
        """Called when the work is done or dropped, also if it had not begun."""

    def __await__(self) -> Generator[Any, None, Any]:
        return self._work.__await__()

    def start(self) -> asyncio.Future[Any]:
        """Do the work in a task, which may be cancelled."""
        task = asyncio.ensure_future(self._work)
        ended = self._ended
        if ended is not None:
            task.add_done_callback(lambda _: ended())
        return task


FastPath = Callable[[memoryview, Session], list[Part] | Pending | None]
"""Answers a request of the most frequent shape, or returns None with nothing done (ADR 0007)."""

Forward = Callable[[bytes, Session], Coroutine[Any, Any, list[Part]]]
"""Has a request answered by another node; the frame is that of the client, and so is the answer."""

_KEY = Struct(">h").unpack_from
"""The first two bytes of a frame."""


def _always() -> bool:
    return True


class Route:
    """One API of this broker."""

    __slots__ = (
        "api",
        "fast_path",
        "forward",
        "forwards_now",
        "handler",
        "is_own",
        "permissions",
        "stats",
        "versions",
    )

    def __init__(
        self,
        key: int,
        versions: str,
        handler: Handler,
        metrics: RequestMetrics,
        permissions: Sequence[Permission],
    ) -> None:
        self.api: Api = find_api(key)
        self.versions = Versions.parse(versions)
        self.handler = handler
        self.permissions = permissions
        self.stats = metrics.of(self.api.name)
        self.fast_path: FastPath | None = None
        """Tried before the request is decoded, where one shape of it is frequent enough."""
        self.forward: Forward | None = None
        """Takes the handler's place where another node has to answer. It is not decoded here, and
        that node checks the permissions of the client."""
        self.forwards_now: Callable[[], bool] = _always
        """Tells whether another node has to answer now, where that changes with elections."""
        self.is_own: Callable[[Any], bool] | None = None
        """Tells of requests that only this node can answer, among those that are forwarded."""

    @property
    def has_unchecked_permissions(self) -> bool:
        """Whether its handler leaves out checks that are its part: no authorizer can be used."""
        return any(one.check is Check.MISSING for one in self.permissions)


class Asked(NamedTuple):
    """A request that is not answered on the spot: who asked, and how the answer is framed."""

    route: Route
    header: RequestHeader
    connection: Connection
    size: int
    start: float

    def __str__(self) -> str:
        header = self.header
        return (
            f"{self.route.api.name} v{header.api_version} of client {header.client_id!r} at "
            f"{self.connection.session.peer}, {self.size} bytes"
        )


class Later:
    """An answer that will come: the future has a response, or what sliced work has made of it."""

    __slots__ = ("_asked", "_dispatcher", "future", "is_applied", "is_droppable")

    def __init__(
        self,
        future: asyncio.Future[Any],
        asked: Asked,
        dispatcher: Dispatcher,
        *,
        must_finish: bool = False,
        is_applied: bool = False,
    ) -> None:
        self.future = future
        self.is_applied = is_applied
        """Whether the request has taken effect, so that those behind it may be handled."""
        self.is_droppable = not must_finish
        """Whether nobody needs it once its client has left."""
        self._asked = asked
        self._dispatcher = dispatcher

    def framed(self) -> list[Part] | Later:
        """Frame what has come; raises what the handler raised.

        A response that is large is still to be encoded, and one that the handler waits for is still
        to come: these are other answers that will come.
        """
        answer = self._dispatcher.finish(self._asked, self.future.result())
        return [] if answer is None else answer

    @property
    def work(self) -> asyncio.Future[Any] | None:
        """The work that must be finished; None for a request that is parked."""
        return self.future if isinstance(self.future, asyncio.Task) else None

    def listen(self, listener: Callable[[Any], None]) -> None:
        """Have a listener called once the answer is there."""
        future = self.future
        if isinstance(future, PromptFuture):
            future.listen(listener)
        else:
            future.add_done_callback(listener)

    def abandon(self) -> None:
        """Give up a request whose client has left, unless its work must be finished."""
        if self.is_droppable:
            self.future.cancel()


Answer = list[Part] | Pending | Turn | None
"""What comes of a frame; None where the protocol sends no answer."""


class Dispatcher:
    """The table of routes, and the way through it."""

    def __init__(
        self,
        routes: Sequence[Route],
        clock: Clock,
        unsupported_api_versions: Callable[[], Any],
        lag: LoopLag | None = None,
        authorizer: Authorizer = ALLOW_ALL,
    ) -> None:
        self.routes = {route.api.key: route for route in routes}
        self._fast_paths = {
            (route.api.key,): route.fast_path for route in routes if route.fast_path
        }
        """By what `_KEY` reads."""
        self._authorizer = authorizer
        if authorizer is not ALLOW_ALL:
            self._guard_routes()
        self._clock = clock
        self._lag = lag or LoopLag()
        self._unnamed = self._lag.unnamed
        self._sliced = SlicedWork(clock, self._lag)
        self._turns = Turns(LARGE_REQUESTS_AT_ONCE)
        self._unsupported_api_versions = unsupported_api_versions

    def handle(self, connection: Connection, frame: memoryview) -> Answer:
        """Handle one request; ProtocolError closes the connection.

        A turn means that nothing was done yet: the frame is to be presented again.
        """
        try:
            fast_path = self._fast_paths.get(_KEY(frame))
        except StructError:
            fast_path = None  # not even a key: decoding the header says so
        if fast_path is not None:
            answer = fast_path(frame, connection.session)
            if answer is not None:
                if self._unnamed:
                    self._name_stall(connection, frame)
                return answer
        return self._handle_any(connection, frame)

    def _guard_routes(self) -> None:
        """Put the checks of permissions before the handlers, once, so that AllowAll costs nothing.

        No fast path is taken then: its prefixes would have to be forgotten when an ACL changes.
        """
        routes = self.routes.values()
        open_routes = [route.api.name for route in routes if route.has_unchecked_permissions]
        if open_routes:
            raise InvariantViolated(f"permissions are not checked by {', '.join(open_routes)}")
        for route in routes:
            route.handler = _guarded(route)
        self._fast_paths.clear()

    def answer_by(self, key: int, make: Callable[[Handler], Handler]) -> None:
        """Have an API answered by what is made of its handler, from now on, without a fast path."""
        route = self.routes[key]
        route.handler = make(route.handler)
        self._fast_paths.pop((key,), None)

    def close(self) -> None:
        """Drop the work on large requests that is still paused."""
        self._sliced.close()

    def _handle_any(self, connection: Connection, frame: memoryview) -> Answer:
        start = self._clock.monotonic()
        header = decode_header(frame)
        route, version = self.routes.get(header.api_key), header.api_version
        if route is None:
            raise ProtocolError(f"API key {header.api_key} is unknown or not served")
        if version not in route.versions:
            return self._wrong_version(route, header)
        size = len(frame)
        if (
            route.forward is not None
            and route.forwards_now()
            and not self._is_own(route, header, frame)
        ):
            route.stats.count(size)
            asked = Asked(route, header, connection, size, start)
            return self.finish(asked, route.forward(bytes(frame), connection.session))
        if size > FLAT_REQUEST_BYTES:
            decoded = self._decode_large(Asked(route, header, connection, size, start), frame)
            if not isinstance(decoded, Finished):
                return decoded
            request = decoded.result
        else:
            request = decode_request(header, frame)
        route.stats.count(size)
        context = RequestContext(
            connection.session, version, header.client_id, connection, self._authorizer
        )
        response = route.handler(request, context)
        if type(response) is route.api.response:
            took = self._clock.monotonic() - start
            if took > NOTED_S:
                self._lag.note(took, Asked(route, header, connection, size, start))
            parts = encode_short_response(route.api, version, header.correlation_id, response)
            if parts is not None:
                route.stats.time(took)
                return parts
        asked = Asked(route, header, connection, size, start)
        if isinstance(response, Generator):
            return self._start(asked, _answer_in_slices(asked, response))
        return self.finish(asked, response)

    def _is_own(self, route: Route, header: RequestHeader, frame: memoryview) -> bool:
        """Tell whether a request must not be forwarded. A large one is, whatever is in it."""
        if route.is_own is None or len(frame) > FLAT_REQUEST_BYTES:
            return False
        return route.is_own(decode_request(header, frame))

    def _decode_large(self, asked: Asked, frame: memoryview) -> Finished | Later | Turn:
        """Decode as much as may be done at once; return the request if that was all of it."""
        connection = asked.connection
        turn = connection.turn
        if turn is not None and not turn.granted:
            return turn
        connection.turn = None
        decoding = _decode(asked, decode_request_in_slices(asked.header, frame))
        try:
            finished = self._sliced.run_first_slice(decoding, asked)
        except BaseException:
            if turn is not None:
                turn.end()
            raise
        if finished is not None:
            if turn is not None:
                turn.end()
            return finished
        turn = turn or self._turns.ask(connection.use_turn)
        if not turn.granted:
            decoding.close()  # what it has made would be kept for as long as it waits
            connection.turn = turn
            return turn
        work = self._decode_and_handle(asked, decoding, turn)
        next(work)  # from here on it ends its turn, also if it is closed
        return Later(self._sliced.pause(work, asked), asked, self)

    def _decode_and_handle(self, asked: Asked, decoding: Sliced[Any], turn: Turn) -> Sliced[Any]:
        """Go on with a large request up to its framed answer, and end its turn."""
        try:
            yield
            request = yield from decoding
            route, header = asked.route, asked.header
            route.stats.count(asked.size)
            asker = asked.connection
            context = RequestContext(
                asker.session, header.api_version, header.client_id, asker, self._authorizer
            )
            answer = yield from _answer_in_slices(asked, route.handler(request, context))
            held = [request]
            request = None
            # Not here: who leaves meanwhile would leave behind an answer that is still to come.
            self._sliced.pause(release_in_slices(held), asked)
            return answer
        finally:
            turn.end()

    def finish(self, asked: Asked, outcome: Any) -> list[Part] | Later | None:
        """Make an answer of a handler's result, or of what sliced work has made of it."""
        route, header = asked.route, asked.header
        if type(outcome) is route.api.response:
            respond = route.api, header.api_version, header.correlation_id, outcome
            outcome = encode_short_response(*respond)
            if outcome is None:
                return self._start(asked, encode_response_in_slices(*respond))
        if outcome is not None and type(outcome) is not list:
            if isinstance(outcome, Droppable):
                return Later(outcome.start(), asked, self)
            if isinstance(outcome, Applied):
                return Later(outcome.future, asked, self, is_applied=True)
            future = asyncio.ensure_future(outcome)
            is_work = isinstance(future, asyncio.Task)
            if is_work and asked.size > FLAT_REQUEST_BYTES:
                self._sliced.hold_collections(future)
            return Later(future, asked, self, must_finish=is_work)
        route.stats.time(self._clock.monotonic() - asked.start)
        parts: list[Part] | None = outcome
        return parts

    def _start(self, asked: Asked, work: Sliced[Any]) -> list[Part] | Later | None:
        started = self._sliced.start(work, asked)
        if isinstance(started, Finished):
            return self.finish(asked, started.result)
        return Later(started, asked, self)

    def _name_stall(self, connection: Connection, frame: memoryview) -> None:
        """Say who sent a request that has held the loop for long on a fast path."""
        header = decode_header(frame)
        asked = Asked(self.routes[header.api_key], header, connection, len(frame), 0.0)
        self._lag.note(max(self._unnamed), asked)
        self._unnamed.clear()

    def _wrong_version(self, route: Route, header: RequestHeader) -> list[Part]:
        """Tell a client that asks for API versions what we speak; end the talk with any other.

        Whatever the client speaks, it can read version 0 of that answer (KIP-511).
        """
        if route.api.key != API_VERSIONS_KEY:
            raise ProtocolError(f"{route.api.name} version {header.api_version} is not served")
        answer = self._unsupported_api_versions()
        return encode_response(route.api, 0, header.correlation_id, answer)


def _guarded(route: Route) -> Handler:
    """Return a handler that refuses a request as a whole without its permissions."""
    handler, response = route.handler, route.api.response
    checked = [
        (one.operation, one.resource, one.name) for one in route.permissions if one.name is not None
    ]

    def handle(request: Any, context: RequestContext) -> Any:
        for operation, resource, name_of in checked:
            name = name_of(request)
            if name is not None and not context.allows(operation, resource, name):
                return response(error_code=DENIED[resource])
        return handler(request, context)

    return handle


def _decode(asked: Asked, decoding: Sliced[Any]) -> Sliced[Any]:
    """Decode a large request; an error also names the client."""
    try:
        return (yield from decoding)
    except ProtocolError as error:
        raise ProtocolError(f"{error} (client {asked.header.client_id!r})") from None


def _answer_in_slices(asked: Asked, response: Any) -> Sliced[Any]:
    """Frame a handler's response once it is there; one that is still to come is returned as it is.

    So is the None of a request that has no answer.
    """
    if isinstance(response, Generator):
        response = yield from response
    api, header = asked.route.api, asked.header
    if type(response) is not api.response:
        return response
    version, correlation_id = header.api_version, header.correlation_id
    parts = encode_short_response(api, version, correlation_id, response)
    if parts is not None:
        # Without a pause: a busy turn of the loop would put off every small answer that has one.
        return parts
    parts = yield from encode_response_in_slices(api, version, correlation_id, response)
    held = [response]
    response = None
    yield from release_in_slices(held)
    return parts
