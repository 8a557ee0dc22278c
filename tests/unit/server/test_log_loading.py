"""A broker opens its logs beside its loop, and keeps their directories until that has ended."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.errors import UserError
from moldau.server.broker import Broker
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports
from moldau.server.stores import node_store
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.network import SimNetwork

SETTINGS = {"log.dirs": "/data", "listeners": "PLAINTEXT://broker:9092"}
LONG_S = 60.0


class HeldLoads(SimExecutor):
    """Threads in which logs are opened only when the test says so."""

    def __init__(self, world):
        super().__init__(world)
        self.asked = asyncio.Event()
        self.may_end = asyncio.Event()

    def run(self, work, /, *args, **kwargs):
        if getattr(work, "__name__", "") != "load":
            return super().run(work, *args, **kwargs)
        self.asked.set()
        return asyncio.ensure_future(self._held(work, args))

    async def _held(self, work, args):
        await self.may_end.wait()
        return work(*args)


def new_broker(world, disk, network, executor):
    ports = Ports(
        clock=world.clock,
        random=world.random("broker"),
        files=disk,
        network=network.host("broker"),
        executor=executor,
        cleaner=executor,
        make_store=node_store,
    )
    return Broker(BrokerSettings.load(None, SETTINGS), ports)


def test_other_work_goes_on_while_logs_are_opened(world):
    async def scenario():
        executor = HeldLoads(world)
        broker = new_broker(world, SimDisk(world.random("disk")), SimNetwork(world), executor)
        starting = asyncio.create_task(broker.start())
        await executor.asked.wait()
        done, _ = await asyncio.wait((starting,), timeout=LONG_S)
        assert not done
        executor.may_end.set()
        await starting
        await broker.stop()

    world.run(scenario())


def test_a_start_that_is_given_up_keeps_the_directories_until_their_logs_are_open(world):
    async def scenario():
        disk, network = SimDisk(world.random("disk")), SimNetwork(world)
        executor = HeldLoads(world)
        broker = new_broker(world, disk, network, executor)
        starting = asyncio.create_task(broker.start())
        await executor.asked.wait()
        starting.cancel()
        stopping = asyncio.create_task(broker.stop())
        done, _ = await asyncio.wait((stopping,), timeout=LONG_S)
        assert not done
        other = new_broker(world, disk, network, SimExecutor(world))
        with pytest.raises(UserError, match="is in use"):
            await other.start()
        await other.stop()
        executor.may_end.set()
        await stopping
        successor = new_broker(world, disk, network, SimExecutor(world))
        await successor.start()
        await successor.stop()

    world.run(scenario())
