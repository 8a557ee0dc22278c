"""A server that does not know multis is refused in plain words."""

from __future__ import annotations

import asyncio
import struct

import pytest

from moldau.cluster.zookeeper.client.connect_string import ConnectString
from moldau.cluster.zookeeper.client.kazoo_session import KazooZooKeeper, ZooKeeperSettings
from moldau.cluster.zookeeper.client.port import RequestRefused

MULTI = 14
UNIMPLEMENTED = -6


async def serve_as_old_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Open a session, and answer each request: multis are unknown."""
    try:
        await read_frame(reader)
        write_frame(writer, struct.pack(">iiqi16s", 0, 10_000, 1, 16, b""))
        while True:
            number, kind = struct.unpack_from(">ii", await read_frame(reader))
            error = UNIMPLEMENTED if kind == MULTI else 0
            write_frame(writer, struct.pack(">iqi", number, 1, error))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)


def test_a_server_without_multis_is_too_old():
    async def test() -> None:
        server = await asyncio.start_server(serve_as_old_server, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        zookeeper = KazooZooKeeper(ZooKeeperSettings(ConnectString((address,), "")))
        session = await zookeeper.open_session(lambda state: None)
        try:
            with pytest.raises(RequestRefused, match=r"^/a: the server is too old .* 3\.4 or"):
                await session.create("/a")
        finally:
            await session.close()
            server.close()

    asyncio.run(test())
