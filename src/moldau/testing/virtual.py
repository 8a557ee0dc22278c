"""Tests on virtual time: real brokers and real clients on a simulated network and disk.

    @virtual_time(topics={"orders": 3})
    async def test_a_dead_member_is_replaced(world: VirtualWorld) -> None:
        async with AsyncConsumer(**world.client("reader"), group_id="g", topics=["orders"]) as one:
            ...
            world.network.crash("reader")
            await asyncio.sleep(60)         # takes no real time

When all tasks wait, the clock jumps to the next timer, so timeouts of minutes take milliseconds. A
seed decides which of several ready tasks runs first: the same seed gives the same run, another seed
may find another bug. A test that would hang fails and lists what each task waits for. With
`brokers=3` the world has a cluster (`virtual_cluster`).

The code under test must take its time from the event loop (`asyncio.sleep`, `loop.time`). Only
Moldau's asyncio clients work: blocking clients need threads, and other clients need sockets.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from moldau.client.errors import InvalidState
from moldau.client.records import Record
from moldau.engine.ports import ClientPorts
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.process import SimBroker
from moldau.sim.world import RUN_LIMIT_S, World
from moldau.testing.settings import Settings, Topics, broker_settings, topic_partitions
from moldau.testing.topics import create_topics, read_records
from moldau.testing.virtual_cluster import VirtualCluster

P = ParamSpec("P")
T = TypeVar("T")

FOLDER: Final = "/data"


class VirtualWorld:
    """One broker or a cluster on a simulated network, with the clients of a test."""

    def __init__(self, world: World, settings: Settings | None = None, brokers: int = 1) -> None:
        self._world = world
        self.network = SimNetwork(world)
        """Cut it with `partition(["reader"], ["broker"])` and restore it with `heal()`.
        `crash("reader")` ends all connections of a client. The brokers of a cluster are `broker-1`
        and so on."""
        self._broker: SimBroker | None = None
        self._cluster: VirtualCluster | None = None
        if brokers == 1:
            self._broker = SimBroker(
                world,
                self.network,
                SimDisk(world.random("disk"), trace=world.trace),
                {**broker_settings(settings), "node.id": "1", "log.dirs": FOLDER},
            )
        else:
            self._cluster = VirtualCluster(world, self.network, brokers, settings)

    async def start(self) -> None:
        """Start all brokers; `virtual_time` calls it before the test."""
        await (self._cluster or self.broker).start()

    @property
    def broker(self) -> SimBroker:
        """The running broker: `await start()`, `await stop()`, `kill()`, `power_cut()`."""
        if self._broker is None:
            raise InvalidState("there are several brokers", advice="Use world.cluster.")
        return self._broker

    @property
    def cluster(self) -> VirtualCluster:
        """The running cluster, with `brokers=2` or more."""
        if self._cluster is None:
            raise InvalidState(
                "there is one broker", advice="Use world.broker, or virtual_time(brokers=3)."
            )
        return self._cluster

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers on the simulated network."""
        if self._cluster is not None:
            return self._cluster.bootstrap_servers
        return str(self.broker.address)

    @property
    def now(self) -> float:
        """Seconds on the virtual clock."""
        return self._world.clock.monotonic()

    def ports(self, host: str = "client") -> ClientPorts:
        """Return the network, clock and random source of a machine of this name."""
        return ClientPorts(self.network.host(host), self._world.clock, self._world.random(host))

    def client(self, host: str = "client") -> dict[str, Any]:
        """Return the arguments for an asyncio client on a machine of this name.

        `AsyncProducer(**world.client("writer"), linger_ms=0)`
        """
        return {"bootstrap_servers": self.bootstrap_servers, "_ports": self.ports(host)}

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; raises TopicAlreadyExists and other errors of the broker."""
        await create_topics(self.client("test"), {name: partitions}, configs, replication_factor)

    async def records(self, topic: str) -> list[Record[bytes | None, bytes | None]]:
        """Return all records of a topic, partition by partition, as `read_committed`.

        Raises UnknownTopicOrPartition if the topic does not exist; reading never creates it.
        """
        return await read_records(self.client("test"), topic)


def run_virtually(
    main: Callable[[VirtualWorld], Coroutine[Any, Any, T]],
    *,
    seed: int | str = 1,
    settings: Settings | None = None,
    topics: Topics = (),
    limit_s: float = RUN_LIMIT_S,
    brokers: int = 1,
) -> T:
    """Run a coroutine function with running brokers on virtual time; return its result.

    It fails as stuck after `limit_s` virtual seconds.
    """
    wanted = topic_partitions(topics)

    async def whole(world: World) -> T:
        virtual = VirtualWorld(world, settings, brokers)
        await virtual.start()
        for name, partitions in wanted.items():
            await virtual.create_topic(name, partitions)
        return await main(virtual)

    with World(seed) as world:
        return world.run(whole(world), limit_s=limit_s)


Test = Callable[Concatenate[VirtualWorld, P], Coroutine[Any, Any, T]]


def virtual_time(
    *,
    seed: int | str = 1,
    settings: Settings | None = None,
    topics: Topics = (),
    limit_s: float = RUN_LIMIT_S,
    brokers: int = 1,
) -> Callable[[Test[P, T]], Callable[P, T]]:
    """Run an asynchronous test on virtual time.

    The test's first argument is the VirtualWorld; the others are fixtures. Fixtures are set up
    outside, in real time.
    """

    def decorate(test: Test[P, T]) -> Callable[P, T]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            return run_virtually(
                lambda world: test(world, *args, **kwargs),
                seed=seed,
                settings=settings,
                topics=topics,
                limit_s=limit_s,
                brokers=brokers,
            )

        # What pytest looks at to find the fixtures a test asks for.
        signature = inspect.signature(test)
        _world, *fixtures = signature.parameters.values()
        run.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        del run.__wrapped__
        return run

    return decorate
