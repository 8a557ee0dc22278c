"""The machines of a cluster: each with a broker, a disk and a clock of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from moldau.base.errors import MoldauError, StorageError, UserError
from moldau.base.ids import BrokerId
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import StoreFailed
from moldau.sim.cluster.metadata_keeping import MetadataKeeper, OneVoter
from moldau.sim.crashes import Crashed
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.process import GaveUp, SimBroker
from moldau.sim.world import SimClock, World

RESTART_S = 0.2
"""After which a supervisor starts a broker again that has ended by itself."""


class Node:
    """One machine, and the supervisor that keeps its broker running."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        node_id: int,
        keeper: MetadataKeeper,
        settings: Mapping[str, str],
    ) -> None:
        self._world = world
        self._network = network
        self._settings = settings
        self._keeper = keeper
        self.id = node_id
        self.name = f"broker-{node_id}"
        self.has_metadata = keeper.is_on_disk_of(node_id)
        """Whether the cluster's metadata is on its disk, and nowhere else."""
        self.may_lose_disk = keeper.may_lose_disk(node_id)
        """Whether its disk may be replaced by an empty one, and its id given to another machine."""
        self.clock = SimClock(world.loop)
        self.give_up_count = 0
        """How often its broker ended by itself, with a line for its operator."""
        self.disk_lost: Callable[[], None] = lambda: None
        """Called when its broker ends because its only log directory has failed.

        So it is when the broker is killed and could not mark its records as those of this epoch,
        because its disk was full. The next life has to assume that it lacks some.
        """
        self.process = self._make_process(self.name, self._gave_up)
        self.process.before_kill = self._look_for_missing_marks
        self.twin: SimBroker | None = None
        """The newest broker on another machine with this one's id; it may have ended."""
        self._starting: asyncio.Task[None] | None = None

    def _make_process(self, name: str, gave_up: GaveUp) -> SimBroker:
        return SimBroker(
            self._world,
            self._network,
            self._new_disk(),
            {**self._settings, **self._keeper.settings_of(self.id, name)},
            name=name,
            clock=self.clock,
            gave_up=gave_up,
            open_zookeeper=self._keeper.open_zookeeper(name),
        )

    def _new_disk(self) -> SimDisk:
        """Make an empty disk and format it for this cluster."""
        disk = SimDisk(self._world.random(f"disk-{self.id}"), trace=self._world.trace)
        self._keeper.format(disk, self.id, self.clock.wall_ms())
        return disk

    @property
    def serving(self) -> bool:
        """Whether its broker runs, though it may stand still."""
        return self.process.serving

    # Up

    def start(self) -> None:
        """Start the broker in the background, however often it gives up on the way."""
        work = self._keep_starting(self._starting)
        self._starting = self._world.loop.create_task(work, name=self.name)

    async def started(self) -> None:
        """Wait for the start under way."""
        if self._starting is not None:
            await self._starting

    async def _keep_starting(self, earlier: asyncio.Task[None] | None) -> None:
        if earlier is not None:
            await earlier  # it may be about to find that its process was ended
        while not self.process.alive:
            try:
                await self.process.start()
            except Crashed:
                return  # whoever ended it starts it again
            except (UserError, StorageError, StoreFailed) as error:
                # A disk that is full or broken ends a start; the next try may find it mended.
                self._note_give_up(error)
                self.process.kill()
                await asyncio.sleep(RESTART_S)

    def _gave_up(self, error: UserError) -> None:
        self._note_give_up(error)
        if isinstance(error.__cause__, StorageError):
            self.disk_lost()
        self.process.kill()
        self._world.loop.call_later(RESTART_S, self.start)

    def _look_for_missing_marks(self) -> None:
        broker = self.process.broker
        if not self.process.serving or broker is None:
            return
        directories = broker.parts.logs.directories
        marked = {directory.last_use.marked_epoch for directory in directories}
        if marked != {broker.parts.broker_epoch()}:
            self.disk_lost()

    def _note_give_up(self, error: MoldauError) -> None:
        self.give_up_count += 1
        self._world.trace.note("gave up", self.name, str(error))

    @property
    def _twin_name(self) -> str:
        return f"{self.name}-twin"

    @property
    def has_twin(self) -> bool:
        """Whether another broker runs with this one's id."""
        return self._network.is_up(self._twin_name)

    def make_twin(self) -> SimBroker:
        """Make a broker on another machine that was given this one's id by mistake."""
        self.twin = self._make_process(self._twin_name, lambda _: None)
        return self.twin

    # Down

    def wipe(self) -> None:
        """Replace the disk by an empty one; for a broker that is down."""
        self._world.trace.note("wiped", self.name)
        self.process.disk.end()
        self.process.disk = self._new_disk()


class Nodes:
    """All machines of a run."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        count: int,
        settings: Mapping[str, str],
        keeper: MetadataKeeper | None = None,
    ) -> None:
        """Without a keeper the first node votes."""
        self._keeper = keeper or OneVoter(world)
        self.all = [
            Node(world, network, node_id, self._keeper, settings) for node_id in range(1, count + 1)
        ]
        self.trace = world.trace
        self._last_image = MetadataImage()

    @property
    def controller(self) -> Node | None:
        """The node whose broker decides; None while nobody is elected."""
        controller_id = self._keeper.controller_id(self._processes())
        return None if controller_id is None else self.by_id(controller_id)

    @property
    def controller_epoch(self) -> int:
        """The epoch of the newest controller that is known; 0 where there is only ever one."""
        return self._keeper.controller_epoch(self._processes(), self.image)

    def among(self, ran: AbstractSet[str]) -> list[Node]:
        """Return the nodes of which something may have changed when these processes have run.

        The script of a run is no such process: it starts and ends processes, of which the loop is
        told, and talks to them over the network as clients do.
        """
        return [
            node
            for node in self.all
            if node.process.process in ran or (node.twin is not None and node.twin.process in ran)
        ]

    def by_id(self, node_id: int) -> Node:
        return self.all[node_id - 1]

    def is_registered(self, node_id: int) -> bool:
        """Tell whether a broker's process is the one that has its id now, as was decided."""
        broker = self.by_id(node_id).process.broker
        registered = self.image.brokers.get(BrokerId(node_id))
        return (
            broker is not None
            and registered is not None
            and broker.parts.broker_epoch() == registered.epoch
        )

    @property
    def image(self) -> MetadataImage:
        """What was decided, as far as it was seen."""
        self._last_image = self._keeper.newest_image(self._processes(), self._last_image)
        return self._last_image

    def _processes(self) -> Iterator[SimBroker]:
        for node in self.all:
            yield node.process
            if node.twin is not None:
                yield node.twin
