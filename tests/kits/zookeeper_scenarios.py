"""Runs a scenario on a real ZooKeeper server and on the simulated ensemble.

Each run on the server has a chroot of its own there.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from kits.zookeeper_kit import KazooBench, SimBench, ZooKeeperBench
from moldau.cluster.zookeeper.client.port import SessionState
from moldau.sim.world import World
from moldau.sim.zookeeper.ensemble import SimEnsemble

SEEDS = range(6)
DEADLINE_S = 120
"""Only ever reached by a failure."""

CONNECTED, SUSPENDED, EXPIRED = (
    SessionState.CONNECTED,
    SessionState.SUSPENDED,
    SessionState.EXPIRED,
)

Scenario = Callable[[ZooKeeperBench], Coroutine[Any, Any, None]]

_numbers = itertools.count(1)


def new_chroot() -> str:
    """A chroot that nobody else in this process uses."""
    return f"/test-{next(_numbers)}"


def run_real(scenario: Scenario, port: int) -> None:
    """Run a scenario on the server at this port."""

    async def main() -> None:
        bench = KazooBench(port, new_chroot())
        try:
            async with asyncio.timeout(DEADLINE_S):
                await scenario(bench)
        finally:
            await bench.close()

    asyncio.run(main())


def run_simulated(scenario: Scenario) -> None:
    """Run a scenario on the simulated ensemble, under some seeds."""
    for seed in SEEDS:
        with World(seed) as world:
            world.run(scenario(SimBench(SimEnsemble(world))), limit_s=DEADLINE_S * 5)
