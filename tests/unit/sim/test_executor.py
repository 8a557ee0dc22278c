"""Simulated threads: time passes before and after the work, and a kill ends both."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.executor import Lane
from moldau.sim.executor import SimExecutor
from moldau.sim.loop import PROCESS
from moldau.sim.world import World


def run(scenario, seed=1):
    with World(seed) as world:
        return world.run(scenario(world, SimExecutor(world)))


def test_what_happens_meanwhile_may_come_before_or_after_the_work():
    async def scenario(world, executor):
        written = ["before"]
        sync = executor.run(lambda: list(written))
        await asyncio.sleep(0.0005)
        written.append("meanwhile")
        return tuple(await sync)

    assert {run(scenario, seed) for seed in range(40)} == {("before",), ("before", "meanwhile")}


def test_pieces_of_work_overtake_each_other():
    async def scenario(world, executor):
        order: list[int] = []
        await asyncio.gather(*(executor.run(order.append, number) for number in range(3)))
        return tuple(order)

    assert len({run(scenario, seed) for seed in range(60)}) == 6


def test_a_slow_disk_takes_longer():
    async def scenario(world, executor):
        before = world.loop.time()
        await executor.run(int)
        quick_s = world.loop.time() - before
        executor.run_mean_s = 100.0
        await executor.run(int)
        return world.loop.time() - before > 100 * quick_s

    assert sum(run(scenario, seed) for seed in range(20)) > 15


def test_work_that_was_cancelled_before_it_began_never_happens():
    async def scenario(world, executor):
        done: list[int] = []
        executor.run(done.append, 1).cancel()
        await asyncio.sleep(10)
        await executor.close()
        return done

    assert run(scenario) == []


def test_a_killed_process_tells_nobody_and_takes_no_more_work():
    async def scenario(world, executor):
        done: list[int] = []
        pieces = [executor.run(done.append, number) for number in range(50)]
        await asyncio.sleep(0.0005)
        executor.kill()
        begun, told = len(done), sum(piece.done() for piece in pieces)
        await asyncio.sleep(100)
        assert (len(done), sum(piece.done() for piece in pieces)) == (begun, told)
        assert 0 < told < begun < 50
        with pytest.raises(RuntimeError):
            executor.run(done.append, 1)

    run(scenario)


def test_work_that_fails_in_a_process_that_ends_is_nobodys_failure():
    async def scenario(world, executor):
        begun: list[int] = []

        def fail():
            begun.append(1)
            raise OSError

        token = PROCESS.set("broker")
        pieces = [executor.run(fail) for _ in range(50)]
        PROCESS.reset(token)
        await asyncio.sleep(0.0005)
        world.loop.end_process("broker")
        told = [piece.exception() for piece in pieces if piece.done()]
        assert 0 < len(told) < len(begun)
        await asyncio.sleep(1)  # the loop raises what nobody saw

    run(scenario)


def test_computed_values_are_copies_as_if_from_another_process():
    async def scenario(world, executor):
        given = [3, 1, 2]
        assert await executor.compute(Lane.READS, sorted, given) == [1, 2, 3]
        returned = await executor.compute(Lane.READS, tuple, [given])
        return returned[0] is given

    assert run(scenario) is False
