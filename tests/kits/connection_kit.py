"""What tests of a connection share: a stream that remembers, and answers that come later."""

import asyncio
import struct

from kits.request_kit import session
from moldau.base.network import Address
from moldau.base.prompt_future import PromptFuture
from moldau.server.network.connection import Connection


class FakeStream:
    """Remembers what a connection does to its stream."""

    def __init__(self):
        self.peer = Address("127.0.0.1", 50000)
        self.local = Address("127.0.0.1", 9092)
        self.unsent = 0
        self.sent = []
        self.expected = None
        self.paused = False
        self.ended = None

    def send(self, parts):
        self.sent += [bytes(part) for part in parts]

    def expect(self, size):
        self.expected = size

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def close(self):
        self.ended = self.ended or "closed"

    def abort(self):
        self.ended = "aborted"


class Later:
    """An answer that comes when the test says so."""

    work = None

    def __init__(self, *, is_applied=False):
        self.future = asyncio.get_running_loop().create_future()
        self.is_applied = is_applied
        self.abandoned = False

    def listen(self, listener):
        if isinstance(self.future, PromptFuture):
            self.future.listen(listener)
        else:
            self.future.add_done_callback(listener)

    def framed(self):
        return [self.future.result()]

    def abandon(self):
        self.abandoned = True


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def connect(dispatch, *, frame_limit=1000):
    stream = FakeStream()
    closed = []
    connection = Connection(
        stream, session("127.0.0.1"), dispatch, frame_limit=frame_limit, on_close=closed.append
    )
    return connection, stream, closed


def echo(_connection, content):
    """A dispatch that answers at once."""
    return [b"<", bytes(content), b">"]


def scripted(answers):
    """A dispatch with these answers, by the content of a frame; all others are echoed."""
    seen = []

    def dispatch(_connection, content):
        seen.append(bytes(content))
        answer = answers.get(bytes(content), [bytes(content)])
        if isinstance(answer, Exception):
            raise answer
        return answer

    return dispatch, seen
