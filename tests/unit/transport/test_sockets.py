"""What only real sockets can do wrong."""

from __future__ import annotations

import asyncio
import errno
import pickle
import socket

import pytest

from moldau.transport import stream as streams
from moldau.transport.readiness import OwnEpoll
from moldau.transport.sockets import SocketNetwork


class Keeper:
    """Takes a byte of what comes, and keeps hold of the rest, which it must not."""

    def __init__(self, stream):
        self.stream = stream
        self.kept = []
        self.ended = asyncio.get_running_loop().create_future()

    def received(self, data):
        self.kept.append(pickle.PickleBuffer(data))
        return 1

    def drained(self):
        """Hear of nothing."""

    def closed(self, error):
        self.ended.set_result(error)


def adopt(network, make):
    """Return our end of a connection, whoever owns it, and the other one."""
    near, far = socket.socketpair()
    owners = []

    def accept(stream):
        owners.append(make(stream))
        return owners[0]

    return network.adopt(near, accept), owners[0], far


@pytest.fixture
def addresses(monkeypatch):
    """Unnamed sockets stand for those of a network."""
    monkeypatch.setattr(streams, "address_of", lambda name: "somewhere")


@pytest.mark.usefixtures("addresses")
def test_who_keeps_what_it_was_shown_loses_its_stream(caplog):
    async def scenario():
        _, owner, far = adopt(SocketNetwork(), Keeper)
        with far:
            far.send(b"abc")
            assert isinstance(await owner.ended, BufferError)
        owner.kept.clear()

    asyncio.run(scenario())
    assert "a bug while handling what it sent" in caplog.text


@pytest.mark.usefixtures("addresses")
def test_a_stream_that_cannot_be_watched_is_closed_again(monkeypatch, caplog):
    def refuse(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    async def scenario():
        stream, owner, far = adopt(SocketNetwork(), Keeper)
        with far:
            assert stream is None
            assert await owner.ended is None
            assert far.recv(1) == b""

    monkeypatch.setattr(OwnEpoll, "add_reader", refuse)
    asyncio.run(scenario())
    assert "cannot be watched: Too many open files" in caplog.text
