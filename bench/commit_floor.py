"""How many offset commits a second a broker in Python could answer that had nothing to do for them.

    python -m bench.commit_floor

The load is that of the commits in `make bench`: fifty connections, each with one request under way.
It is answered by servers that look at no byte of a request and send the same answer to each: a bare
loop around epoll, which is the least that Python can do, and one on our own sockets. What a broker
does beside that comes on top. It says how much of a bar the language has taken before we begin.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import select
import socket
import statistics
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import NamedTuple

from bench.commit_load import commit_frame
from bench.request_loop import RequestLoop
from bench.usage import cpu_seconds
from bench.works.commits import GROUPS
from moldau.base.network import Stream
from moldau.server.workers.executor import PoolExecutor
from moldau.transport.sockets import SocketNetwork

ANSWER = (28).to_bytes(4, "big") + bytes(28)
"""As large as the answer to a commit of one partition."""
WARM_UP_S = 1.0
ROUNDS = 3

Serve = Callable[[Connection], None]


def bare(ready: Connection) -> None:
    """Answer in a loop around epoll until the process is ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    ready.send(listener.getsockname()[1])
    poll = select.epoll()
    clients = {}
    for _ in range(GROUPS):
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        poll.register(client, select.EPOLLIN)
        clients[client.fileno()] = client
    while True:
        for descriptor, _ in poll.poll():
            client = clients[descriptor]
            client.recv(65_536)
            client.send(ANSWER)


def own_sockets(ready: Connection) -> None:
    """Answer on the sockets of the broker until the process is ended."""
    asyncio.run(_own_sockets(ready))


async def _own_sockets(ready: Connection) -> None:
    network = SocketNetwork(PoolExecutor())
    listener = await network.listen("127.0.0.1", 0, Answering)
    ready.send(listener.address.port)
    await asyncio.Event().wait()


class Answering:
    """Takes what comes for one request."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def received(self, data: memoryview) -> int:
        """Answer it."""
        self._stream.send([ANSWER])
        return len(data)

    def drained(self) -> None:
        """Do nothing: answers are small."""

    def closed(self, error: Exception | None) -> None:
        """Do nothing: the process ends."""


WAYS: dict[str, Serve] = {"a bare loop": bare, "our sockets": own_sockets}


class Floor(NamedTuple):
    """What a server has done."""

    rate: float
    cpu_us: float
    """Of its process, for an answer."""


def measure(serve: Serve, seconds: float) -> Floor:
    """Return the answers a second of a server."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    server.start()
    there.close()
    try:
        port = here.recv()
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(GROUPS)]
        for client in clients:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = commit_frame("bench-commits-0", "commits", 1, 1, f"bench-{'0' * 36}")
        loop = RequestLoop(clients, [frame] * GROUPS, [ANSWER] * GROUPS)
        loop.run(WARM_UP_S)
        assert server.pid is not None
        before_s = cpu_seconds(server.pid)
        count = loop.run(seconds)
        return Floor(count / seconds, (cpu_seconds(server.pid) - before_s) / count * 1e6)
    finally:
        server.kill()
        server.join()


def main() -> None:
    """Measure both in turn and print medians and spreads."""
    parser = argparse.ArgumentParser(description="commits a second of a broker that does nothing")
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    floors: dict[str, list[Floor]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, serve in WAYS.items():
            floors[name].append(measure(serve, seconds))
    for name, found in floors.items():
        rates = [one.rate for one in found]
        cpu_us = statistics.median(one.cpu_us for one in found)
        print(
            f"{name}: {statistics.median(rates):,.0f} commits/s ({min(rates):,.0f} to"
            f" {max(rates):,.0f}), {cpu_us:.1f} us of the server's CPU each"
        )


if __name__ == "__main__":
    main()
