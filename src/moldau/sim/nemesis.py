"""What goes wrong in a run: kills, power cuts, lost connections, broken disks, at drawn times.

After every crash the broker is started again, at once or after a while, with its disk healed; it
must come up by itself. Crashes while it starts or stops are crashes like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from moldau.base.errors import StorageError
from moldau.cluster.journal import CRASH_POINTS as JOURNAL_POINTS
from moldau.cluster.store import StoreFailed
from moldau.coordination.crash_points import CRASH_POINTS as COORDINATION_POINTS
from moldau.sim.checks import check_no_task_left
from moldau.sim.coordination_checks import check_replayed
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk_faults import Operation
from moldau.sim.swarm import Swarm
from moldau.sim.workload.targets import Targets
from moldau.storage.crash_points import COMPACTION_POINTS, CRASH_POINTS

REACHED_POINTS = tuple(
    point
    for point in CRASH_POINTS + JOURNAL_POINTS
    if not point.startswith(("log.restart", "log.truncate", "segment.abort"))
)
"""Those that a broker without followers and coordinators can pass."""

COORDINATOR_POINTS = (
    *COORDINATION_POINTS,
    *COMPACTION_POINTS,
    "segment.abort.before_entry",
    "segment.abort.after_entry",
)
"""Those that only a broker with coordinators passes, on logs that are compacted."""

STARTING_POINTS = (
    "recovery.",
    "manager.open.",
    "journal.cut.",
    "segment.create.",
    "coordinator.load.",
)
STOPPING_POINTS = ("manager.close.", "manager.checkpoint.", "log.close.")
"""Those that are passed, only or also, when a broker starts or stops."""

DISK_OPERATIONS = (Operation.APPEND, Operation.SYNC, Operation.CREATE, Operation.RENAME)


class Nemesis:
    """The faults of one run."""

    def __init__(self, targets: Targets, swarm: Swarm, plan: CrashPlan) -> None:
        self._targets = targets
        self._broker = targets.broker
        self._network = targets.network
        self._swarm = swarm
        self._plan = plan
        self._chance = targets.random("nemesis")
        self._acts: dict[str, Callable[[], Awaitable[None]]] = {
            "kill": self._kill,
            "crash point": self._crash_point,
            "power cut": self._power_cut,
            "power cut at a crash point": self._power_cut_at_point,
            "orderly restart": self._restart,
            "reset": self._reset,
            "partition": self._partition,
            "disk error": self._disk_error,
            "disk full": self._disk_full,
            "cold pages": self._cold_pages,
            "slow disk": self._slow_disk,
        }

    async def run(self) -> None:
        """Do harm until the time is over, then let everything be well again."""
        loop = self._targets.world.loop
        end_s = loop.time() + self._swarm.duration_s
        while loop.time() < end_s:
            await asyncio.sleep(self._chance.expovariate(1 / self._swarm.fault_mean_s))
            await self._bring_up()
            await self._look_inside()
            fault = self._chance.choice(self._swarm.faults)
            self._targets.world.trace.note("fault", fault)
            self._targets.seen[fault] += 1
            await self._acts[fault]()
        await self.heal()

    async def heal(self) -> None:
        """Let everything work from now on; the broker runs when this returns."""
        self._plan.disarm()
        self._network.heal()
        self._network.reset_chance = 0.0
        self._broker.disk.faults.heal()
        if self._targets.disk_failed and self._broker.serving:
            self._broker.kill()
        await self._bring_up()
        self._targets.calm = True

    async def _bring_up(self) -> None:
        """Start the broker unless it runs, however often a crash ends the start."""
        while not self._broker.serving:
            self._broker.disk.faults.heal()
            try:
                await self._broker.start()
            except Crashed:
                self._targets.seen["crash while starting"] += 1
                await asyncio.sleep(self._chance.expovariate(10.0))

    async def _look_inside(self) -> None:
        """Hold a coordinator's memory against its log, before anything else goes wrong."""
        broker = self._broker.broker
        if self._swarm.coordination and broker is not None and not self._targets.disk_failed:
            with contextlib.suppress(Crashed):
                await self._broker.inside(check_replayed(broker))

    # Processes

    async def _kill(self) -> None:
        self._broker.kill()
        await self._stay_down()

    async def _power_cut(self) -> None:
        self._broker.power_cut(silent=self._chance.random() < 0.5)
        await self._stay_down()

    async def _stay_down(self) -> None:
        await asyncio.sleep(self._chance.expovariate(5.0))

    async def _crash_point(self) -> None:
        await self._crash_soon(power=False)

    async def _power_cut_at_point(self) -> None:
        await self._crash_soon(power=True)

    async def _crash_soon(self, *, power: bool) -> None:
        """Let the process end at a point; kill it or stop it for those only passed around that."""
        point = self._choose_point()
        self._targets.world.trace.note("crash planned", point)
        starting = point.startswith(STARTING_POINTS)
        if starting:
            self._broker.power_cut() if power else self._broker.kill()
        self._broker.crash_at(self._plan, point, self._chance.choice((1, 1, 2, 5)), power=power)
        if starting:
            return
        await asyncio.sleep(self._chance.expovariate(2.0))
        if self._broker.serving and point.startswith(STOPPING_POINTS):
            await self._restart(keep_plan=True)
        if not self._broker.alive:
            self._targets.seen["crashed at a point"] += 1

    def _choose_point(self) -> str:
        """Choose one of the points this run can pass; those of a start are few, and count more."""
        if self._swarm.crash_points:
            return self._chance.choice(self._swarm.crash_points)
        coordinators = self._swarm.coordination and self._chance.random() < 0.5
        points = COORDINATOR_POINTS if coordinators else REACHED_POINTS
        if self._chance.random() < 0.25:
            points = tuple(point for point in points if point.startswith(STARTING_POINTS))
        return self._chance.choice(points)

    async def _restart(self, *, keep_plan: bool = False) -> None:
        if not keep_plan:
            self._plan.disarm()
        try:
            await self._broker.stop()
        except Crashed:
            self._targets.seen["crash while stopping"] += 1
            return
        await self._stay_down()
        await check_no_task_left(self._broker)

    # Network

    def _clients(self) -> list[str]:
        return [host for host in self._network.hosts if host != self._broker.name]

    async def _reset(self) -> None:
        for client in self._clients():
            if self._chance.random() < 0.5:
                self._network.reset(self._broker.name, client)

    async def _partition(self) -> None:
        name = self._broker.name
        for client in self._clients():
            if self._chance.random() < 0.5:
                pairs = [(name, client), (client, name)]
                for source, target in self._chance.sample(pairs, self._chance.randrange(1, 3)):
                    self._network.clog(source, target)
        await asyncio.sleep(self._chance.expovariate(1.0))
        self._network.heal()

    # Disk

    async def _disk_error(self) -> None:
        """Let one kind of operation fail for a while somewhere below a log directory."""
        folder = self._chance.choice(self._swarm.log_dirs)
        operation = self._chance.choice(DISK_OPERATIONS)
        times = self._chance.choice((1, 3, None))
        self._break_disk()
        skip = self._chance.randrange(20)
        self._broker.disk.faults.fail(operation, folder, skip=skip, times=times)
        await self._suffer()

    async def _disk_full(self) -> None:
        self._break_disk()
        self._broker.disk.faults.fill_up(self._chance.randrange(4_000))
        await self._suffer()

    def _break_disk(self) -> None:
        self._targets.disk_failed_lives.add(self._broker.life)

    async def _suffer(self) -> None:
        """Leave the broker with its broken disk for a while, then repair it and start anew."""
        await asyncio.sleep(self._chance.expovariate(2.0))
        if self._broker.serving and self._chance.random() < 0.3:
            with contextlib.suppress(Crashed, StorageError, StoreFailed):
                await self._broker.stop()
        if self._broker.alive:
            self._broker.kill()

    async def _cold_pages(self) -> None:
        """Drop some files from the page cache, so that readers must wait for them."""
        disk = self._broker.disk
        for folder in self._swarm.log_dirs:
            for name in disk.names(folder):
                if disk.is_folder(f"{folder}/{name}"):
                    self._chill(f"{folder}/{name}")

    async def _slow_disk(self) -> None:
        """Let everything that waits for the disk take long until the next start."""
        self._broker.slow_disk(self._chance.choice((0.01, 0.05)))

    def _chill(self, folder: str) -> None:
        disk = self._broker.disk
        for name in disk.names(folder):
            if name.endswith(".log") and self._chance.random() < 0.7:
                disk.chill(f"{folder}/{name}")
