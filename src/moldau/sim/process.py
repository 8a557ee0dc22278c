"""A broker as a simulated process: started, stopped, killed, cut from its power, started again.

The broker is the real one, given a simulated world. What makes it a process is that it can end at
any moment and then has no effect any more: its tasks are cancelled, its timers never fire, its
connections are reset, what its threads had not begun never happens, and code of it that still
unwinds finds its disk gone.

Tasks and timers are told apart by the context they were made in: everything the broker is called
with from outside (its connections) enters the context of its process. So several brokers can live
on one loop, and a task that outlives an orderly stop is found.

    broker = SimBroker(world, network, disk, {"log.dirs": "/data"})
    await broker.start()
    broker.kill()
    await broker.start()
    await broker.stop()
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVarTuple

from moldau.base.errors import InvariantViolated, UserError
from moldau.base.network import Accept, Address, Listener, Network, Receiver, Stream
from moldau.server.broker import Broker
from moldau.server.configuration.settings import BrokerSettings
from moldau.server.parts import OpenZooKeeper, Ports
from moldau.server.stores import node_store
from moldau.sim.crashes import Crashed, CrashPlan
from moldau.sim.disk import SimDisk
from moldau.sim.executor import SimExecutor
from moldau.sim.loop import PROCESS, SimLoop
from moldau.sim.network import SimNetwork
from moldau.sim.world import SimClock, World

Ts = TypeVarTuple("Ts")

PORT = 9092

Started = Callable[[Broker], None]
"""Called when a broker begins to serve, before the first request can have been answered."""

GaveUp = Callable[[UserError], None]
"""Called when a running broker ends by itself, with what it tells its operator."""


class _OwnedReceiver:
    """Hands what a stream tells to its owner, inside the owner's process."""

    def __init__(self, receiver: Receiver, context: contextvars.Context, loop: SimLoop) -> None:
        self._receiver = receiver
        self._context = context
        self._loop = loop

    def received(self, data: memoryview) -> int:
        self._loop.entered(self._context.get(PROCESS, ""))
        return self._context.copy().run(self._receiver.received, data)

    def drained(self) -> None:
        self._tell(self._receiver.drained)

    def closed(self, error: Exception | None) -> None:
        self._tell(self._receiver.closed, error)

    def _tell(self, hear: Callable[[*Ts], None], *facts: *Ts) -> None:
        """Tell the owner at once; a process that is paused hears of it when it goes on."""
        context = self._context.copy()
        if self._loop.is_paused(context.get(PROCESS, "")):
            self._loop.call_soon(hear, *facts, context=context)
        else:
            self._loop.entered(context.get(PROCESS, ""))
            context.run(hear, *facts)


class _OwnedNetwork:
    """A host's network, whose streams belong to one process."""

    def __init__(self, network: Network, context: contextvars.Context, loop: SimLoop) -> None:
        self._network = network
        self._context = context
        self._loop = loop

    def _owned(self, accept: Accept) -> Accept:
        def accept_as_owner(stream: Stream) -> Receiver:
            # A copy, because a context cannot be entered twice and streams call back at once.
            self._loop.entered(self._context.get(PROCESS, ""))
            receiver = self._context.copy().run(accept, stream)
            return _OwnedReceiver(receiver, self._context, self._loop)

        return accept_as_owner

    async def listen(self, host: str, port: int, accept: Accept) -> Listener:
        return await self._network.listen(host, port, self._owned(accept))

    async def connect(self, host: str, port: int, receiver: Accept) -> Stream:
        return await self._network.connect(host, port, self._owned(receiver))

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._network.call_soon(callback)


