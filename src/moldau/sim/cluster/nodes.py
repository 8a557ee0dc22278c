"""The machines of a cluster: each with a broker, a disk and a clock of its own. The first votes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

from moldau.base.errors import MoldauError, StorageError, UserError
from moldau.base.ids import BrokerId, random_uuid, uuid_text
from moldau.cluster.formatting import identify_directories
from moldau.cluster.image import MetadataImage
from moldau.cluster.store import StoreFailed
from moldau.sim.crashes import Crashed
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.process import PORT, SimBroker
from moldau.sim.world import SimClock, World

CONTROLLER_PORT = 9093
FOLDER = "/data"
VOTER_ID = 1
RESTART_S = 0.2
"""After which a supervisor starts a broker again that has ended by itself."""


class Node:
    """One machine, and the supervisor that keeps its broker running."""

    def __init__(
        self,
        world: World,
        network: SimNetwork,
        node_id: int,
        cluster_id: str,
        settings: Mapping[str, str],
    ) -> None:
        self._world = world
        self._network = network
        self._settings = settings
        self._cluster_id = cluster_id
        self.id = node_id
        self.name = f"broker-{node_id}"
        self.is_voter = node_id == VOTER_ID
        self.clock = SimClock(world.loop)
        self.give_up_count = 0
        """How often its broker ended by itself, with a line for its operator."""
        self.disk_lost: Callable[[], None] = lambda: None
        """Called when its broker ends because its only log directory has failed."""
        self.process = SimBroker(
            world,
            network,
            self._new_disk(),
            {**settings, **self._own_settings()},
            name=self.name,
            clock=self.clock,
            gave_up=self._gave_up,
        )
        self._starting: asyncio.Task[None] | None = None

    def _own_settings(self) -> dict[str, str]:
        listener = f"PLAINTEXT://{self.name}:{PORT}"
        controller = f"CONTROLLER://{self.name}:{CONTROLLER_PORT}"
        return {
            "node.id": str(self.id),
            "log.dirs": FOLDER,
            "process.roles": "broker,controller" if self.is_voter else "broker",
            "listeners": f"{listener},{controller}" if self.is_voter else listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": f"{VOTER_ID}@broker-{VOTER_ID}:{CONTROLLER_PORT}",
        }

    def _new_disk(self) -> SimDisk:
        """Make an empty disk and format it for this cluster.

        Its directory keeps its id, as if `meta.properties` were put back. With another one a
        partition whose only replica in sync was lost would wait for an operator.
        """
        disk = SimDisk(self._world.random(f"disk-{self.id}"), trace=self._world.trace)
        identify_directories(
            disk,
            [FOLDER],
            FOLDER,
            self.id,
            random.Random(f"{self._world.seed}/format-{self.id}"),
            self.clock.wall_ms(),
            self._cluster_id,
            founds_cluster=self.is_voter,
        )
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
        name = self._twin_name
        own = self._own_settings() | {"listeners": f"PLAINTEXT://{name}:{PORT}"}
        return SimBroker(
            self._world,
            self._network,
            self._new_disk(),
            {**self._settings, **own},
            name=name,
            clock=self.clock,
            gave_up=lambda _: None,
        )

    # Down

    def wipe(self) -> None:
        """Replace the disk by an empty one; for a broker that is down."""
        self._world.trace.note("wiped", self.name)
        self.process.disk.end()
        self.process.disk = self._new_disk()


class Nodes:
    """All machines of a run."""

    def __init__(
        self, world: World, network: SimNetwork, count: int, settings: Mapping[str, str]
    ) -> None:
        cluster_id = uuid_text(random_uuid(world.random("cluster id")))
        self.all = [
            Node(world, network, node_id, cluster_id, settings) for node_id in range(1, count + 1)
        ]
        self.trace = world.trace
        self._last_image = MetadataImage()

    @property
    def voter(self) -> Node:
        return self.all[0]

    def by_id(self, node_id: int) -> Node:
        return self.all[node_id - 1]

    def is_registered(self, node_id: int) -> bool:
        """Tell whether a broker's process is the one that has its id now, as the voter knows."""
        broker = self.by_id(node_id).process.broker
        registered = self.image.brokers.get(BrokerId(node_id))
        return (
            broker is not None
            and registered is not None
            and broker.parts.broker_epoch() == registered.epoch
        )

    @property
    def image(self) -> MetadataImage:
        """What the voter has committed, as far as it was seen to run."""
        voter = self.voter.process
        if voter.serving and voter.broker is not None:
            self._last_image = voter.broker.parts.store.image
        return self._last_image
