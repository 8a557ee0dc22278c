"""What the faults of a run share: which brokers they hit, how long they last, when they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS
from moldau.sim.cluster.atlas import Atlas
from moldau.sim.cluster.client import ClusterTargets
from moldau.sim.cluster.crash_plans import ClusterCrashes
from moldau.sim.cluster.metadata_keeping import InQuorum
from moldau.sim.cluster.monitor import Monitor
from moldau.sim.cluster.nodes import Node
from moldau.sim.cluster.swarm import ClusterSwarm
from moldau.sim.zookeeper.ensemble import SimEnsemble

LONGEST_FAULT_S = 60.0

LOOK_S = 0.0002
"""Between two looks whether something has happened: less than a request travels."""


class FaultScene:
    """The cluster as its faults see it."""

    def __init__(
        self,
        targets: ClusterTargets,
        swarm: ClusterSwarm,
        atlas: Atlas,
        monitor: Monitor,
        crashes: ClusterCrashes,
        ensemble: SimEnsemble | None = None,
        quorum: InQuorum | None = None,
    ) -> None:
        self.targets = targets
        self.network = targets.network
        self.nodes = targets.nodes
        self.swarm = swarm
        self.atlas = atlas
        self.monitor = monitor
        self.crashes = crashes
        self._ensemble = ensemble
        self._quorum = quorum
        self.chance = targets.world.random("nemesis")
        self.healing = asyncio.Event()
        """Set when every fault is to end."""

    @property
    def ensemble(self) -> SimEnsemble:
        """The ZooKeeper of this run, which has one."""
        assert self._ensemble is not None
        return self._ensemble

    @property
    def quorum(self) -> InQuorum:
        """The quorum of this run, which has one."""
        assert self._quorum is not None
        return self._quorum

    async def last(self, mean_s: float | None = None) -> None:
        """Wait while a fault lasts: a drawn time with this mean, or with the seed's."""
        mean_s = mean_s or self.swarm.fault_length_s
        await self.wait(min(self.chance.expovariate(1 / mean_s), LONGEST_FAULT_S))

    async def wait(self, seconds: float) -> None:
        """Wait for a time; shorter if every fault is to end."""
        try:
            async with asyncio.timeout(seconds):
                await self.healing.wait()
        except TimeoutError:
            pass

    async def wait_until(self, condition: Callable[[], bool], limit_s: float) -> bool:
        """Wait for something to happen, for so long at most; tell whether it has happened.

        Not any longer if every fault is to end.
        """
        loop = self.targets.world.loop
        end_s = loop.time() + limit_s
        while not condition():
            if self.healing.is_set() or loop.time() >= end_s:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def choose(self, *, to_lose_disk: bool = False) -> Node | None:
        """Choose a node whose broker has a process, starting or running.

        For a fault that takes its disk away, one that may lose it.
        """
        nodes = [
            node
            for node in self.nodes.all
            if node.process.alive and (node.may_lose_disk or not to_lose_disk)
        ]
        return self.chance.choice(nodes) if nodes else None

    def choose_leader(self, *, of_coordinators: bool = False) -> Node | None:
        """Choose a node that leads a partition, and whose end brings an election."""
        leaders = {
            partition.leader
            for topic in self.nodes.image.topics.values()
            for partition in topic.partitions
            if not of_coordinators or topic.name in INTERNAL_TOPICS
        }
        nodes = [
            node
            for node in self.nodes.all
            if node.id in leaders
            and node.serving
            and not node.has_metadata
            and not node.process.paused
        ]
        return self.chance.choice(nodes) if nodes else None

    def note(self, node: Node) -> None:
        """Write into the trace which node a fault hits."""
        self.targets.world.trace.note("on", node.name, f"life {node.process.life}")


Fault: TypeAlias = Callable[[FaultScene], Coroutine[Any, Any, None]]
"""Breaks something, waits, and mends it."""