class SimBroker:
    """One broker on one simulated machine, through all its lives."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        disk: SimDisk,
        settings: Mapping[str, str],
        *,
        name: str = "broker",
        clock: SimClock | None = None,
        started: Started = lambda _: None,
        gave_up: GaveUp | None = None,
        open_zookeeper: OpenZooKeeper | None = None,
    ) -> None:
        self._world = world
        self._network = network
        self._started = started
        self._gave_up = gave_up
        self._open_zookeeper = open_zookeeper
        self.clock = clock or world.clock
        self._settings = BrokerSettings.load(
            None, {"listeners": f"PLAINTEXT://{name}:{PORT}", **settings}
        )
        self._context = contextvars.Context()
        self._executor = SimExecutor(world)
        self._stopping = asyncio.Event()
        self._main: asyncio.Task[None] | None = None
        self._plan: CrashPlan | None = None
        self.disk = disk
        self.name = name
        self.life = 0
        """How often it was started."""
        self.process = f"{name}#0"
        """This life's process, as tasks are told apart by."""
        self.boot = 0
        """How often its machine lost its power."""
        self.alive = False
        """Whether there is a process."""
        self.broker: Broker | None = None
        """The broker of this life, or of the last one while there is none."""
        self.newest_broker: Broker | None = None
        """The broker of this life from the first moment on, also while it starts."""
        self.before_kill: Callable[[], None] = lambda: None
        """Called while the process that is about to be killed is still there."""
        network.host(name)

    @property
    def address(self) -> Address:
        return Address(self.name, PORT)

    @property
    def serving(self) -> bool:
        """Whether it has started and not begun to stop."""
        return self.alive and self._main is not None

    # Living

    async def start(self) -> None:
        """Start a process that serves; Crashed if it was ended meanwhile."""
        self.life += 1
        self.process = f"{self.name}#{self.life}"
        self._world.loop.entered(self.process)
        self.alive = True
        self._context = contextvars.copy_context()
        self._context.run(PROCESS.set, self.process)
        self._executor = SimExecutor(self._world)
        self._stopping = asyncio.Event()
        self._main = None
        broker = self.newest_broker = Broker(
            self._settings,
            Ports(
                clock=self.clock,
                random=self._world.random(self.name),
                files=self.disk,
                network=_OwnedNetwork(
                    self._network.host(self.name), self._context, self._world.loop
                ),
                executor=self._executor,
                cleaner=self._executor,
                make_store=node_store,
                open_zookeeper=self._open_zookeeper,
                boot_id=f"{self.name}-{self.boot}",
            ),
        )
        await self.inside(self._start(broker))

    async def _start(self, broker: Broker) -> None:
        await broker.start()
        # Nothing else runs between the start and this.
        self.broker = broker
        self._started(broker)
        self._main = asyncio.ensure_future(broker.run_until(self._stopping))
        self._main.add_done_callback(self._main_ended)

    def _main_ended(self, task: asyncio.Task[None]) -> None:
        """A broker whose task fails by itself is broken: the loop hears of it and ends the run.

        One that gives up with a reason for its operator may be expected to.
        """
        if task.cancelled():
            return
        if isinstance(error := task.exception(), UserError) and self._gave_up is not None:
            self._gave_up(error)
        else:
            task.result()

    async def stop(self) -> None:
        """Stop in an orderly way; Crashed if it was ended meanwhile."""
        broker = self.broker
        if not self.serving or broker is None:
            raise InvariantViolated(f"{self.name} does not run")
        self._stopping.set()
        await self.inside(self._stop(broker))
        self._end()
        self.disk = self.disk.kill()

    async def _stop(self, broker: Broker) -> None:
        assert self._main is not None
        await self._main
        self._main = None
        await broker.stop()
        await self._executor.close()

    async def inside(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something as this process and wait for it; Crashed if the process ends first."""
        life = self.life
        task = self._world.loop.create_task(work, context=self._context)
        await asyncio.wait([task])
        if not self.alive or self.life != life:
            raise Crashed(f"{self.name} ended")
        task.result()

    def slow_disk(self, mean_s: float) -> None:
        """Let what waits for the disk take this long on average, in this life."""
        self._executor.run_mean_s = mean_s

    def leaked_tasks(self) -> list[str]:
        """Name the tasks that the last process left behind."""
        return [task.get_name() for task in self._world.loop.pending_tasks(self.process)]

    # Standing still

    @property
    def paused(self) -> bool:
        """Whether the process stands still."""
        return self._world.loop.is_paused(self.process)

    def pause(self) -> None:
        """Stop the process as SIGSTOP does: its timers wait, while the world goes on."""
        self._network.pause(self.name)
        self._world.loop.pause_process(self.process)

    def resume(self) -> None:
        """Let the process go on."""
        self._world.loop.resume_process(self.process)
        self._network.resume(self.name)

    # Dying

    def kill(self) -> None:
        """End the process as `kill -9` does: what it wrote stays, all else is gone."""
        self.before_kill()
        self._network.crash(self.name)
        self._die()
        self.disk = self.disk.kill()

    def power_cut(self, *, silent: bool = True) -> None:
        """End the machine: what was not synced may be gone, and its peers may not be told."""
        self._network.crash(self.name, silent=silent)
        self.boot += 1
        self._die()
        self.disk = self.disk.power_cut()

    def crash_at(self, plan: CrashPlan, point: str, hit: int, *, power: bool = False) -> None:
        """Let the process end at the n-th visit of a crash point from now."""
        self._plan = plan
        plan.arm(point, hit, self.power_cut if power else self.kill)

    def _die(self) -> None:
        self._executor.kill()
        self._world.loop.end_process(self.process)
        self._end()

    def _end(self) -> None:
        self._world.loop.entered(self.process)
        self.alive = False
        self._main = None
        if self._plan is not None:
            self._plan.disarm()
            self._plan = None
