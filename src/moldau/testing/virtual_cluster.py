"""A cluster on virtual time, with the methods of `TestCluster`.

    @virtual_time(brokers=3, topics={"orders": 3})
    async def test_a_broker_that_was_down_for_minutes(world: VirtualWorld) -> None:
        world.cluster.kill(2)
        await asyncio.sleep(600)
        await world.cluster.start_broker(2)

Starts and clean stops take time and are awaited; other calls are not. Each broker has its own
machine, `broker-1` and so on, with a simulated disk.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.base.ids import random_uuid, uuid_text
from moldau.client.errors import InvalidState
from moldau.cluster.formatting import identify_directories
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.process import PORT, SimBroker
from moldau.sim.world import World
from moldau.testing.settings import (
    VOTER,
    Settings,
    check_known,
    cluster_settings,
    node_settings,
)

CONTROLLER_PORT: Final = 9093
FOLDER: Final = "/data"

IDLE_PACE: Final = {"replica.fetch.wait.max.ms": "10000"}
"""Followers with nothing to fetch ask less often, because every request of an idle virtual hour
costs real time. A write still wakes them at once. All other time-outs are Kafka's."""


class VirtualCluster:
    """Several brokers on simulated machines; a test can restart them any number of times."""

    def __init__(
        self, world: World, network: SimNetwork, brokers: int, settings: Settings | None = None
    ) -> None:
        self._world = world
        self._network = network
        self._cluster_id = uuid_text(random_uuid(world.random("cluster id")))
        common = cluster_settings(brokers, IDLE_PACE, settings)
        self.broker_ids = tuple(range(1, brokers + 1))
        """The ids of all brokers. The first one is the controller."""
        self._brokers = {one: self._new_broker(one, common) for one in self.broker_ids}

    def _new_broker(self, broker_id: int, common: dict[str, str]) -> SimBroker:
        controller = f"{_host(VOTER)}:{CONTROLLER_PORT}"
        own = node_settings(broker_id, self.address(broker_id), controller, FOLDER)
        disk = SimDisk(self._world.random(f"disk-{broker_id}"), trace=self._world.trace)
        identify_directories(
            disk,
            [FOLDER],
            FOLDER,
            broker_id,
            self._world.random(f"format-{broker_id}"),
            self._world.clock.wall_ms(),
            self._cluster_id,
            founds_cluster=broker_id == VOTER,
        )
        settings = {**common, **own}
        return SimBroker(self._world, self._network, disk, settings, name=_host(broker_id))

    # Living

    async def start(self) -> None:
        """Start all brokers and wait until they serve; raises UserError if one cannot start."""
        for broker_id in self.broker_ids:
            await self.start_broker(broker_id)

    async def start_broker(self, broker_id: int) -> None:
        """Start a broker that was stopped or killed; it reuses its files."""
        broker = self._broker(broker_id)
        if broker.alive:
            raise InvalidState(f"broker {broker_id} is already running")
        life = broker.life + 1
        try:
            await broker.start()
        except BaseException:
            if broker.alive and broker.life == life:
                broker.kill()  # half a start would block the next one
            raise

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker cleanly, like SIGTERM: its leaders move away first."""
        await self._running(broker_id).stop()

    def kill(self, broker_id: int) -> None:
        """Kill a broker, like SIGKILL; its connections break."""
        self._running(broker_id).kill()

    def power_cut(self, broker_id: int) -> None:
        """Cut the power of a machine: unsynced data may be lost, and connections stay open."""
        self._running(broker_id).power_cut()

    async def restart(self, broker_id: int) -> None:
        """Stop the broker cleanly if it runs, then start it."""
        if self._broker(broker_id).alive:
            await self.stop_broker(broker_id)
        await self.start_broker(broker_id)

    def _broker(self, broker_id: int) -> SimBroker:
        check_known(broker_id, self.broker_ids)
        return self._brokers[broker_id]

    def _running(self, broker_id: int) -> SimBroker:
        broker = self._broker(broker_id)
        if not broker.alive:
            raise InvalidState(f"broker {broker_id} does not run")
        return broker

    # The network between brokers

    def partition(self, side: Iterable[int], other_side: Iterable[int]) -> None:
        """Cut brokers off from others: nothing arrives, and connections stay open.

        Clients still reach all of them; `world.network` cuts those off. A broker cut off from
        broker 1 has no controller and is fenced when its session ends.
        """
        ones, others = tuple(side), tuple(other_side)
        for broker_id in (*ones, *others):
            check_known(broker_id, self.broker_ids)
        for one in ones:
            unreachable = [_host(other) for other in others if other != one]
            self._network.partition([_host(one)], unreachable)

    def heal(self) -> None:
        """Restore all connections, also those of clients; delayed data arrives."""
        self._network.heal()

    # What a test wants to know

    @property
    def running(self) -> tuple[int, ...]:
        """The ids of the running brokers."""
        return tuple(one for one, broker in self._brokers.items() if broker.serving)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers on the simulated network."""
        return ",".join(map(self.address, self.broker_ids))

    def address(self, broker_id: int) -> str:
        """The address of one broker."""
        check_known(broker_id, self.broker_ids)
        return f"{_host(broker_id)}:{PORT}"


def _host(broker_id: int) -> str:
    return f"broker-{broker_id}"
