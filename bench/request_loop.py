"""One request after the other on many connections, each sent when the one before is answered.

The frames are made once, and answers that are right begin with the same bytes, so the client does
next to nothing and the broker is the limit.
"""

from __future__ import annotations

import select
import socket
import time


def connected(address: str) -> socket.socket:
    """Connect to a broker."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class RequestLoop:
    """Sends on every connection as soon as the answer is there."""

    def __init__(
        self, sockets: list[socket.socket], frames: list[bytes], expected: list[bytes]
    ) -> None:
        self._poll = select.epoll()
        self._lanes = {}
        for connection, frame, answer in zip(sockets, frames, expected, strict=True):
            self._poll.register(connection, select.EPOLLIN)
            self._lanes[connection.fileno()] = (connection, frame, answer)

    def run(self, seconds: float) -> int:
        """Send for so long, then wait for what is on its way; return how many were answered."""
        for connection, frame, _ in self._lanes.values():
            connection.sendall(frame)
        until = time.perf_counter() + seconds
        count = 0
        while time.perf_counter() < until:
            for descriptor, _ in self._poll.poll():
                connection, frame, expected = self._lanes[descriptor]
                self._take(connection, expected)
                connection.send(frame)
                count += 1
        for connection, _, expected in self._lanes.values():
            self._take(connection, expected)
        return count

    def close(self) -> None:
        """End all connections."""
        for connection, _, _ in self._lanes.values():
            connection.close()
        self._poll.close()

    def _take(self, connection: socket.socket, expected: bytes) -> None:
        answer = connection.recv(65_536)
        if not answer.startswith(expected):
            raise RuntimeError(f"a request was answered with {answer.hex()}")
