"""A request that is not answered is done when the last byte of it has left, and not before."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.network import Address
from moldau.client.errors import ConnectionLost, RequestTimedOut
from moldau.engine.connection import ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.data import ProduceRequest

PRODUCE = ProduceRequest(None, 0, 1000, [])
VERSION = 9


class FullStream:
    """A stream whose peer takes nothing until the test says so."""

    peer = Address("broker", 9092)

    def __init__(self):
        self.unsent = 0
        self.receiver = None
        self.used = asyncio.Event()

    def send(self, parts):
        self.unsent += sum(map(len, parts))
        self.used.set()

    def leave(self):
        self.unsent = 0
        self.receiver.drained()

    def abort(self):
        self.receiver.closed(None)


def connected(**settings):
    stream = FullStream()
    connection = ClientConnection(ConnectionSettings(**settings))
    stream.receiver = connection._accept(stream)
    return connection, stream


def test_it_is_done_when_its_bytes_have_left():
    async def scenario():
        connection, stream = connected()
        sent = [connection.send(PRODUCE, VERSION, answered=False) for _ in range(3)]
        assert not any(one.done() for one in sent)
        stream.leave()
        assert [one.result() for one in sent] == [None] * 3
        connection.close()

    asyncio.run(scenario())


def test_it_fails_if_the_connection_ends_before():
    async def scenario():
        connection, stream = connected()
        sent = connection.send(PRODUCE, VERSION, answered=False)
        stream.receiver.closed(ConnectionResetError())
        with pytest.raises(ConnectionLost):
            await sent

    asyncio.run(scenario())


def test_one_that_a_broker_asked_to_keep_back_is_not_done_before_it_was_sent():
    async def scenario():
        connection, stream = connected()
        connection._keep_quiet(0.01)
        sent = connection.send(PRODUCE, VERSION, answered=False)
        connection.drained()
        assert not sent.done()
        await stream.used.wait()
        assert not sent.done()
        stream.leave()
        assert await sent is None
        connection.close()

    asyncio.run(scenario())


def test_a_broker_that_takes_nothing_is_not_waited_for_for_ever():
    async def scenario():
        connection, _ = connected(request_timeout_ms=10)
        with pytest.raises(RequestTimedOut, match="Produce"):
            await connection.send(PRODUCE, VERSION, answered=False)
        assert not connection.is_open

    asyncio.run(scenario())
