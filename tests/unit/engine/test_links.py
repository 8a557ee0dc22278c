"""The ways of one client to brokers, taken by several of its tasks at once."""

from __future__ import annotations

import asyncio
import random
import socket

from kits.leaks import run_without_leaks
from kits.scripted_broker import ScriptedBroker
from moldau.base.network import Address
from moldau.engine.links import Lane, Links
from moldau.engine.metadata import BrokerImage, MetadataImage
from moldau.engine.ports import system_ports
from moldau.engine.settings import ConnectionSettings


class InOrder(random.Random):
    """Shuffles nothing."""

    def randrange(self, start, stop=None, step=1):
        return start - 1


def test_a_broker_that_another_task_has_reached_meanwhile_is_not_connected_to_again():
    async def scenario():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            async with ScriptedBroker(broker_id=2) as broker:
                settings = ConnectionSettings(bootstrap_servers=broker.address)
                ports = system_ports(settings)._replace(random=InOrder())
                links = Links(settings, ports, lambda link: None)
                answering = BrokerImage(2, Address("127.0.0.1", broker.port))
                first = BrokerImage(1, Address(*silent.getsockname()))
                image = MetadataImage(brokers={1: first, 2: answering})
                whichever = asyncio.ensure_future(links.any(image, bootstrap=False))
                await asyncio.sleep(0)  # it waits for the silent one
                reached = await links.to(answering, Lane.DATA, None).connected()
                assert await whichever is reached
                assert broker.connections == 1
                await links.close()

    run_without_leaks(scenario())
