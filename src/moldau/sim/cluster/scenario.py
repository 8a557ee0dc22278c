"""One run of a cluster under a seed: clients work, things go wrong, then all is read and compared.

A run that fails raises `Failed` with its story, as the runs of one broker do (`sim.scenarios`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from moldau.base.ids import PartitionKey
from moldau.replication.delayed import Delayed
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS
from moldau.sim.cluster.administrator import ClusterAdministrator, TopicChanger
from moldau.sim.cluster.atlas import Atlas
from moldau.sim.cluster.claims import PartitionClaims
from moldau.sim.cluster.client import ClusterTargets
from moldau.sim.cluster.coordinated_clients import check_coordination, coordinated_clients
from moldau.sim.cluster.coordination_targets import (
    KEPT_NAME,
    KEPT_PARTITIONS,
    CoordinationTargets,
)
from moldau.sim.cluster.crash_plans import ClusterCrashes
from moldau.sim.cluster.fault_scene import FaultScene
from moldau.sim.cluster.final_checks import (
    FinalClusterReader,
    check_and_stop,
    check_deleted,
    wait_until_converged,
)
from moldau.sim.cluster.metadata_keeping import (
    InQuorum,
    MetadataKeeper,
    OneVoter,
    OnZooKeeper,
)
from moldau.sim.cluster.monitor import Monitor
from moldau.sim.cluster.nemesis import COMMON_FAULTS, ClusterNemesis
from moldau.sim.cluster.nodes import Nodes
from moldau.sim.cluster.quorum_faults import QUORUM_FAULTS, RARE_FAULTS
from moldau.sim.cluster.quorum_monitor import QuorumMonitor
from moldau.sim.cluster.reader import ClusterReader
from moldau.sim.cluster.replica_checks import check_committed_equal, check_overdue
from moldau.sim.cluster.swarm import (
    ClusterSwarm,
    TopicPlan,
    draw_cluster_swarm,
    with_more_faults,
    with_quorum,
)
from moldau.sim.cluster.tree_checks import TreeMonitor, problem_of_tree
from moldau.sim.cluster.writer import ClusterWriter
from moldau.sim.cluster.zookeeper_faults import ZOOKEEPER_FAULTS
from moldau.sim.history import Violation
from moldau.sim.log_lines import LogLines, log_lines
from moldau.sim.network import SimNetwork
from moldau.sim.scenarios import Failed, ScenarioOutcome, first_cause, report
from moldau.sim.workload.client import Worker
from moldau.sim.workload.targets import TopicTarget
from moldau.sim.world import World

RUN_LIMIT_S = 400.0
"""Virtual seconds; a run that has not ended by then is stuck (P7)."""

FINISHED_WITHIN_S = 60.0
"""Virtual seconds in which writers have finished what they began, once all is well (P7)."""

COMPARED_EVERY_S = 0.5
"""Between two comparisons of all replicas while a run goes on."""

KEPT = TopicPlan(KEPT_NAME, KEPT_PARTITIONS, 3, 2)
"""The topic for transactions and groups."""

Adjust = Callable[[ClusterSwarm], ClusterSwarm]


def run_cluster_seed(
    seed: int,
    *,
    fifo: bool = False,
    zookeeper: bool = False,
    quorum: bool = False,
    adjust: Adjust = lambda swarm: swarm,
) -> ScenarioOutcome:
    """Run one seed to its end; Failed if a promise was broken.

    The metadata are with one voter, in ZooKeeper, or in a quorum of three.
    """
    kind = "cluster on ZooKeeper" if zookeeper else "cluster on a quorum" if quorum else "cluster"
    with (
        World(f"{kind} {seed}", fifo=fifo) as world,
        log_lines(world.trace) as lines,
        ClusterCrashes(world.trace) as crashes,
    ):
        keeper = (OnZooKeeper if zookeeper else InQuorum if quorum else OneVoter)(world)
        chance = world.random("swarm")
        swarm = draw_cluster_swarm(chance, tuple(COMMON_FAULTS))
        if zookeeper:
            swarm = with_more_faults(swarm, chance, tuple(ZOOKEEPER_FAULTS))
        elif quorum:
            swarm = with_more_faults(swarm, chance, tuple(QUORUM_FAULTS))
            swarm = with_quorum(swarm, chance, RARE_FAULTS)
        swarm = adjust(swarm)
        scenario = _ClusterScenario(world, swarm, lines, crashes, keeper)
        try:
            world.run(scenario.run(), limit_s=RUN_LIMIT_S)
        except Exception as error:  # noqa: BLE001 - whatever it is ends the run, with a report
            cause = first_cause(error)
            story = "\n".join(f"  {line}" for line in world.trace.story())
            raise Failed(f"{report(seed, swarm, world, cause)}\nbefore:\n{story}") from cause
        digest, count = world.trace.digest(), world.trace.count
        return ScenarioOutcome(seed, digest, count, scenario.targets.seen, crashes.ended)


class _ClusterScenario:
    """One run."""

    def __init__(
        self,
        world: World,
        swarm: ClusterSwarm,
        lines: LogLines,
        crashes: ClusterCrashes,
        keeper: MetadataKeeper,
    ) -> None:
        self._world = world
        self._swarm = swarm
        self._lines = lines
        network = SimNetwork(world, chunk_size_max=swarm.chunk_size_max)
        self._nodes = Nodes(world, network, swarm.broker_count, swarm.broker, keeper)
        self.targets = ClusterTargets(world, network, self._nodes)
        self._ensemble = keeper.ensemble if isinstance(keeper, OnZooKeeper) else None
        if self._ensemble is not None:
            TreeMonitor(self._ensemble, self.targets.seen)
        self._atlas = Atlas(self._nodes)
        self._monitor = Monitor(self._nodes, self._atlas, self.targets.seen)
        quorum = keeper if isinstance(keeper, InQuorum) else None
        self._quorum = (
            None
            if quorum is None
            else QuorumMonitor(self._nodes, quorum, self.targets.seen, world.loop.time)
        )
        self._plain: set[asyncio.Task[None]] = set()
        """Clients of no coordinator."""
        self._overdue: frozenset[Delayed] = frozenset()
        self._coordination = CoordinationTargets(
            self.targets, self._atlas, clocks_jump=swarm.clocks_are_wrong
        )
        self._nemesis = ClusterNemesis(
            FaultScene(
                self.targets,
                swarm,
                self._atlas,
                self._monitor,
                crashes,
                self._ensemble,
                quorum,
            )
        )

    async def run(self) -> None:
        """Work and suffer, recover, read everything, stop, and look at what is left."""
        if self._quorum is not None:
            self._world.loop.after_turn = self._look_at_quorum
        await self._begin()
        self._world.loop.after_turn = self._look
        self.targets.network.reset_chance = self._swarm.reset_chance
        async with asyncio.TaskGroup() as group:
            working = [group.create_task(one.run(), name=one.name) for one in self._clients()]
            self._plain.update(working)
            working += [group.create_task(one.run(), name=one.name) for one in self._coordinated()]
            comparing = group.create_task(self._keep_comparing(), name="comparing")
            await self._nemesis.run()
            self.targets.stopped = self._coordination.stopped = True
            await self._wait_for(working)
            comparing.cancel()
        await self._finish()

    def _look(self, ran: AbstractSet[str]) -> None:
        nodes = self._nodes.among(ran)
        if nodes:
            self._monitor.look(nodes)
        if self._quorum is not None:
            self._quorum.look(nodes)

    def _look_at_quorum(self, ran: AbstractSet[str]) -> None:
        if self._quorum is not None:
            self._quorum.look(self._nodes.among(ran))

    async def _begin(self) -> None:
        for node in self._nodes.all:
            node.start()
        for node in self._nodes.all:
            await node.started()
        creator = ClusterAdministrator(self.targets, "administrator")
        if self._swarm.coordination:
            self._atlas.limits |= dict.fromkeys(INTERNAL_TOPICS, KEPT.min_insync_replicas)
            self._atlas.limits[KEPT.name] = KEPT.min_insync_replicas
            kept = TopicTarget(KEPT.name, KEPT.partition_count, {}, by_id=False, kept=True)
            kept.id = await creator.create(KEPT)
            self._coordination.begin_kept(kept)
        for plan in self._swarm.topics:
            self._atlas.limits[plan.name] = plan.min_insync_replicas
            topic_id = await creator.create(plan)
            self.targets.claims += [
                PartitionClaims(PartitionKey(plan.name, index), topic_id, self._atlas)
                for index in range(plan.partition_count)
            ]
        creator.close()

    def _clients(self) -> list[ClusterWriter | ClusterReader | TopicChanger]:
        writers = [
            ClusterWriter(
                self.targets, f"{'idempotent' if plan.idempotent else 'plain'}-{number}", plan
            )
            for number, plan in enumerate(self._swarm.writers)
        ]
        readers = [
            ClusterReader(self.targets, f"reader-{number}")
            for number in range(self._swarm.reader_count)
        ]
        changers = [TopicChanger(self.targets, "changer")] if self._swarm.topics_change else []
        return [*writers, *readers, *changers]

    def _coordinated(self) -> list[Worker]:
        return coordinated_clients(self._coordination, self._swarm.coordination)

    async def _keep_comparing(self) -> None:
        while True:
            await asyncio.sleep(COMPARED_EVERY_S)
            for claims in self.targets.claims:
                if not claims.is_exceeded:
                    check_committed_equal(self._nodes, claims.key)
            self._overdue = check_overdue(self._nodes, self._overdue)

    async def _wait_for(self, working: list[asyncio.Task[None]]) -> None:
        """P7: let clients finish.

        A transaction whose coordinator has lost it stays open until an operator ends it.
        """
        _, busy = await asyncio.wait(working, timeout=FINISHED_WITHIN_S)
        if self._coordination.is_void:
            for task in working:
                if task not in self._plain:
                    task.cancel()
            busy &= self._plain
        if busy:
            names = ", ".join(sorted(task.get_name() for task in busy))
            raise Violation(f"P7: {names} cannot finish, when all is well")

    def _problem_of_metadata(self) -> str | None:
        if self._quorum is not None:
            return self._quorum.problem_of_journals()
        ensemble = self._ensemble
        return None if ensemble is None else problem_of_tree(ensemble, self._nodes.image)

    async def _finish(self) -> None:
        await wait_until_converged(self._nodes, self._world.loop.time(), self._problem_of_metadata)
        for claims in self.targets.claims:
            check_committed_equal(self._nodes, claims.key)
        await FinalClusterReader(self.targets, "final-reader").run()
        if self._swarm.coordination:
            await check_coordination(self._coordination)
        check_deleted(self._nodes, self._monitor.deleted)
        await check_and_stop(self._nodes)
        if self._lines.bugs:
            raise Violation(f"E10: a broker met a bug of its own: {self._lines.bugs[0]}")
        if self._lines.errors and not self.targets.disks_failed:
            raise Violation(f"E10: a broker complains of sound disks: {self._lines.errors[0]}")
        self.targets.seen["partition beyond the promise"] += len(self._atlas.exceeded)
        self.targets.seen["broker gave up"] += sum(one.give_up_count for one in self._nodes.all)
