"""Brokers on ZooKeeper whose settings have no broker.id."""

from __future__ import annotations

import pytest

from moldau.base.errors import ConfigError
from moldau.cluster.formatting import identify_directories
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.zookeeper.drawn_ids import with_broker_id
from moldau.sim.disk import SimDisk
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble
from moldau.sim.zookeeper.session import SimZooKeeper


class Scene:
    """New machines of one cluster."""

    def __init__(self, world):
        self.world = world
        self.ensemble = SimEnsemble(world)
        self.count = 0

    def machine(self):
        self.count += 1
        zookeeper = SimZooKeeper(self.ensemble, f"machine-{self.count}")
        return SimDisk(self.world.random(f"disk-{self.count}")), zookeeper


def settings(**given):
    named = {key.replace("_", "."): value for key, value in given.items()}
    return BrokerSettings.load(None, {"zookeeper.connect": "zk:1", "log.dirs": "/data"} | named)


@pytest.fixture(params=range(3))
def scene(request):
    def run(test):
        with World(request.param) as world:
            world.run(test(Scene(world)))

    return run


@pytest.mark.parametrize(("given", "first"), [({}, 1001), ({"reserved_broker_max_id": "7"}, 8)])
def test_each_new_machine_gets_an_id_of_its_own(scene, given, first):
    async def test(made):
        for number in range(3):
            found = await with_broker_id(settings(**given), *made.machine())
            assert found.node_id == first + number
            assert found.values.integer("broker.id") == found.node_id

    scene(test)


def test_a_machine_keeps_the_id_of_its_folder(scene):
    async def test(made):
        disk, zookeeper = made.machine()
        identify_directories(
            disk, ["/data"], "/data", 1005, made.world.random("ids"), 0, "c", on_zookeeper=True
        )
        made.ensemble.stop()  # nobody is asked
        assert (await with_broker_id(settings(), disk, zookeeper)).node_id == 1005

    scene(test)


def test_where_no_ids_are_drawn_one_has_to_be_set(scene):
    async def test(made):
        with pytest.raises(ConfigError, match=r"broker\.id is not set"):
            await with_broker_id(settings(broker_id_generation_enable="false"), *made.machine())

    scene(test)
