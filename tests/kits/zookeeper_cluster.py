"""Three simulated brokers on a simulated ZooKeeper, for scripts of what goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from moldau.base.ids import BrokerId
from moldau.cluster.zookeeper.nodes import paths
from moldau.cluster.zookeeper.nodes.broker_nodes import BrokerNode, decode_broker
from moldau.server.broker import Broker
from moldau.server.nodes.membership import State
from moldau.sim.cluster.metadata_keeping import OnZooKeeper
from moldau.sim.cluster.nodes import Node, Nodes
from moldau.sim.network import SimNetwork
from moldau.sim.world import World

SETTINGS = {
    "zookeeper.session.timeout.ms": "2000",
    "controller.socket.timeout.ms": "1000",
    "min.insync.replicas": "2",
}


class ClusterOnZooKeeper:
    """Brokers 1 to 3; whoever is elected is the controller."""

    def __init__(self, world: World) -> None:
        keeper = OnZooKeeper(world)
        self.ensemble = keeper.ensemble
        self.network = SimNetwork(world)
        self.nodes = Nodes(world, self.network, 3, SETTINGS, keeper)

    async def start(self) -> None:
        for node in self.nodes.all:
            node.start()
        for node in self.nodes.all:
            await node.started()

    async def stop(self) -> None:
        for node in self.nodes.all:
            await node.process.stop()

    @property
    def controller(self) -> Node:
        node = self.nodes.controller
        assert node is not None
        return node

    @property
    def others(self) -> list[Node]:
        """The nodes that are not the controller."""
        return [node for node in self.nodes.all if node is not self.controller]

    def broker(self, node: Node) -> Broker:
        """Return a node's broker, also while it starts."""
        assert node.process.newest_broker is not None
        return node.process.newest_broker

    def registration(self, node: Node) -> BrokerNode | None:
        """Return what a broker's node in ZooKeeper says; None if there is none."""
        path = paths.broker(BrokerId(node.id))
        found = self.ensemble.find(path)
        return None if found is None else decode_broker(path, found.data)

    def epoch_of(self, node: Node) -> int:
        """Return the epoch of whoever is registered with a node's id; -1 if nobody is."""
        found = self.ensemble.find(paths.broker(BrokerId(node.id)))
        return -1 if found is None else found.czxid

    def silence(self, one: Node, other: Node) -> None:
        """Let nothing pass between two brokers."""
        self.network.clog(one.name, other.name)
        self.network.clog(other.name, one.name)

    async def reached(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - the nodes do not tell
                await asyncio.sleep(0.01)


def run_on_cluster(script: Callable[[ClusterOnZooKeeper], Coroutine[Any, Any, None]]) -> None:
    """Run a script on a cluster that serves; all brokers have to serve again after it."""
    with World(7) as world:
        cluster = ClusterOnZooKeeper(world)

        def serves(node: Node) -> bool:
            return node.serving and cluster.broker(node).parts.membership.state is State.RUNNING

        async def work() -> None:
            await cluster.start()
            await script(cluster)
            cluster.network.heal()
            await cluster.reached(lambda: all(map(serves, cluster.nodes.all)))
            await cluster.stop()

        world.run(work())
