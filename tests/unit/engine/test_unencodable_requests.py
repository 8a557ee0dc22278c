"""A request that the wire cannot carry is an error of the client, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.network import Address
from moldau.client.errors import InvalidArgument
from moldau.engine.connection import ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.data import ProduceRequest

VERSION = 9


class Stream:
    """A stream that takes everything."""

    peer = Address("broker", 9092)
    unsent = 0

    def __init__(self):
        self.sent = 0

    def send(self, parts):
        self.sent += sum(map(len, parts))


@pytest.mark.parametrize("name", [5, "\ud800"])
def test_what_cannot_be_written_is_an_invalid_argument(name):
    async def scenario():
        stream, connection = Stream(), ClientConnection(ConnectionSettings())
        connection._accept(stream)
        request = ProduceRequest(name, 0, 1000, [])
        with pytest.raises(InvalidArgument, match="ProduceRequest v9: transactional_id"):
            connection.send(request, VERSION)
        assert stream.sent == 0

    asyncio.run(scenario())
