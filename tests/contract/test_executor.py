"""What everybody may rely on when handing work away: real pools and the simulation alike."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.base.executor import Executor, Lane
from moldau.server.workers.executor import PoolExecutor
from moldau.sim.executor import SimExecutor
from moldau.sim.world import World

Scenario = Callable[[Executor], Coroutine[Any, Any, None]]


def run_real(scenario: Scenario) -> None:
    async def main() -> None:
        executor = PoolExecutor()
        try:
            await scenario(executor)
        finally:
            await executor.close()

    asyncio.run(main())


def run_simulated(scenario: Scenario) -> None:
    with World(3) as world:
        world.run(scenario(SimExecutor(world)))


@pytest.fixture(params=[run_real, run_simulated], ids=["real", "simulated"])
def run(request) -> Callable[[Scenario], None]:
    return request.param


def fail(message: str) -> None:
    raise LookupError(message)


def test_run_gives_the_result_or_the_error(run):
    async def scenario(executor):
        assert await executor.run(divmod, 7, 2) == (3, 1)
        assert await executor.run(int, "ff", base=16) == 255
        with pytest.raises(LookupError, match="so it was"):
            await executor.run(fail, "so it was")

    run(scenario)


def test_several_pieces_may_be_under_way_at_once(run):
    async def scenario(executor):
        results = await asyncio.gather(*(executor.run(divmod, n, 2) for n in range(50)))
        assert results == [divmod(n, 2) for n in range(50)]

    run(scenario)


def test_compute_gives_the_result_or_the_error(run):
    async def scenario(executor):
        assert await executor.compute(Lane.READS, math.factorial, 20) == math.factorial(20)
        with pytest.raises(ValueError):
            await executor.compute(Lane.READS, math.factorial, -1)

    run(scenario)


def test_compute_refuses_what_does_not_pickle(run):
    async def scenario(executor):
        with pytest.raises(Exception, match="pickle"):
            await executor.compute(Lane.READS, lambda: 1)

    run(scenario)


def test_every_lane_computes(run):
    async def scenario(executor):
        pieces = [executor.compute(lane, math.factorial, n) for lane in Lane for n in range(3)]
        assert await asyncio.gather(*pieces) == [1, 1, 2] * len(Lane)

    run(scenario)


def test_work_that_is_cancelled_before_it_begins_never_happens(run, tmp_path):
    dropped, done = tmp_path / "dropped", tmp_path / "done"

    async def scenario(executor):
        first = executor.compute(Lane.READS, done.touch)
        executor.compute(Lane.READS, dropped.touch).cancel()
        await first
        await executor.compute(Lane.READS, math.factorial, 5)
        await executor.close()

    run(scenario)
    assert done.exists()
    assert not dropped.exists()


def test_closing_waits_for_what_runs_and_refuses_more(run):
    async def scenario(executor):
        running = asyncio.ensure_future(executor.run(math.factorial, 5))
        await asyncio.sleep(0)
        await executor.close()
        assert await running == 120
        with pytest.raises(RuntimeError):
            await executor.run(math.factorial, 5)
        with pytest.raises(RuntimeError):
            await executor.compute(Lane.READS, math.factorial, 5)

    run(scenario)
