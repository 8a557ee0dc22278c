"""The part of a rebalance that is timed, on bare sockets.

Whatever the client does here is in the figure, for every broker alike: on an event loop, with
requests that are made and answers that are read meanwhile, it took more time than the broker under
test. So both requests of every member are ready before, the leader's assignment included, and all
that is left to do is to wait, to read, to see whether an answer is whole, and to send.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable

_PREFIX = 4
_CHUNK = 65_536
"""More than the largest answer, the leader's, has with a hundred members."""
_TIMEOUT_S = 60


class Lane:
    """One member: its connection, what it sends, and what it was told."""

    __slots__ = ("answers", "descriptor", "join", "received", "sync")

    def __init__(self, descriptor: int, join: bytes, sync: bytes) -> None:
        self.descriptor = descriptor
        self.join = join
        self.sync = sync
        self.received = b""
        self.answers: list[bytes] = []
        """To the JoinGroup and to the SyncGroup, without their sizes."""

    def send(self, frame: bytes) -> None:
        """Send a frame, which an idle socket takes at once."""
        if os.write(self.descriptor, frame) != len(frame):
            raise RuntimeError("a socket has no room for a request")

    def receive(self) -> bool:
        """Take what has come; tell whether it completes an answer."""
        chunk = os.read(self.descriptor, _CHUNK)
        if not chunk:
            raise ConnectionResetError("the broker has hung up")
        received = self.received + chunk
        if len(received) < _PREFIX + int.from_bytes(received[:_PREFIX], "big"):
            self.received = received
            return False
        self.received = b""
        self.answers.append(received[_PREFIX:])
        return True


def rebalance(last: Lane, held: Iterable[Lane]) -> float:
    """Let the last member join whom the others wait for; return when all are assigned, in seconds.

    The broker holds the JoinGroup of the others.
    """
    lanes = {lane.descriptor: lane for lane in (last, *held)}
    left = len(lanes)
    with select.epoll() as poll:
        for descriptor in lanes:
            poll.register(descriptor, select.EPOLLIN)
        began = time.perf_counter()
        last.send(last.join)
        while left:
            ready = poll.poll(_TIMEOUT_S)
            if not ready:
                raise RuntimeError(f"{left} of {len(lanes)} members have no assignment")
            for descriptor, _ in ready:
                lane = lanes[descriptor]
                if not lane.receive():
                    continue
                if len(lane.answers) == 1:
                    lane.send(lane.sync)
                else:
                    left -= 1
        return time.perf_counter() - began
