"""Tests on virtual time: a real broker and real clients on a simulated network and disk.

    @virtual_time(topics={"orders": 3})
    async def test_a_member_that_dies_is_replaced(world: VirtualWorld) -> None:
        async with AsyncConsumer(**world.client("reader"), group_id="g", topics=["orders"]) as one:
            ...
            world.network.crash("reader")
            await asyncio.sleep(60)         # no time at all

Whenever everybody waits, the clock jumps to the next timer, so that time-outs of minutes take
milliseconds. What runs first when several things could is drawn from a seed: the same seed gives
the same run, another one perhaps another bug. A test that would hang fails and says who waits for
what. The code under test must take its time from the event loop (`asyncio.sleep`, `loop.time`).
The blocking clients need threads and cannot be used here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from moldau.client.admin import AsyncAdmin
from moldau.engine.ports import ClientPorts
from moldau.sim.disk import SimDisk
from moldau.sim.network import SimNetwork
from moldau.sim.process import SimBroker
from moldau.sim.world import RUN_LIMIT_S, World
from moldau.testing.broker import (
    Settings,
    Topics,
    broker_settings,
    check_single,
    topic_partitions,
)

P = ParamSpec("P")
T = TypeVar("T")

FOLDER: Final = "/data"


class VirtualWorld:
    """One broker, and whatever clients a test puts on the network beside it."""

    def __init__(self, world: World, settings: Settings | None = None) -> None:
        self._world = world
        self.network = SimNetwork(world)
        """Cut it with `partition(["reader"], ["broker"])`, mend it with `heal()`; `crash("reader")`
        ends all connections of a client."""
        self.broker = SimBroker(
            world,
            self.network,
            SimDisk(world.random("disk"), trace=world.trace),
            {**broker_settings(settings), "node.id": "1", "log.dirs": FOLDER},
        )
        """The broker: `await start()`, `await stop()`, `kill()`, `power_cut()`. It runs already."""

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address on the simulated network."""
        return str(self.broker.address)

    @property
    def now(self) -> float:
        """Seconds on the virtual clock."""
        return self._world.clock.monotonic()

    def ports(self, host: str = "client") -> ClientPorts:
        """Return the network, clock and chance of a machine of this name."""
        return ClientPorts(self.network.host(host), self._world.clock, self._world.random(host))

    def client(self, host: str = "client") -> dict[str, Any]:
        """Return what an asynchronous client is given to run here, on a machine of this name.

        `AsyncProducer(**world.client("writer"), linger_ms=0)`
        """
        return {"bootstrap_servers": self.bootstrap_servers, "ports": self.ports(host)}

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic; TopicAlreadyExists and the like are raised."""
        async with AsyncAdmin(**self.client("test")) as admin:
            await admin.create_topic(name, partitions=partitions)


def run_virtually(
    main: Callable[[VirtualWorld], Coroutine[Any, Any, T]],
    *,
    seed: int | str = 1,
    settings: Settings | None = None,
    topics: Topics = (),
    limit_s: float = RUN_LIMIT_S,
    brokers: int = 1,
) -> T:
    """Run a coroutine function in a world whose broker serves; return what it returns.

    `limit_s` are virtual seconds after which it counts as stuck.
    """
    check_single(brokers)
    wanted = topic_partitions(topics)

    async def whole(world: World) -> T:
        virtual = VirtualWorld(world, settings)
        await virtual.broker.start()
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
    """Turn an asynchronous test into a plain one that runs on virtual time.

    The test's first argument is the VirtualWorld; the others are its fixtures, as usual. Fixtures
    are set up outside, in real time.
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
