"""Own sockets against asyncio's transports, on asyncio's loop and on uvloop's if it is installed.

    python -m bench.event_loops

A server takes frames and answers each with sixteen bytes; a client in another process sends small
frames one at a time (latency) and megabyte frames in a row (throughput). Nothing of Kafka is
involved: this is the ground that docs/adr/0001-own-sockets-on-asyncio.md stands on.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import statistics
import struct
import time
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing.connection import Connection
from typing import Any

from moldau.base.network import Stream
from moldau.server.workers.executor import PoolExecutor
from moldau.transport.sockets import SocketNetwork

ANSWER = bytes(16)
SMALL, LARGE = 200, 1 << 20
ROUNDS = 3

_size = struct.Struct(">i")


def whole_frames(data: memoryview) -> tuple[int, int]:
    """Count the whole frames at the head and the bytes they take."""
    position = count = 0
    while len(data) - position >= 4:
        end = position + 4 + _size.unpack_from(data, position)[0]
        if end > len(data):
            break
        position, count = end, count + 1
    return count, position


class OwnReceiver:
    """The server over `transport.sockets`: frames are seen where they were received."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def received(self, data: memoryview) -> int:
        count, used = whole_frames(data)
        if count:
            self._stream.send([ANSWER * count])
        if len(data) - used >= 4:
            self._stream.expect(4 + _size.unpack_from(data, used)[0])
        return used

    def drained(self) -> None:
        pass

    def closed(self, error: Exception | None) -> None:
        pass


class TransportReceiver(asyncio.Protocol):
    """The same server over a transport, which hands out a new bytes object for every read."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        with memoryview(self._held) as view:
            count, used = whole_frames(view)
        del self._held[:used]
        if count:
            self._transport.write(ANSWER * count)


async def _serve(own: bool, ready: Connection) -> None:
    if own:
        network = SocketNetwork(PoolExecutor())
        listener = await network.listen("127.0.0.1", 0, OwnReceiver)
        ready.send(listener.address.port)
    else:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(TransportReceiver, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


def serve(own: bool, uvloop: bool, ready: Connection) -> None:
    """Run a server until the process is ended."""
    if uvloop:
        import uvloop as faster  # noqa: PLC0415 - only where it is installed

        faster.run(_serve(own, ready))
    else:
        asyncio.run(_serve(own, ready))


def one_at_a_time(client: socket.socket, count: int) -> list[float]:
    """Send small frames, each after the answer to the one before; seconds of each."""
    frame = _size.pack(SMALL) + bytes(SMALL)
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        client.sendall(frame)
        client.recv(64)
        seconds.append(time.perf_counter() - start)
    return seconds


def in_a_row(client: socket.socket, count: int) -> float:
    """Send large frames in pairs and wait for the answers; bytes a second."""
    frame = _size.pack(LARGE) + bytes(LARGE)
    start = time.perf_counter()
    for _ in range(count):
        client.sendall(frame)
        answered = 0
        while answered < len(ANSWER):
            answered += len(client.recv(64))
    return count * len(frame) / (time.perf_counter() - start)


def measure(own: bool, uvloop: bool, scale: float) -> tuple[float, float, float]:
    """Return p50 and p99 in microseconds and megabytes a second of one server."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(own, uvloop, there))
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", here.recv())) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one_at_a_time(client, 500)
            seconds = sorted(one_at_a_time(client, int(20_000 * scale)))
            speed = in_a_row(client, int(2_000 * scale))
    finally:
        server.kill()
        server.join()
    p50, p99 = (seconds[int(len(seconds) * part)] * 1e6 for part in (0.5, 0.99))
    return p50, p99, speed / 1e6


def main() -> None:
    """Measure every way in turn, three rounds, and print the medians."""
    parser = argparse.ArgumentParser(description="own sockets against asyncio's transports")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    scale = 0.1 if parser.parse_args().quick else 1.0
    ways: list[tuple[str, bool, bool]] = [
        ("own sockets, asyncio", True, False),
        ("transports, asyncio", False, False),
    ]
    if find_spec("uvloop"):
        ways += [("own sockets, uvloop", True, True), ("transports, uvloop", False, True)]
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name, _, _ in ways}
    for _ in range(ROUNDS):
        for name, own, uvloop in ways:
            figures[name].append(measure(own, uvloop, scale))
    median: Callable[[list[float]], float] = statistics.median
    print(f"{'way':<24}{'p50 us':>10}{'p99 us':>10}{'MB/s':>10}")
    for name, rounds in figures.items():
        p50, p99, speed = (median(list(column)) for column in zip(*rounds, strict=True))
        print(f"{name:<24}{p50:>10.0f}{p99:>10.0f}{speed:>10.0f}")


if __name__ == "__main__":
    main()
