"""A client's connection: whoever waits for an answer hears of it, whatever the broker sends."""

from __future__ import annotations

import asyncio
import struct

import pytest

from moldau.base.errors import ProtocolError
from moldau.base.network import Address
from moldau.client.errors import ConnectionLost, CorruptAnswer
from moldau.engine.connection import ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.framing import PREFIX_BYTES, frame_end
from moldau.protocol.messages.metadata import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
)
from moldau.protocol.registry import api_of, encode_response
from moldau.sim.network import SimNetwork
from moldau.sim.world import World

PORT = 9092
METADATA_VERSION = 9
FRAME_MAX = 1 << 20
EVERYTHING = ApiVersionsResponse(api_keys=[ApiVersion(3, 0, 12)])


class Answering:
    """A broker that agrees on versions and answers the second request with the given bytes."""

    def __init__(self, stream, answer):
        self._stream = stream
        self._answer = answer
        self._asked = 0
        self.ended = asyncio.Event()

    def received(self, data):
        position = 0
        while (end := frame_end(data, position, FRAME_MAX)) <= len(data):
            (correlation_id,) = struct.unpack_from(">i", data, position + PREFIX_BYTES + 4)
            self._asked += 1
            if self._asked == 1:
                api = api_of(ApiVersionsRequest)
                self._stream.send(encode_response(api, 5, correlation_id, EVERYTHING))
            elif self._asked == 2:
                frame = self._answer(correlation_id)
                self._stream.send([struct.pack(">i", len(frame)) + frame])
            position = end
        return position

    def drained(self):
        pass

    def closed(self, error):
        self.ended.set()


def undecodable(correlation_id):
    return struct.pack(">ib", correlation_id, 0) + b"\xff" * 20


def cut(correlation_id):
    return struct.pack(">i", correlation_id)


def too_short_for_an_id(correlation_id):
    return b"\0"


def out_of_order(correlation_id):
    return struct.pack(">ib", correlation_id + 1, 0)


@pytest.mark.parametrize("answer", [undecodable, cut, too_short_for_an_id, out_of_order])
def test_an_answer_that_cannot_be_read_fails_all_who_wait_and_ends_the_connection(answer):
    brokers = []

    def accept(stream):
        brokers.append(Answering(stream, answer))
        return brokers[0]

    async def scenario(network):
        await network.host("broker").listen("", PORT, accept)
        host = network.host("client")
        connection = await ClientConnection.open(
            host, Address("broker", PORT), ConnectionSettings()
        )
        waiting = [connection.send(MetadataRequest(), METADATA_VERSION) for _ in range(2)]
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [CorruptAnswer, ConnectionLost]
        assert all(isinstance(outcome.__cause__, ProtocolError) for outcome in outcomes)
        with pytest.raises(ConnectionLost):
            connection.send(MetadataRequest(), METADATA_VERSION)
        await brokers[0].ended.wait()

    with World(1) as world:
        network = SimNetwork(world)
        network.host("broker")
        world.run(scenario(network))
