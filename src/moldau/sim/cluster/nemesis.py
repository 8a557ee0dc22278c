"""What goes wrong in a cluster: machines, processes, disks, clocks and the wires between them.

Each fault lasts for a while and is mended then, while others begin. `heal` mends everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.sim.cluster.atlas import Atlas
from moldau.sim.cluster.client import ClusterTargets
from moldau.sim.cluster.monitor import Monitor
from moldau.sim.cluster.nodes import Node
from moldau.sim.cluster.swarm import ClusterSwarm
from moldau.sim.crashes import Crashed

LONGEST_PAUSE_S = 60.0
CLOCK_JUMP_MS = 86_400_000


class ClusterNemesis:
    """The faults of one run."""

    def __init__(
        self, targets: ClusterTargets, swarm: ClusterSwarm, atlas: Atlas, monitor: Monitor
    ) -> None:
        self._targets = targets
        self._network = targets.network
        self._nodes = targets.nodes
        self._swarm = swarm
        self._atlas = atlas
        self._monitor = monitor
        self._chance = targets.world.random("nemesis")
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._healing = asyncio.Event()
        self._acts: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "power cut": self._power_cut,
            "blackout": self._blackout,
            "pause": self._pause,
            "short pause": self._short_pause,
            "orderly restart": self._restart,
            "broker partition": self._part_brokers,
            "voter partition": self._part_from_voter,
            "client partition": self._part_clients,
            "isolation": self._isolate,
            "reset": self._reset,
            "wiped disk": self._wipe,
            "clock jump": self._jump,
            "slow disk": self._slow_disk,
        }

    async def run(self) -> None:
        """Do harm until the time is over, then let everything be well again."""
        loop = self._targets.world.loop
        end_s = loop.time() + self._swarm.duration_s
        while loop.time() < end_s:
            await asyncio.sleep(self._chance.expovariate(1 / self._swarm.fault_mean_s))
            fault = self._chance.choice(self._swarm.faults)
            self._targets.world.trace.note("fault", fault)
            self._targets.seen[f"fault: {fault}"] += 1
            task = loop.create_task(self._carry_out(fault), name=f"fault {fault}")
            self._under_way[task] = None
            task.add_done_callback(self._ended)
        await self.heal()

    async def _carry_out(self, fault: str) -> None:
        await self._acts[fault]()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)

    async def heal(self) -> None:
        """Mend everything; all brokers run when this returns."""
        self._targets.world.trace.note("heal")
        self._healing.set()
        self._network.reset_chance = 0.0
        self._network.heal()
        for node in self._nodes.all:
            if node.process.paused:
                node.process.resume()
        while self._under_way:
            await asyncio.wait(list(self._under_way))
        self._network.heal()
        for node in self._nodes.all:
            node.start()
        for node in self._nodes.all:
            await node.started()

    async def _for_a_while(self, mean_s: float | None = None) -> None:
        """Wait for as long as a fault lasts; shorter if all is to be well."""
        length_s = self._chance.expovariate(1 / (mean_s or self._swarm.fault_length_s))
        try:
            async with asyncio.timeout(min(length_s, LONGEST_PAUSE_S)):
                await self._healing.wait()
        except TimeoutError:
            pass

    # Processes and machines

    def _choose(self, *, voter: bool = True) -> Node | None:
        """Choose a node whose broker has a process, starting or running."""
        nodes = [
            node for node in self._nodes.all if node.process.alive and (voter or not node.is_voter)
        ]
        return self._chance.choice(nodes) if nodes else None

    async def _kill(self) -> None:
        node = self._choose()
        if node is not None:
            self._note(node)
            node.process.kill()
            await self._for_a_while()
            node.start()

    def _note(self, node: Node) -> None:
        self._targets.world.trace.note("on", node.name, f"life {node.process.life}")

    async def _power_cut(self) -> None:
        node = self._choose()
        if node is not None:
            await self._cut([node])

    async def _blackout(self) -> None:
        """Cut several machines from their power, up to all of them."""
        nodes = [node for node in self._nodes.all if node.process.alive]
        if nodes:
            await self._cut(self._chance.sample(nodes, self._chance.randrange(1, len(nodes) + 1)))

    async def _cut(self, nodes: list[Node]) -> None:
        for node in nodes:
            self._note(node)
            self._atlas.lost_records(node.id)
        for node in nodes:
            node.process.power_cut(silent=self._chance.random() < 0.5)
        await self._for_a_while()
        for node in nodes:
            node.start()

    async def _wipe(self) -> None:
        node = self._choose(voter=False)
        if node is not None:
            self._note(node)
            self._atlas.lost_records(node.id)
            node.process.kill()
            node.wipe()
            await self._for_a_while()
            node.start()

    async def _restart(self) -> None:
        node = self._choose()
        if node is None or not node.serving or node.process.paused:
            return
        self._note(node)
        try:
            await node.process.stop()
        except Crashed:
            return
        await self._for_a_while()
        node.start()

    async def _pause(self) -> None:
        await self._stop_for(self._swarm.fault_length_s * 2)

    async def _short_pause(self) -> None:
        await self._stop_for(0.2)

    async def _stop_for(self, mean_s: float) -> None:
        node = self._choose()
        if node is None or node.process.paused:
            return
        self._note(node)
        life = node.process.life
        node.process.pause()
        await self._for_a_while(mean_s)
        if node.process.alive and node.process.life == life and node.process.paused:
            self._targets.seen["zombie leader resumed"] += self._monitor.stale_leaderships(node)
            node.process.resume()

    async def _jump(self) -> None:
        node = self._chance.choice(self._nodes.all)
        node.clock.jump(self._chance.randrange(-CLOCK_JUMP_MS, CLOCK_JUMP_MS))

    async def _slow_disk(self) -> None:
        node = self._choose()
        if node is not None:
            node.process.slow_disk(self._chance.choice((0.01, 0.05)))

    # Wires

    async def _clog(self, pairs: list[tuple[str, str]]) -> None:
        """Let nothing pass between pairs of hosts, in one direction or in both."""
        directions = self._chance.choice(("there", "back", "both"))
        clogged = [pair for pair in pairs if directions != "back"]
        clogged += [(other, one) for one, other in pairs if directions != "there"]
        for source, target in clogged:
            self._network.clog(source, target)
        await self._for_a_while()
        for source, target in clogged:
            self._network.unclog(source, target)

    async def _part_brokers(self) -> None:
        names = [node.name for node in self._nodes.all]
        self._chance.shuffle(names)
        if len(names) > 1:
            cut = self._chance.randrange(1, len(names))
            await self._clog([(one, other) for one in names[:cut] for other in names[cut:]])

    async def _part_from_voter(self) -> None:
        others = [node.name for node in self._nodes.all if not node.is_voter]
        if others:
            chosen = self._chance.sample(others, self._chance.randrange(1, len(others) + 1))
            await self._clog([(self._nodes.voter.name, other) for other in chosen])

    async def _part_clients(self) -> None:
        brokers = [node.name for node in self._nodes.all]
        clients = [host for host in self._network.hosts if host not in brokers]
        pairs = [(broker, client) for broker in brokers for client in clients]
        await self._clog([pair for pair in pairs if self._chance.random() < 0.4])

    async def _isolate(self) -> None:
        """Cut one broker off from all others, but not from clients."""
        name = self._chance.choice(self._nodes.all).name
        await self._clog([(name, node.name) for node in self._nodes.all if node.name != name])

    async def _reset(self) -> None:
        hosts = self._network.hosts
        for one in self._nodes.all:
            for other in hosts:
                if other != one.name and self._chance.random() < 0.3:
                    self._network.reset(one.name, other)
