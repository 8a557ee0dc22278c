"""Callbacks in the user's thread: each runs once, in the innermost call, whatever interrupts it."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from kits.leaks import run_without_leaks
from moldau.client.consuming.user_calls import Attending, CallsInThread


async def forever():
    await asyncio.get_running_loop().create_future()


async def over():
    return "over"


async def ended(attending):
    attending.give_up()
    for _ in range(2):
        await asyncio.sleep(0)


async def wanting(calls, name="callback"):
    """Want a callback to run; give the others a chance to notice."""
    wanted = asyncio.create_task(calls.run(lambda: name))
    await asyncio.sleep(0)
    return wanted


def test_a_callback_waits_until_a_call_attends_to_it():
    async def scenario():
        calls, heard = CallsInThread(), []
        wanted = asyncio.create_task(calls.run(lambda: heard.append("called")))
        attending = Attending(calls, forever())
        kept = await attending.begin()
        kept.work()
        attending.ran(kept, None)
        await wanted
        failing = asyncio.create_task(calls.run(lambda: None))
        attending.ran(await attending.next(), ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await failing
        await ended(attending)
        assert heard == ["called"]

    run_without_leaks(scenario())


def test_a_callback_that_nobody_waits_for_any_more_does_not_run():
    async def scenario():
        calls = CallsInThread()
        given_up = await wanting(calls)
        given_up.cancel()
        await asyncio.wait([given_up])
        attending = Attending(calls, over())
        assert await attending.begin() is None
        assert attending.result() == "over"

    run_without_leaks(scenario())


def test_two_calls_at_once_end_each_for_itself():
    async def scenario():
        calls = CallsInThread()
        ended = asyncio.Event()
        outer, inner = (Attending(calls, over_after(ended)) for _ in range(2))
        polling = asyncio.create_task(outer.begin())
        closing = asyncio.create_task(inner.begin())
        await asyncio.sleep(0)
        ended.set()
        assert [await polling, await closing] == [None, None]
        assert [outer.result(), inner.result()] == ["over", "over"]

    async def over_after(event):
        await event.wait()
        return "over"

    run_without_leaks(scenario())


def test_only_the_innermost_call_gets_callbacks_for_the_outer_thread_may_stand_still():
    async def scenario():
        calls = CallsInThread()
        outer, inner = Attending(calls, forever()), Attending(calls, forever())
        polling = asyncio.create_task(outer.begin())
        await asyncio.sleep(0)
        closing = asyncio.create_task(inner.begin())
        await asyncio.sleep(0)
        first = await wanting(calls)
        kept = await closing
        second = await wanting(calls)  # while the inner call is busy with the first
        assert not polling.done()
        inner.ran(kept, None)
        inner.ran(await inner.next(), None)
        await asyncio.gather(first, second)
        await ended(inner)
        third = await wanting(calls)
        outer.ran(await polling, None)
        await third
        await ended(outer)

    run_without_leaks(scenario())


def test_a_callback_that_an_interrupted_call_had_taken_is_left_for_the_next():
    async def scenario():
        calls = CallsInThread()
        interrupted, later = Attending(calls, forever()), Attending(calls, forever())
        wanted = await wanting(calls)
        taken = await interrupted.begin()
        await ended(interrupted)
        kept = await later.begin()
        assert kept is taken
        later.ran(kept, None)
        await wanted
        await ended(later)

    run_without_leaks(scenario())


def test_work_that_was_interrupted_before_it_began_is_closed():
    async def scenario():
        work = over()
        attending = Attending(CallsInThread(), work)
        beginning = asyncio.create_task(attending.begin())
        beginning.cancel()
        attending.give_up()
        await asyncio.wait([beginning])
        assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED

    run_without_leaks(scenario())
