"""The way to whoever is the controller: several addresses, lost connections, the end."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.errors import InvariantViolated
from moldau.base.network import Address
from moldau.engine.broker_errors import RequestTimedOut
from moldau.engine.errors import ClientClosed, ConnectionLost
from moldau.engine.ports import ClientPorts
from moldau.protocol.messages.brokers import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.protocol.messages.metadata import ApiVersion, ApiVersionsResponse
from moldau.protocol.registry import decode_header, decode_request, encode_response, find_api
from moldau.server.nodes.controller_channel import ControllerChannel
from moldau.sim.network import SimNetwork

PORT = 9093
BEAT = BrokerHeartbeatRequest(7, 1, 1)


class Controller:
    """A node that answers heartbeats with its number, or never."""

    def __init__(self, network, number):
        self.host = network.host(f"node-{number}")
        self.number = number
        self.is_silent = False
        self.streams = []
        self.listener = None

    async def listen(self):
        self.listener = await self.host.listen(f"node-{self.number}", PORT, self._accept)

    def _accept(self, stream):
        self.streams.append(stream)
        return Receiver(self, stream)

    def answer(self, frame):
        header = decode_header(frame)
        request = decode_request(header, frame)
        if isinstance(request, BrokerHeartbeatRequest):
            if self.is_silent:
                return []
            answer = BrokerHeartbeatResponse(self.number)
        else:
            answer = ApiVersionsResponse(0, [ApiVersion(18, 0, 4), ApiVersion(63, 0, 1)])
        api = find_api(header.api_key)
        return encode_response(api, header.api_version, header.correlation_id, answer)


class Receiver:
    def __init__(self, controller, stream):
        self.controller = controller
        self.stream = stream

    def received(self, data):
        used = 0
        while len(data) - used >= 4:
            size = int.from_bytes(data[used : used + 4], "big")
            if len(data) - used - 4 < size:
                break
            self.stream.send(self.controller.answer(data[used + 4 : used + 4 + size]))
            used += 4 + size
        return used

    def drained(self):
        pass

    def closed(self, error):
        pass


def in_world(test):
    """Run a test with two controllers, of which it starts those it wants, and a way to both."""

    def run(world):
        async def scenario():
            network = SimNetwork(world)
            controllers = [Controller(network, number) for number in (1, 2)]
            channel = ControllerChannel(
                [Address(f"node-{number}", PORT) for number in (1, 2)],
                ClientPorts(network.host("broker"), world.clock, world.random("broker")),
                client_id="broker-7-test",
                request_timeout_ms=3_000,
            )
            await test(channel, *controllers)
            await channel.close()

        world.run(scenario())

    return run


async def answering(channel):
    """Return who answers."""
    return (await channel.call(BEAT)).throttle_time_ms


@in_world
async def test_the_next_address_is_asked_after_one_that_cannot_be_reached(channel, first, second):
    await second.listen()
    with pytest.raises(ConnectionLost, match="node-1:9093"):
        await channel.call(BEAT)
    assert await answering(channel) == 2
    assert await answering(channel) == 2
    assert len(second.streams) == 1


@in_world
async def test_another_one_is_asked_when_told_to_look_elsewhere(channel, first, second):
    await first.listen()
    await second.listen()
    assert await answering(channel) == 1
    channel.look_elsewhere()
    assert await answering(channel) == 2
    channel.look_elsewhere()
    assert await answering(channel) == 1


@in_world
async def test_one_that_does_not_answer_in_time_is_left(channel, first, second):
    await first.listen()
    await second.listen()
    first.is_silent = True
    with pytest.raises(RequestTimedOut):
        await channel.call(BEAT)
    assert await answering(channel) == 2


@in_world
async def test_what_waits_for_an_answer_ends_with_the_channel(channel, first, second):
    await first.listen()
    first.is_silent = True
    waiting = asyncio.create_task(channel.call(BEAT))
    await asyncio.sleep(1)
    await channel.close()
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await channel.call(BEAT)


@in_world
async def test_it_can_be_closed_while_it_connects(channel, first, second):
    waiting = asyncio.create_task(channel.call(BEAT))
    await asyncio.sleep(0)
    await channel.close()
    with pytest.raises(ClientClosed):
        await waiting


def test_a_way_to_nowhere_is_a_bug(world):
    with pytest.raises(InvariantViolated):
        ControllerChannel([], None, client_id="x")
