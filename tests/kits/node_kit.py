"""Nodes of a cluster on virtual time: one that votes and brokers that observe it."""

from __future__ import annotations

from moldau.server.broker import Broker
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import Ports
from moldau.server.stores import node_store
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.network import SimNetwork
from moldau.sim.world import World

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
SETTINGS = {
    "log.dirs": "/data",
    "controller.listener.names": "CONTROLLER,SPARE",
    "controller.quorum.voters": "1@node-1:9093",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,SPARE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "initial.broker.registration.timeout.ms": "5000",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
}
VOTER_LISTENERS = "PLAINTEXT://node-1:9092,CONTROLLER://node-1:9093,SPARE://node-1:9094"


class Nodes:
    """A voter, node 1, and brokers that observe it, on virtual time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.network = SimNetwork(world)
        self.disks: dict[int, SimDisk] = {}

    def node(self, number: int, *, boot_id: str = "first", **settings: str) -> Broker:
        """Put a node together, on the disk that it had before."""
        role = {"process.roles": "broker", "listeners": f"PLAINTEXT://node-{number}:9092"}
        if number == 1:
            role = {"process.roles": "broker,controller", "listeners": VOTER_LISTENERS}
        disk = self.disks.get(number)
        if disk is None:
            disk = self.disks[number] = SimDisk(self.world.random(f"disk-{number}"))
            disk.make_folder("/data")
            properties = f"version=1\nnode.id={number}\ncluster.id={CLUSTER_ID}\n"
            _write(disk, "/data/meta.properties", properties)
        executor = SimExecutor(self.world)
        ports = Ports(
            clock=self.world.clock,
            random=self.world.random(f"node-{number}"),
            files=disk,
            network=self.network.host(f"node-{number}"),
            executor=executor,
            cleaner=executor,
            make_store=node_store,
            boot_id=boot_id,
        )
        values = SETTINGS | role | {"node.id": str(number)} | settings
        return Broker(BrokerSettings.load(None, values), ports)


def _write(disk: SimDisk, path: str, text: str) -> None:
    file = disk.open(path, create=True)
    file.append([text.encode()])
    file.sync()
    file.close()
    disk.sync_folder("/data")
