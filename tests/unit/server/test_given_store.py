"""A broker keeps its metadata in the store that it is given, and asks it for the controllership."""

from __future__ import annotations

import pytest

from moldau.base.errors import UserError
from moldau.cluster.kraft.store import RaftStore
from moldau.server.broker import Broker
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports
from moldau.server.stores import node_store
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.network import SimNetwork

SETTINGS = {"log.dirs": "/data", "listeners": "PLAINTEXT://broker:9092"}


def new_broker(world, make_store):
    executor = SimExecutor(world)
    ports = Ports(
        clock=world.clock,
        random=world.random("broker"),
        files=SimDisk(world.random("disk")),
        network=SimNetwork(world).host("broker"),
        executor=executor,
        cleaner=executor,
        make_store=make_store,
    )
    return Broker(BrokerSettings.load(None, SETTINGS), ports)


def test_a_broker_uses_the_store_it_was_given(world):
    made = []

    def make_store(settings, ports):
        made.append(node_store(settings, ports))
        return made[-1]

    async def scenario():
        broker = new_broker(world, make_store)
        await broker.start()
        (store,) = made
        assert broker.parts.store is store
        assert set(store.image.brokers) == {broker.parts.broker_id}
        await broker.stop()

    world.run(scenario())


def test_a_broker_that_no_controller_registers_says_so_and_lets_go_of_everything(
    world, monkeypatch
):
    async def refuse(store):
        """Let another broker have the controllership."""

    async def scenario():
        broker = new_broker(world, node_store)
        monkeypatch.setattr(RaftStore, "claim", refuse)
        with pytest.raises(UserError, match=r"cannot register broker .*not the controller"):
            await broker.start()
        await broker.stop()
        assert not broker.parts.store.image.brokers

    world.run(scenario())
