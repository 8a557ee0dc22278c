"""What a server refuses is told in plain words."""

from __future__ import annotations

import asyncio
import struct
from functools import partial

import pytest

from moldau.cluster.zookeeper.client.connect_string import ConnectString
from moldau.cluster.zookeeper.client.kazoo_session import KazooZooKeeper, ZooKeeperSettings
from moldau.cluster.zookeeper.client.port import RequestRefused

MULTI = 14
UNIMPLEMENTED = -6
NO_AUTH = -102


async def serve(code: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Open a session, and answer each request: multis are refused."""
    try:
        await read_frame(reader)
        write_frame(writer, struct.pack(">iiqi16s", 0, 10_000, 1, 16, b""))
        while True:
            number, kind = struct.unpack_from(">ii", await read_frame(reader))
            error = code if kind == MULTI else 0
            write_frame(writer, struct.pack(">iqi", number, 1, error))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def write_frame(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (UNIMPLEMENTED, r"the server is too old .* 3\.4 or"),
        (NO_AUTH, "the access list of the node does not allow it"),
    ],
)
def test_a_write_that_a_server_refuses(code, reason):
    async def test() -> None:
        server = await asyncio.start_server(partial(serve, code), "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        zookeeper = KazooZooKeeper(ZooKeeperSettings(ConnectString((address,), "")))
        session = await zookeeper.open_session(lambda state: None)
        try:
            with pytest.raises(RequestRefused, match=f"^/a: {reason}"):
                await session.create("/a")
        finally:
            await session.close()
            server.close()

    asyncio.run(test())
