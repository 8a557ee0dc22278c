"""The first question a client asks, over a plain socket and without any client library.

ApiVersions is answered before anything else is known of a broker, so it tells readiness; being
sent here by hand, it tells it without the retry timers of a client.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable

_API_VERSIONS = struct.pack(">hhih", 18, 0, 7, -1)
"""Request header v1: key 18, version 0, correlation 7, no client id; the body is empty."""


_PAUSE_S = 0.005
"""Small against the quickest start we measure, large against what a refused connection costs."""


def free_port() -> int:
    """Return a loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask_api_versions(host: str, port: int, timeout_s: float = 1.0) -> dict[int, tuple[int, int]]:
    """Return key -> (lowest, highest) version, or raise OSError while there is no answer."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        body = _receive(connection, size)
    correlation, error, count = struct.unpack_from(">ihi", body)
    if correlation != 7 or error != 0:
        raise OSError(f"ApiVersions answered with correlation {correlation}, error {error}")
    ranges = struct.iter_unpack(">hhh", body[10 : 10 + 6 * count])
    return {key: (lowest, highest) for key, lowest, highest in ranges}


def answers(host: str, port: int) -> bool:
    """Tell whether a broker answers its first question now."""
    with contextlib.suppress(OSError):
        return bool(ask_api_versions(host, port))
    return False


def wait_until_answered(host: str, port: int, alive: Callable[[], bool], timeout_s: float) -> bool:
    """Ask until there is an answer, the process has gone, or the time is up."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and alive():
        if answers(host, port):
            return True
        time.sleep(_PAUSE_S)
    return False


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise OSError("closed before the answer was complete")
        received += chunk
    return bytes(received)
