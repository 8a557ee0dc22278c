"""Which versions of which APIs are served, as nodes themselves tell it: they are asked.

Two clusters are started in the simulation, one on a quorum and one on ZooKeeper. What a listener
advertises is made of its routes, so that nothing has to be listed here once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from moldau.base.network import Address
from moldau.engine.connection import ClientConnection
from moldau.engine.settings import ConnectionSettings
from moldau.protocol.fields import Versions
from moldau.sim.cluster.metadata_keeping import (
    CONTROLLER_PORT,
    VOTER_IDS,
    InQuorum,
    MetadataKeeper,
    OnZooKeeper,
)
from moldau.sim.cluster.nodes import Node
from moldau.sim.network import SimNetwork
from moldau.sim.process import PORT
from moldau.sim.world import World

Ranges = Mapping[int, Versions]
"""By the key of the API."""


class Advertised(NamedTuple):
    """What each kind of listener serves."""

    broker: Ranges
    controller: Ranges
    """On the listeners of the controllers, for other nodes and for tools."""
    broker_on_zookeeper: Ranges


def advertised() -> Advertised:
    """Start nodes and ask them."""
    broker, controller = _ask(InQuorum, len(VOTER_IDS), PORT, CONTROLLER_PORT)
    (on_zookeeper,) = _ask(OnZooKeeper, 1, PORT)
    return Advertised(broker, controller, on_zookeeper)


def _ask(make_keeper: Callable[[World], MetadataKeeper], count: int, *ports: int) -> list[Ranges]:
    """Ask the first of so many nodes at each of these ports."""

    async def whole(world: World) -> list[Ranges]:
        network, keeper = SimNetwork(world), make_keeper(world)
        nodes = [Node(world, network, one, keeper, {}) for one in range(1, count + 1)]
        for node in nodes:
            node.start()
        for node in nodes:
            await node.started()
        return [await _versions(network, Address(nodes[0].name, port)) for port in ports]

    with World(1) as world:
        return world.run(whole(world))


async def _versions(network: SimNetwork, address: Address) -> Ranges:
    asker = network.host("asker")
    connection = await ClientConnection.open(asker, address, ConnectionSettings())
    connection.close()
    return connection.versions
