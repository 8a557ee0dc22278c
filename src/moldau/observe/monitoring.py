"""The port for those who watch a broker: `/metrics`, `/healthz`, `/readyz`.

HTTP, as little of it as they need: one GET or HEAD per connection, no body. It runs in a thread
with an event loop of its own, so that a scrape never holds up clients, and the health of a busy
broker is still told.

Anybody may connect, so everything is bounded: the size of a request, the time for it and for
reading the answer, and the number of connections. When there are too many, the oldest has to go: a
scraper gets in however many others stay silent.

Owns the port. Knows nothing of Prometheus: a page is a function.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

HEAD_BYTES: Final = 8 * 1024
"""A request of Prometheus has a few hundred."""
CONNECTION_S: Final = 10.0
"""From the first byte to the last; Prometheus gives up after ten seconds too."""
CONNECTIONS_MAX: Final = 32
BACKLOG: Final = 16
STOP_JOIN_S: Final = 5.0

_TEXT: Final = ("Content-Type", "text/plain; charset=utf-8")


class Request(NamedTuple):
    """What was asked for."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """By lower-case name."""


class Answer(NamedTuple):
    """What is sent back."""

    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[str, str], ...] = (_TEXT,)


Page = Callable[[Request], Answer]


class Health:
    """Whether the broker serves; set by its event loop, read by the port's thread."""

    def __init__(self) -> None:
        self.obstacle: str | None = "starting"
        """Why it does not serve; None while it does."""

    def healthz(self, request: Request) -> Answer:
        """Say that the process is alive: it answers."""
        del request
        return plain(HTTPStatus.OK, "ok")

    def readyz(self, request: Request) -> Answer:
        """Say whether clients are answered."""
        del request
        obstacle = self.obstacle
        if obstacle is not None:
            return plain(HTTPStatus.SERVICE_UNAVAILABLE, obstacle)
        return plain(HTTPStatus.OK, "ready")

    def while_ready(self, page: Page) -> Page:
        """Return a page that is there only while the broker serves."""
        return lambda request: page(request) if self.obstacle is None else self.readyz(request)


def plain(status: HTTPStatus, line: str) -> Answer:
    """Make an answer of one line."""
    return Answer(status, f"{line}\n".encode())


class MonitoringPort:
    """An open port; OSError if it cannot be had."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._connections: dict[asyncio.StreamWriter, None] = {}
        self._socket = _listening(host, port)
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="monitoring", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The real port, also when 0 was asked for."""
        number: int = self._socket.getsockname()[1]
        return number

    def close(self) -> None:
        """Stop serving; answers under way are cut."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(STOP_JOIN_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(
            self._connected, sock=self._socket, limit=HEAD_BYTES, backlog=BACKLOG
        )
        await self._closing.wait()
        server.close()
        for writer in tuple(self._connections):
            writer.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_MAX:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.transport.abort()
        self._connections[writer] = None
        try:
            async with asyncio.timeout(CONNECTION_S):
                await self._answer(reader, writer)
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError):
            pass  # it left, or is too slow
        finally:
            self._connections.pop(writer, None)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method = "GET"
        try:
            request = parse(await reader.readuntil(b"\r\n\r\n"))
            method = request.method
            answer = self._page(request)
        except asyncio.LimitOverrunError:
            answer = plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request is too large")
        except ValueError:
            answer = plain(HTTPStatus.BAD_REQUEST, "this is no HTTP request")
        writer.write(_written(answer, with_body=method != "HEAD"))
        await writer.drain()

    def _page(self, request: Request) -> Answer:
        page = self._pages.get(request.path)
        if page is None:
            return plain(HTTPStatus.NOT_FOUND, f"there are {', '.join(self._pages)}")
        if request.method not in ("GET", "HEAD"):
            refusal = plain(HTTPStatus.METHOD_NOT_ALLOWED, "GET is answered")
            return refusal._replace(headers=(_TEXT, ("Allow", "GET, HEAD")))
        try:
            return page(request)
        except Exception:
            logger.exception("a bug while answering %s", request.path)
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR, "a bug, see the broker's log")


def parse(head: bytes) -> Request:
    """Read a request up to the empty line; ValueError if it is none."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1.") or not target.startswith("/") or not method.isalpha():
        raise ValueError(first)
    path, _, query = target.partition("?")
    headers = {}
    for line in filter(None, lines):
        name, colon, value = line.partition(":")
        if not colon:
            raise ValueError(line)
        headers[name.lower()] = value.strip()
    return Request(method, path, query, headers)


def _written(answer: Answer, *, with_body: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
        *(f"{name}: {value}" for name, value in answer.headers),
        f"Content-Length: {len(answer.body)}",
        "Connection: close",
    ]
    head = "".join(f"{line}\r\n" for line in lines).encode("latin-1") + b"\r\n"
    return head + answer.body if with_body else head


def _listening(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with contextlib.ExitStack() as undo:
        opened = undo.enter_context(socket.socket(family, kind, protocol))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
        undo.pop_all()
    return opened
