"""The questions that tell what a broker is ready for and who leads, over a plain socket.

ApiVersions is answered before anything else is known of a broker; ListOffsets is answered for a
partition that is led and loaded. They are sent by hand, because a client library answers late for
reasons of its own: librdkafka drops a request when it swaps its bootstrap connection for the real
one, and asks again after a second or three.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping

_CORRELATION = 7
_LATEST = -1
"""The timestamp that asks ListOffsets for the end of a log."""


_PAUSE_S = 0.005
"""Small against the quickest start we measure, large against what a refused connection costs."""


def ask_api_versions(host: str, port: int, timeout_s: float = 1.0) -> dict[int, tuple[int, int]]:
    """Return key -> (lowest, highest) version, or raise OSError while there is no answer."""
    body = _exchange(host, port, _header(18, 0), timeout_s)
    error, count = struct.unpack_from(">hi", body)
    if error != 0:
        raise OSError(f"ApiVersions answered with error {error}")
    ranges = struct.iter_unpack(">hhh", body[6 : 6 + 6 * count])
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


def unserved_partitions(
    host: str, port: int, topics: Mapping[str, int], timeout_s: float = 30
) -> list[tuple[str, int]]:
    """Return the partitions, of topics with so many each, that do not tell their end offset.

    ListOffsets 1 is the oldest version all brokers here take, and the plainest.
    """
    request = bytearray(_header(2, 1) + struct.pack(">ii", -1, len(topics)))
    for name, count in topics.items():
        request += struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", count)
        for partition in range(count):
            request += struct.pack(">iq", partition, _LATEST)
    body = _exchange(host, port, bytes(request), timeout_s)
    (topic_count,) = struct.unpack_from(">i", body)
    position = 4
    unserved = []
    for _ in range(topic_count):
        (length,) = struct.unpack_from(">h", body, position)
        name = body[position + 2 : position + 2 + length].decode()
        (count,) = struct.unpack_from(">i", body, position + 2 + length)
        position += 6 + length
        for partition, error, _, _ in struct.iter_unpack(">ihqq", body[position:][: 22 * count]):
            if error != 0:
                unserved.append((name, partition))
        position += 22 * count
    return unserved


def known_isrs(
    host: str, port: int, topics: Iterable[str], timeout_s: float = 30
) -> dict[tuple[str, int], set[int]]:
    """Return the replicas in sync of each partition, as this very broker knows them (Metadata 1).

    A client library asks any broker, also one that has just started and knows old things.
    """
    names = [name.encode() for name in topics]
    asked = b"".join(struct.pack(">h", len(name)) + name for name in names)
    body = _exchange(host, port, _header(3, 1) + struct.pack(">i", len(names)) + asked, timeout_s)
    answer = _Reader(body)
    for _ in range(answer.take("i")):
        answer.take("i")
        answer.text()
        answer.take("i")
        answer.text()
    answer.take("i")
    isrs = {}
    for _ in range(answer.take("i")):
        answer.take("h")
        name = answer.text()
        answer.take("b")
        for _ in range(answer.take("i")):
            answer.take("h")
            partition = answer.take("i")
            answer.take("i")
            answer.numbers()
            isrs[name, partition] = set(answer.numbers())
    return isrs


def quorum_leader(host: str, port: int, timeout_s: float = 5.0) -> int:
    """Return the leader of the metadata log, as DescribeQuorum 0 tells it; -1 if there is none."""
    topic = b"__cluster_metadata"
    asked = struct.pack(">BB", 2, len(topic) + 1) + topic + struct.pack(">BiBBB", 2, 0, 0, 0, 0)
    body = _exchange(host, port, _header(55, 0) + b"\0" + asked, timeout_s)
    # Tags of the header, the error, one topic by name, one partition and its error.
    _, error, _, length = struct.unpack_from(">BhBB", body)
    leader: int = struct.unpack_from(">Bihi", body, 5 + length - 1)[3] if error == 0 else -1
    return leader


class _Reader:
    """Takes the plain types of the protocol from an answer, one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    def take(self, kind: str) -> int:
        (value,) = struct.unpack_from(f">{kind}", self._body, self._position)
        self._position += struct.calcsize(kind)
        return int(value)

    def text(self) -> str:
        length = max(0, self.take("h"))
        self._position += length
        return self._body[self._position - length : self._position].decode()

    def numbers(self) -> list[int]:
        return [self.take("i") for _ in range(self.take("i"))]


def _header(api_key: int, version: int) -> bytes:
    """Return a request header v1 without a client id."""
    return struct.pack(">hhih", api_key, version, _CORRELATION, -1)


def _exchange(host: str, port: int, request: bytes, timeout_s: float) -> bytes:
    """Send one request over a connection of its own and return the body of the answer."""
    with socket.create_connection((host, port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        answer = _receive(connection, size)
    (correlation,) = struct.unpack_from(">i", answer)
    if correlation != _CORRELATION:
        raise OSError(f"answered with correlation {correlation}")
    return answer[4:]


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise OSError("closed before the answer was complete")
        received += chunk
    return bytes(received)
