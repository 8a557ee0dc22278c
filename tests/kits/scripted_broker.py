"""A broker that says what a test has written for it, over a raw asyncio server.

It knows the protocol well enough to answer honestly (ApiVersions, Metadata, FindCoordinator), and
a test replaces any of the answers by bytes of its own, by silence, or by the end of the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self

from moldau.protocol.compiler import encoder
from moldau.protocol.messages.metadata import (
    ApiVersion,
    ApiVersionsResponse,
    Coordinator,
    FindCoordinatorResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.registry import (
    RequestHeader,
    decode_header,
    decode_request,
    encode_response,
    find_api,
)

PRODUCE, METADATA, FIND_COORDINATOR, HEARTBEAT, API_VERSIONS = 0, 3, 10, 12, 18
SERVED = (PRODUCE, METADATA, FIND_COORDINATOR, HEARTBEAT, API_VERSIONS)
HOST = "127.0.0.1"
ACCEPT_TURNS = 3
"""Turns of the loop until a connection that was accepted is being served."""


class Asked(NamedTuple):
    """One request, as it arrived."""

    header: RequestHeader
    request: Any
    writer: asyncio.StreamWriter

    def encoded(self, response: Any, *, version: int | None = None) -> bytes:
        """Return the frame that answers with this message."""
        at = self.header.api_version if version is None else version
        api = find_api(self.header.api_key)
        return b"".join(encode_response(api, at, self.header.correlation_id, response))

    def answer(self, response: Any) -> None:
        self.writer.write(self.encoded(response))

    def frame(self, payload: bytes, *, correlation_id: int | None = None) -> None:
        """Answer with bytes that need not be the protocol."""
        number = self.header.correlation_id if correlation_id is None else correlation_id
        self.writer.write(struct.pack(">ii", 4 + len(payload), number) + payload)


Answer = Callable[[Asked], Awaitable[None] | None]


class ScriptedBroker:
    """A server on a loopback port, to be used in `async with`; `asked` holds what it was sent."""

    def __init__(self, broker_id: int = 1, **answers: Answer) -> None:
        self.broker_id = broker_id
        self.port = 0
        self.asked: list[Asked] = []
        self.connections = 0
        self.peers: list[ScriptedBroker] = [self]
        self.topics: dict[str, list[tuple[int, int]]] = {}
        """Leader and epoch of each partition, by topic."""
        self.newest = {key: find_api(key).versions.last for key in SERVED}
        self._answers: dict[int, Answer] = {
            API_VERSIONS: self.say_versions,
            METADATA: self.say_metadata,
            FIND_COORDINATOR: self.say_coordinator,
        }
        for name, answer in answers.items():
            self.on(name, answer)
        self._arrived = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._readers: set[asyncio.Task[None]] = set()

    def on(self, name: str, answer: Answer) -> None:
        """Answer an API (`metadata`, `api_versions`, ...) this way from now on."""
        self._answers[globals()[name.upper()]] = answer

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def requests(self, key: int) -> list[Any]:
        """Return the requests of one API, in order."""
        return [asked.request for asked in self.asked if asked.header.api_key == key]

    async def until_asked(self, key: int, count: int) -> None:
        """Wait until this many requests of one API have arrived."""
        while len(self.requests(key)) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Close the port and every connection, as a process that ends."""
        if self._server is not None:
            # A server that is closed between accepting a connection and taking it on loses the
            # socket (gh-109564, in Python up to 3.12). So what was accepted comes first.
            for _ in range(ACCEPT_TURNS):
                await asyncio.sleep(0)
            self._server.close()
            self._server = None
        self.drop_connections()
        if self._readers:
            await asyncio.wait(self._readers)

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._writers.append(writer)
        self._readers.add(task)
        task.add_done_callback(self._readers.discard)
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await self._handle(memoryview(await reader.readexactly(size)), writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    async def _handle(self, frame: memoryview, writer: asyncio.StreamWriter) -> None:
        header = decode_header(frame)
        known = header.api_version <= find_api(header.api_key).versions.last
        asked = Asked(header, decode_request(header, frame) if known else None, writer)
        self.asked.append(asked)
        self._arrived.set()
        done = self._answers[header.api_key](asked)
        if done is not None:
            await done

    # The honest answers

    def say_versions(self, asked: Asked) -> None:
        if asked.header.api_version > self.newest[API_VERSIONS]:
            refusal = ApiVersionsResponse(35, [ApiVersion(18, 0, self.newest[API_VERSIONS])])
            asked.writer.write(asked.encoded(refusal, version=0))
            return
        keys = [ApiVersion(key, find_api(key).versions.first, self.newest[key]) for key in SERVED]
        asked.answer(ApiVersionsResponse(api_keys=keys))

    def say_metadata(self, asked: Asked) -> None:
        asked.answer(self.metadata(asked.request))

    def metadata(self, request: Any) -> MetadataResponse:
        """Return what an honest broker answers."""
        names = (
            list(self.topics) if request.topics is None else [one.name for one in request.topics]
        )
        return MetadataResponse(
            brokers=[MetadataResponseBroker(one.broker_id, HOST, one.port) for one in self.peers],
            cluster_id="scripted",
            controller_id=self.broker_id,
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        leaders = self.topics.get(name)
        if leaders is None:
            return MetadataResponseTopic(error_code=3, name=name)
        partitions = [
            MetadataResponsePartition(0, index, leader, epoch, [leader], [leader])
            for index, (leader, epoch) in enumerate(leaders)
        ]
        return MetadataResponseTopic(
            name=name, topic_id=name.encode().ljust(16, b"\1"), partitions=partitions
        )

    def say_coordinator(self, asked: Asked) -> None:
        asked.answer(
            FindCoordinatorResponse(
                node_id=self.broker_id,
                host=HOST,
                port=self.port,
                coordinators=[Coordinator("", self.broker_id, HOST, self.port)],
            )
        )


def silence(asked: Asked) -> None:
    """Answer nothing."""


def encoded_body(message: Any, version: int) -> bytes:
    """Return a message without any header, to be cut or changed."""
    return b"".join(encoder(type(message), version)(message))
