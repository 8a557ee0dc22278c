"""From a frame to its handler and back: header, version, decoding, handling, encoding, counting.

Every API the broker answers has one `Route`: the versions it advertises and the function that
handles it. A handler takes the decoded request and a `RequestContext` and returns the response
message, an awaitable of it, or None where the protocol sends no answer. It never sees bytes.

Codecs are compiled on the first use of a version, so a broker pays for what its clients speak.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is a class
from types import GeneratorType
from typing import Any, NamedTuple

from moldau.base.clock import Clock
from moldau.base.errors import ProtocolError
from moldau.base.network import Part
from moldau.observe.requests import RequestMetrics
from moldau.protocol.fields import Versions
from moldau.protocol.registry import (
    API_VERSIONS_KEY,
    Api,
    RequestHeader,
    decode_header,
    decode_request,
    encode_response,
    find_api,
)
from moldau.server.connection import Connection
from moldau.server.slices import SlicedWork


class RequestContext(NamedTuple):
    """Who asks, and in which words."""

    connection: Connection
    version: int
    client_id: str | None


Handler = Callable[[Any, RequestContext], Any]
"""(request, context) -> response, None where there is no answer, or one that will come.

A coroutine is work under way: it is finished even if the client leaves. A future is a request
that is parked: it is cancelled when the client leaves. A generator is work whose length the client
decides: it is done in slices, and dropped when the client leaves; it returns any of the others.
"""


UsualRequest = Callable[[memoryview], list[Part] | None]
"""Answers a request of the most frequent shape, or returns None with nothing done."""

_KEY = Struct(">h").unpack_from
"""The first two bytes of a frame."""


class Route:
    """One API of this broker."""

    __slots__ = ("api", "handler", "stats", "usual", "versions")

    def __init__(self, key: int, versions: str, handler: Handler, metrics: RequestMetrics) -> None:
        self.api: Api = find_api(key)
        self.versions = Versions.parse(versions)
        self.handler = handler
        self.stats = metrics.of(self.api.name)
        self.usual: UsualRequest | None = None
        """Asked before the request is decoded, where one shape of it deserves that."""


class Later:
    """An answer that will come, and how to frame it."""

    __slots__ = ("_clock", "_correlation_id", "_route", "_start", "_version", "future")

    def __init__(
        self,
        future: asyncio.Future[Any],
        route: Route,
        version: int,
        correlation_id: int,
        clock: Clock,
        start: float,
    ) -> None:
        self.future = future
        self._route = route
        self._version = version
        self._correlation_id = correlation_id
        self._clock = clock
        self._start = start

    def framed(self) -> list[Part]:
        """Frame the response that has come; raises what its handler raised."""
        response = self.future.result()
        self._route.stats.time(self._clock.monotonic() - self._start)
        if response is None:
            return []
        return encode_response(self._route.api, self._version, self._correlation_id, response)

    @property
    def under_way(self) -> bool:
        """Whether this is work that must be finished, and not a request that is parked."""
        return isinstance(self.future, asyncio.Task)

    def abandon(self) -> None:
        """Give up a parked request whose client has left."""
        if not self.under_way:
            self.future.cancel()


class Dispatcher:
    """The table of routes, and the way through it."""

    def __init__(
        self, routes: Sequence[Route], clock: Clock, unsupported_api_versions: Callable[[], Any]
    ) -> None:
        self.routes = {route.api.key: route for route in routes}
        self._usual = {(route.api.key,): route.usual for route in routes if route.usual}
        """By what `_KEY` reads."""
        self._clock = clock
        self._sliced = SlicedWork(clock)
        self._unsupported_api_versions = unsupported_api_versions

    def handle(self, connection: Connection, frame: memoryview) -> list[Part] | Later | None:
        """Handle one request; ProtocolError closes the connection."""
        try:
            usual = self._usual.get(_KEY(frame))
        except StructError:
            usual = None  # not even a key: decoding the header says so
        if usual is not None:
            answer = usual(frame)
            if answer is not None:
                return answer
        start = self._clock.monotonic()
        header = decode_header(frame)
        route, version = self.routes.get(header.api_key), header.api_version
        if route is None:
            raise ProtocolError(f"API key {header.api_key} is unknown or not served")
        if version not in route.versions:
            return self._wrong_version(route, header)
        request = decode_request(header, frame)
        route.stats.count(len(frame))
        response = route.handler(request, RequestContext(connection, version, header.client_id))
        if type(response) is GeneratorType:
            response = self._sliced.start(response)
        if response is not None and type(response) is not route.api.response:
            future = asyncio.ensure_future(response)
            return Later(future, route, version, header.correlation_id, self._clock, start)
        route.stats.time(self._clock.monotonic() - start)
        if response is None:
            return None
        return encode_response(route.api, version, header.correlation_id, response)

    def _wrong_version(self, route: Route, header: RequestHeader) -> list[Part]:
        """Tell a client that asks for API versions what we speak; end the talk with any other.

        Whatever the client speaks, it can read version 0 of that answer (KIP-511).
        """
        if route.api.key != API_VERSIONS_KEY:
            raise ProtocolError(f"{route.api.name} version {header.api_version} is not served")
        answer = self._unsupported_api_versions()
        return encode_response(route.api, 0, header.correlation_id, answer)
