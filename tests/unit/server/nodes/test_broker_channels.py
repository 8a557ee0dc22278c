"""Requests to other brokers: at the address they have now, in a version that both know."""

from __future__ import annotations

import asyncio

import pytest

from kits.scripted_broker import HEARTBEAT, HOST, ScriptedBroker
from moldau.base.network import Address
from moldau.engine.broker_errors import UnsupportedVersion
from moldau.engine.errors import ClientClosed, ConnectionLost
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse
from moldau.server.nodes.broker_channels import BrokerChannels

REQUEST = HeartbeatRequest("group", 1, "member")


class Brokers:
    """Where brokers are, as a test says."""

    def __init__(self):
        self.known = {}

    def address(self, broker_id):
        return self.known.get(broker_id)

    def add(self, broker):
        self.known[broker.broker_id] = Address(HOST, broker.port)


def make(brokers):
    ports = system_ports(ConnectionSettings())
    return BrokerChannels(brokers, ports, client_id="broker-1-test", request_timeout_ms=60_000)


def answering(broker_id, error=0):
    return ScriptedBroker(
        broker_id, heartbeat=lambda asked: asked.answer(HeartbeatResponse(error_code=error))
    )


def test_a_broker_is_asked_over_one_connection_in_the_newest_version_of_both():
    async def work():
        brokers = Brokers()
        async with answering(2, error=7) as broker:
            broker.newest[HEARTBEAT] = 1
            brokers.add(broker)
            channels = make(brokers)
            for _ in range(2):
                assert (await channels.call(2, REQUEST, lowest_version=1)).error_code == 7
            with pytest.raises(UnsupportedVersion, match="up to 1 only"):
                await channels.call(2, REQUEST, lowest_version=2)
            (*_, last) = broker.asked
            assert (last.header.api_version, last.header.client_id) == (1, "broker-1-test")
            assert broker.connections == 1
            await channels.close()

    asyncio.run(work())


def test_a_broker_that_moves_is_asked_where_it_is_now():
    async def work():
        brokers = Brokers()
        async with answering(2, error=1) as before, answering(2, error=2) as after:
            channels = make(brokers)
            with pytest.raises(ConnectionLost, match="broker 2 is not known"):
                await channels.call(2, REQUEST)
            brokers.add(before)
            assert (await channels.call(2, REQUEST)).error_code == 1
            brokers.add(after)
            assert (await channels.call(2, REQUEST)).error_code == 2
            await channels.close()

    asyncio.run(work())


def test_a_stop_fails_what_is_on_its_way_and_what_comes_later():
    async def work():
        brokers = Brokers()
        async with ScriptedBroker(2, heartbeat=lambda asked: None) as broker:
            brokers.add(broker)
            channels = make(brokers)
            asking = asyncio.ensure_future(channels.call(2, REQUEST))
            await broker.until_asked(HEARTBEAT, 1)
            await channels.close()
            with pytest.raises(ClientClosed):
                await asking
            with pytest.raises(ClientClosed):
                await channels.call(2, REQUEST)

    asyncio.run(work())
