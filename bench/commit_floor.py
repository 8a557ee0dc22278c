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

from bench.commit_load import CommitLoop, commit_frame
from bench.works.commits import GROUPS
from moldau.base.network import Stream
from moldau.server.executor import PoolExecutor
from moldau.transport.sockets import SocketNetwork

ANSWER = (36).to_bytes(4, "big") + bytes(36)
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


def measure(serve: Serve, seconds: float) -> float:
    """Return the answers a second of a server."""
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    server.start()
    try:
        port = here.recv()
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(GROUPS)]
        for client in clients:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        frame = commit_frame("bench-commits-0", "commits", 1, 1, f"bench-{'0' * 36}")
        loop = CommitLoop(clients, [frame] * GROUPS, [ANSWER] * GROUPS)
        loop.run(WARM_UP_S)
        return loop.run(seconds) / seconds
    finally:
        server.kill()
        server.join()


def main() -> None:
    """Measure both in turn and print medians and spreads."""
    parser = argparse.ArgumentParser(description="commits a second of a broker that does nothing")
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(ROUNDS):
        for name, serve in WAYS.items():
            rates[name].append(measure(serve, seconds))
    for name, found in rates.items():
        median = statistics.median(found)
        print(
            f"{name}: {median:,.0f} commits/s ({min(found):,.0f} to {max(found):,.0f}),"
            f" {1e6 / median:.1f} us each"
        )


if __name__ == "__main__":
    main()
