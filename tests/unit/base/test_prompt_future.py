"""Futures whose listener is called within the same turn of the loop."""

from __future__ import annotations

import asyncio

import pytest

from moldau.base.prompt_future import PromptFuture


def test_the_listener_is_called_with_the_result_at_once():
    async def scenario():
        future, heard = PromptFuture(), []
        future.listen(lambda done: heard.append(done.result()))
        future.set_result(1)
        assert heard == [1]
        await asyncio.sleep(0)
        assert heard == [1]
        assert await future == 1

    asyncio.run(scenario())


def test_who_listens_to_what_is_done_is_called_on_the_next_turn():
    async def scenario():
        future, heard = PromptFuture(), []
        future.set_result(1)
        future.listen(lambda done: heard.append(done.result()))
        assert heard == []
        await asyncio.sleep(0)
        assert heard == [1]

    asyncio.run(scenario())


def test_an_error_is_told_on_the_next_turn():
    async def scenario():
        future, heard = PromptFuture(), []
        future.listen(heard.append)
        future.set_exception(ValueError())
        assert heard == []
        await asyncio.sleep(0)
        assert heard == [future]
        with pytest.raises(ValueError):
            future.result()

    asyncio.run(scenario())


def test_a_cancelled_future_says_so_once():
    async def scenario():
        future, heard, cancelled = PromptFuture(), [], []
        future.listen(heard.append)
        future.on_cancel = lambda: cancelled.append(True)
        assert future.cancel()
        assert not future.cancel()
        assert (heard, cancelled) == ([], [True])
        await asyncio.sleep(0)
        assert (heard, cancelled) == ([future], [True])

    asyncio.run(scenario())


def test_a_task_that_waits_for_it_can_be_cancelled():
    async def scenario():
        future, cancelled = PromptFuture(), []
        future.on_cancel = lambda: cancelled.append(True)
        task = asyncio.ensure_future(future_of(future))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled == [True]

    async def future_of(future):
        return await future

    asyncio.run(scenario())
