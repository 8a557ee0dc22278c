"""What goes wrong in a cluster: processes, machines and the wires between them, at drawn times.

Each fault lasts for a while and is mended then, while others begin. `heal` mends everything.
"""

from __future__ import annotations

import asyncio

from moldau.sim.cluster.crash_faults import CRASH_FAULTS
from moldau.sim.cluster.fault_scene import Fault, FaultScene
from moldau.sim.cluster.machine_faults import MACHINE_FAULTS
from moldau.sim.cluster.network_faults import NETWORK_FAULTS
from moldau.sim.cluster.process_faults import PROCESS_FAULTS
from moldau.sim.cluster.quorum_faults import QUORUM_FAULTS
from moldau.sim.cluster.twin_faults import TWIN_FAULTS
from moldau.sim.cluster.zookeeper_faults import ZOOKEEPER_FAULTS

COMMON_FAULTS: dict[str, Fault] = (
    PROCESS_FAULTS | MACHINE_FAULTS | CRASH_FAULTS | TWIN_FAULTS | NETWORK_FAULTS
)
"""The faults of any cluster. Seeds draw from them, so another order is another run."""

FAULTS_BY_NAME: dict[str, Fault] = COMMON_FAULTS | ZOOKEEPER_FAULTS | QUORUM_FAULTS


class ClusterNemesis:
    """The faults of one run."""

    def __init__(self, scene: FaultScene) -> None:
        self._scene = scene
        self._targets = scene.targets
        self._under_way: dict[asyncio.Task[None], None] = {}
        """Used as a set that keeps its order, so that runs repeat."""

    async def run(self) -> None:
        """Do harm until the time is over, then let everything be well again."""
        scene, loop = self._scene, self._targets.world.loop
        end_s = loop.time() + scene.swarm.duration_s
        while loop.time() < end_s:
            await asyncio.sleep(scene.chance.expovariate(1 / scene.swarm.fault_mean_s))
            fault = scene.chance.choice(scene.swarm.faults)
            self._targets.world.trace.note("fault", fault)
            self._targets.seen[f"fault: {fault}"] += 1
            task = loop.create_task(FAULTS_BY_NAME[fault](scene), name=f"fault {fault}")
            self._under_way[task] = None
            task.add_done_callback(self._ended)
        await self.heal()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)

    async def heal(self) -> None:
        """Mend everything; all brokers run when this returns."""
        nodes, network = self._scene.nodes, self._scene.network
        self._targets.world.trace.note("heal")
        self._scene.healing.set()
        self._scene.crashes.disarm_all()
        network.reset_chance = 0.0
        network.heal()
        for node in nodes.all:
            if node.process.paused:
                node.process.resume()
        while self._under_way:
            await asyncio.wait(list(self._under_way))
        network.heal()
        for node in nodes.all:
            node.start()
        for node in nodes.all:
            await node.started()
