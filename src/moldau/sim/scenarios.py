"""One run of the broker under a seed: clients work, things go wrong, then all is read and checked.

    outcome = run_seed(7)
    outcome.digest      # the same for the same seed, everywhere

A run that fails raises `Failed`, whose text has the seed, the settings and the last events: what
is needed to run it again and to see what led to it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from moldau.base.errors import MoldauError, UserError
from moldau.server.lifecycle.internal_topics import INTERNAL_TOPICS
from moldau.sim.checks import FinalReader, check_files, check_insides, check_no_task_left
from moldau.sim.coordination_checks import FinalCommittedReader, check_replayed
from moldau.sim.crashes import CrashPlan
from moldau.sim.disk import SimDisk
from moldau.sim.history import Violation
from moldau.sim.keyed_history import KeyedHistory
from moldau.sim.log_lines import LogLines, log_lines
from moldau.sim.loop import Unhandled
from moldau.sim.nemesis import Nemesis
from moldau.sim.network import SimNetwork
from moldau.sim.process import SimBroker
from moldau.sim.swarm import Swarm, draw_swarm
from moldau.sim.workload.administrator import Administrator
from moldau.sim.workload.client import Worker
from moldau.sim.workload.committed_reader import CommittedReader
from moldau.sim.workload.committer import Committer
from moldau.sim.workload.consumer import Consumer
from moldau.sim.workload.group_member import GroupMember
from moldau.sim.workload.keyed import FinalKeyedReader, KeyedReader, KeyedWriter
from moldau.sim.workload.producer import Producer
from moldau.sim.workload.targets import Targets, TopicTarget
from moldau.sim.workload.transactor import Transactor
from moldau.sim.world import World

RUN_LIMIT_S = 300.0
"""Virtual seconds; a run of ten that has not ended by then is stuck (P7)."""

SETTLED_WITHIN_S = 60.0
"""Virtual seconds in which clients have finished what they began, once all is well (P7)."""

EVENTS_SHOWN = 60
REUSED_NAME = "phoenix"
KEPT_NAME = "kept"
KEPT_PARTITIONS = 3
KEYED_NAME = "keyed"
KEYED_PARTITIONS = 2
COMPACTED_NAMES = (KEYED_NAME, *INTERNAL_TOPICS)


class Failed(MoldauError):  # noqa: N818 - it names the outcome
    """A run did not end well."""


@dataclass(frozen=True)
class ScenarioOutcome:
    """What a run came to."""

    seed: int
    digest: str
    event_count: int
    seen: Counter[str]
    """What happened in it, and how often."""
    crashes: Counter[str]
    """At which named points the broker crashed, and how often."""


Adjust = Callable[[Swarm], Swarm]


def run_seed(
    seed: int, *, fifo: bool = False, adjust: Adjust = lambda swarm: swarm
) -> ScenarioOutcome:
    """Run one seed to its end; Failed if a promise was broken.

    `adjust` may change the settings that were drawn, to look for something in particular.
    """
    with World(seed, fifo=fifo) as world, log_lines(world.trace) as lines:
        swarm = adjust(draw_swarm(world.random("swarm")))
        with CrashPlan(trace=world.trace) as plan:
            scenario = _Scenario(world, swarm, plan, lines)
            try:
                world.run(scenario.run(), limit_s=RUN_LIMIT_S)
            except Exception as error:  # noqa: BLE001 - whatever it is ends the run, with a report
                cause = first_cause(error)
                raise Failed(report(seed, swarm, world, cause)) from cause
        seen = scenario.targets.seen
        seen["torn tail cut"] += lines.cut_count
        seen["log cleaned"] += lines.cleaned_count
        return ScenarioOutcome(seed, world.trace.digest(), world.trace.count, seen, plan.ended)


def first_cause(error: BaseException) -> BaseException:
    """Find what went wrong first in a group of tasks; also what a check said in a callback."""
    while isinstance(error, BaseExceptionGroup):
        violations = [one for one in error.exceptions if isinstance(one, Violation)]
        error = (violations or error.exceptions)[0]
    cause = error.__cause__
    return cause if isinstance(error, Unhandled) and isinstance(cause, Violation) else error


def report(seed: int, swarm: object, world: World, error: BaseException) -> str:
    """Tell the story of a run that failed: what broke, the settings, and the last events."""
    events = [line for line in world.trace.last() if " deliver " not in line]
    return "\n".join(
        [
            f"seed {seed}: {type(error).__name__}: {error}",
            f"  {swarm}",
            *(f"  {line}" for line in events[-EVENTS_SHOWN:]),
        ]
    )


class _Scenario:
    """One run."""

    def __init__(self, world: World, swarm: Swarm, plan: CrashPlan, lines: LogLines) -> None:
        self._swarm = swarm
        self._lines = lines
        self._chance = world.random("scenario")
        network = SimNetwork(world, chunk_size_max=swarm.chunk_size_max)
        network.reset_chance = swarm.reset_chance
        self.targets = Targets(world, network)
        self.targets.broker = self._broker = SimBroker(
            world,
            network,
            SimDisk(world.random("disk"), trace=world.trace),
            {"node.id": "1", "log.dirs": ",".join(swarm.log_dirs), **swarm.settings},
            started=self.targets.broker_started,
            gave_up=self._gave_up,
        )
        self._nemesis = Nemesis(self.targets, swarm, plan)
        self._administrator = Administrator(self.targets)

    def _gave_up(self, error: UserError) -> None:
        """Let a broker end whose log directories have all failed; the nemesis starts it again."""
        if not self.targets.disk_failed:
            raise error
        self.targets.seen["all directories failed"] += 1
        self._broker.kill()

    async def run(self) -> None:
        """Work and suffer, recover, read everything, stop, and look at what is left."""
        await self._broker.start()
        for configs in self._swarm.topics:
            await self._administrator.create(self._new_topic(configs))
        if self._swarm.coordination:
            await self._create_kept_topics()
        async with asyncio.TaskGroup() as group:
            working = [
                group.create_task(client.run(), name=client.name)
                for client in (*self._clients(), *self._coordinated())
            ]
            changes = group.create_task(self._change_topics(), name="changes")
            await self._nemesis.run()
            await changes
            self.targets.stopped = True
            await self._wait_for(working)
        await self._finish()

    async def _create_kept_topics(self) -> None:
        kept = TopicTarget(KEPT_NAME, KEPT_PARTITIONS, {}, by_id=False, kept=True)
        await self._administrator.create(kept)
        if self._swarm.coordination.keyed_writers:
            configs = {"cleanup.policy": "compact", **dict(self._swarm.coordination.keyed_configs)}
            keyed = TopicTarget(KEYED_NAME, KEYED_PARTITIONS, configs, by_id=False, kept=True)
            await self._administrator.create(keyed)
            names = [f"{KEYED_NAME}-{index}" for index in range(KEYED_PARTITIONS)]
            self.targets.keyed = [KeyedHistory(name) for name in names]

    async def _wait_for(self, working: list[asyncio.Task[None]]) -> None:
        """P7: let clients finish."""
        if not working:
            return
        _, busy = await asyncio.wait(working, timeout=SETTLED_WITHIN_S)
        if busy:
            names = ", ".join(sorted(task.get_name() for task in busy))
            groups = "; ".join(str(one) for one in self.targets.groups.values())
            raise Violation(f"P7: {names} cannot finish, when all is well; {groups}")

    async def _finish(self) -> None:
        await self._administrator.check_topics()
        self._administrator.close()
        await FinalReader(self.targets).run()
        assert self._broker.broker is not None
        if self._swarm.coordination:
            await FinalCommittedReader(self.targets).run()
            await FinalKeyedReader(self.targets).run()
            await check_replayed(self._broker.broker)
        check_insides(self._broker.broker)
        await self._broker.stop()
        await check_no_task_left(self._broker)
        for folder in self._swarm.log_dirs:
            check_files(self._broker.disk, folder, COMPACTED_NAMES)
        if self._lines.bugs:
            raise Violation(f"E10: the broker met a bug of its own: {self._lines.bugs[0]}")

    def _clients(self) -> list[Producer | Consumer]:
        producers = [
            Producer(self.targets, f"{'idempotent' if plan.idempotent else 'plain'}-{number}", plan)
            for number, plan in enumerate(self._swarm.producers)
        ]
        consumers = [
            Consumer(self.targets, f"consumer-{number}", plan)
            for number, plan in enumerate(self._swarm.consumers)
        ]
        return [*producers, *consumers]

    def _coordinated(self) -> list[Worker]:
        work = self._swarm.coordination
        return [
            *(
                GroupMember(self.targets, f"member-{number}-{one}", f"group-{number}", plan)
                for number, plans in enumerate(work.groups)
                for one, plan in enumerate(plans)
            ),
            *(
                Committer(self.targets, f"committer-{number}", group)
                for number, group in enumerate(work.committers)
            ),
            *(
                Transactor(self.targets, f"transactor-{number}", plan)
                for number, plan in enumerate(work.transactors)
            ),
            *(
                CommittedReader(self.targets, f"committed-reader-{number}", plan)
                for number, plan in enumerate(work.readers)
            ),
            *(
                KeyedWriter(self.targets, f"keyed-writer-{number}", number % KEYED_PARTITIONS)
                for number in range(work.keyed_writers)
            ),
            *([KeyedReader(self.targets, "keyed-reader")] if work.keyed_writers else ()),
        ]

    # Topics

    def _new_topic(self, configs: dict[str, str]) -> TopicTarget:
        """Make a topic with a new name, or now and then with one that was deleted."""
        free = not any(one.name == REUSED_NAME and not one.deleted for one in self.targets.topics)
        reused = free and self._chance.random() < 0.5
        name = REUSED_NAME if reused else f"topic-{len(self.targets.topics)}"
        return TopicTarget(name, self._swarm.partition_count, configs, by_id=reused)

    async def _change_topics(self) -> None:
        """Create and delete topics and records on the way."""
        end_s = self.targets.world.loop.time() + self._swarm.duration_s
        while self.targets.world.loop.time() < end_s:
            await asyncio.sleep(self._chance.expovariate(1.0))
            if self._swarm.records_deleted and self.targets.live:
                await self._delete_records()
            if self._swarm.topics_change:
                if len(self.targets.live) > 1:
                    await self._administrator.delete(self._chance.choice(self.targets.live))
                configs = self._chance.choice(self._swarm.topics)
                await self._administrator.create(self._new_topic(configs))

    async def _delete_records(self) -> None:
        topic = self._chance.choice(self.targets.live)
        index = self._chance.randrange(topic.partition_count)
        end = topic.histories[index].end
        if end:
            before = self._chance.randrange(end + 1)
            await self._administrator.delete_records(topic, index, before)
