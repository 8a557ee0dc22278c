"""Shielded work outlives who waits for it, and its failure is reported to nobody."""

from __future__ import annotations

import asyncio
import gc

import pytest

from moldau.base.shielding import shielded


class LateError(Exception):
    """What the work fails of."""


def run(scenario):
    """Run a scenario, and return what was reported to the loop meanwhile."""
    reported = []

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context["message"]))
        await scenario()
        gc.collect()

    asyncio.run(main())
    return reported


def test_it_returns_what_the_work_comes_to():
    async def scenario():
        assert await shielded(asyncio.sleep(0, "done")) == "done"
        done = asyncio.ensure_future(asyncio.sleep(0, "before"))
        await done
        assert await shielded(done) == "before"
        failing = asyncio.get_running_loop().create_future()
        failing.set_exception(LateError())
        with pytest.raises(LateError):
            await shielded(failing)

    assert run(scenario) == []


@pytest.mark.parametrize("fails", [False, True])
def test_work_goes_on_without_who_waited_and_nothing_is_reported(fails):
    ended = []

    async def scenario():
        go_on = asyncio.Event()

        async def work():
            await go_on.wait()
            ended.append(True)
            if fails:
                raise LateError

        waiting = asyncio.ensure_future(shielded(work()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not ended
        go_on.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        await asyncio.sleep(0)

    assert run(scenario) == []
    assert ended


def test_cancelled_work_cancels_who_waits():
    async def scenario():
        work = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(shielded(work))
        await asyncio.sleep(0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    assert run(scenario) == []


def test_a_failure_while_others_wait_is_theirs():
    async def scenario():
        work = asyncio.get_running_loop().create_future()
        gone, there = (asyncio.ensure_future(shielded(work)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        work.set_exception(LateError())
        with pytest.raises(LateError):
            await there

    assert run(scenario) == []
