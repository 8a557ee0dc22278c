"""Deliveries are futures, to asyncio or to concurrent.futures."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import sys
import threading

import pytest

from kits.leaks import run_without_leaks
from moldau.client.errors import DeliveryTimedOut, InvalidArgument, InvalidState, RequestTimedOut
from moldau.client.interceptors import ProducerInterceptor
from moldau.client.producing.asynchronous import AsyncProducer
from moldau.client.producing.batch_results import BatchResult, Moved
from moldau.client.producing.deliveries import AsyncDelivery, Delivery, LoopGuard

COUNT = 500


class Batch:
    """A batch on its way, with a delivery for each record."""

    def __init__(self, kind=AsyncDelivery, count=3):
        guard = LoopGuard(asyncio.get_running_loop()) if kind is AsyncDelivery else threading.Lock()
        self.result = BatchResult("t", 0, guard)
        self.deliveries = [kind(self.result, index, 0) for index in range(count)]

    def settle(self, error=None):
        """Decide on its records, as the sender does."""
        with self.result.guard:
            told = self.result.settle(error, -1 if error else 100)
        for watcher in told:
            watcher()


def soon(function, *arguments):
    asyncio.get_running_loop().call_soon(function, *arguments)


def offsets(metadata):
    return [one.offset for one in metadata]


async def no_tasks_but_this():
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_gather_takes_deliveries_without_a_task_for_each():
    async def scenario():
        pending, written = Batch(count=COUNT), Batch()
        written.settle()
        gathered = asyncio.gather(*pending.deliveries, *written.deliveries)
        await no_tasks_but_this()
        soon(pending.settle)
        assert offsets(await gathered) == [*range(100, 100 + COUNT), 100, 101, 102]

    run_without_leaks(scenario())


def test_deliveries_that_are_done_are_told_together_in_the_next_turn(monkeypatch):
    async def scenario():
        loop = asyncio.get_running_loop()
        written = Batch(count=COUNT)
        written.settle()
        asked, told = [], []
        with monkeypatch.context() as patched:
            call_soon = loop.call_soon
            patched.setattr(loop, "call_soon", lambda call: asked.append(call) or call_soon(call))
            for delivery in written.deliveries:
                delivery.add_done_callback(told.append)
        assert (len(asked), told) == (1, [])
        await asyncio.sleep(0)
        assert told == written.deliveries

    asyncio.run(scenario())


def test_gather_raises_the_first_error_or_returns_all_of_them():
    async def scenario():
        good, bad = Batch(), Batch()
        soon(bad.settle, DeliveryTimedOut("late"))
        with pytest.raises(DeliveryTimedOut, match="late"):
            await asyncio.gather(*good.deliveries, *bad.deliveries)
        soon(good.settle)
        results = await asyncio.gather(*good.deliveries, *bad.deliveries, return_exceptions=True)
        assert offsets(results[:3]) == [100, 101, 102]
        assert all(type(one) is DeliveryTimedOut for one in results[3:])

    run_without_leaks(scenario())


def test_a_gather_that_is_cancelled_ends_at_once():
    async def scenario():
        batch = Batch()
        waiting = asyncio.ensure_future(asyncio.wait_for(asyncio.gather(*batch.deliveries), 0.01))
        with pytest.raises(TimeoutError):
            await waiting
        assert all(one.cancelled() and one.done() for one in batch.deliveries)
        with pytest.raises(asyncio.CancelledError):
            batch.deliveries[0].exception()
        batch.settle()
        with pytest.raises(asyncio.CancelledError):
            await batch.deliveries[0]
        results = await asyncio.gather(*batch.deliveries, return_exceptions=True)
        assert all(type(one) is asyncio.CancelledError for one in results)

    run_without_leaks(scenario())


def test_wait_tells_those_that_are_done_from_those_that_are_not():
    async def scenario():
        first, second, written = Batch(), Batch(), Batch()
        written.settle()
        every = [*first.deliveries, *second.deliveries]
        soon(first.settle)
        done, pending = await asyncio.wait(every, return_when=asyncio.FIRST_COMPLETED)
        assert (done, pending) == (set(first.deliveries), set(second.deliveries))
        done, pending = await asyncio.wait([*every, *written.deliveries], timeout=0.01)
        assert (done, pending) == (
            {*first.deliveries, *written.deliveries},
            set(second.deliveries),
        )
        await no_tasks_but_this()
        soon(second.settle, DeliveryTimedOut("late"))
        done, pending = await asyncio.wait(every, return_when=asyncio.FIRST_EXCEPTION)
        assert (done, pending) == (set(every), set())

    run_without_leaks(scenario())


def test_as_completed_hands_them_out_as_they_are_settled():
    async def scenario():
        first, second, written = Batch(), Batch(count=2), Batch(count=1)
        written.settle()
        soon(second.settle)
        soon(first.settle)
        every = [*first.deliveries, *second.deliveries, *written.deliveries]
        found = [await one for one in asyncio.as_completed(every)]
        assert sorted(offsets(found)) == [100, 100, 100, 101, 101, 102]

    run_without_leaks(scenario())


def test_a_time_out_ends_the_waiting_alone():
    async def scenario():
        one, other, third = (batch := Batch()).deliveries
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(one), 0.01)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await other
        task = asyncio.ensure_future(asyncio.wait_for(_awaited(third), 5))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        soon(batch.settle)
        assert offsets([await one, await other]) == [100, 101]
        assert (await asyncio.wait_for(asyncio.shield(third), 5)).offset == 102
        assert (await asyncio.wait_for(third, 0)).offset == 102

    run_without_leaks(scenario())


def test_only_the_wait_for_of_python_3_11_cancels_the_delivery_it_gives_up_on():
    """There it calls `cancel` of the future it was given, which nobody else's `cancel` looks like.

    From 3.12 on it is `asyncio.timeout`, which cancels the task that waits.
    """

    async def scenario():
        batch = Batch(count=1)
        (delivery,) = batch.deliveries
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(delivery, 0.01)
        assert delivery.cancelled() == (sys.version_info < (3, 12))
        batch.settle()
        if not delivery.cancelled():
            assert (await delivery).offset == 100

    run_without_leaks(scenario())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="tasks are eager from Python 3.12 on")
def test_eager_tasks_await_them():
    async def scenario():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        batch, written = Batch(), Batch()
        written.settle()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_awaited(one)) for one in (*batch.deliveries, *written.deliveries)
            ]
            assert [task.done() for task in tasks] == [False] * 3 + [True] * 3
            soon(batch.settle)
        assert offsets(task.result() for task in tasks) == [100, 101, 102] * 2
        assert offsets(await asyncio.gather(*batch.deliveries)) == [100, 101, 102]

    run_without_leaks(scenario())


async def _awaited(delivery):
    return await delivery


def test_a_task_group_awaits_them():
    async def scenario():
        batch = Batch()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(one)) for one in batch.deliveries]
            soon(batch.settle)
        assert offsets(task.result() for task in tasks) == [100, 101, 102]

    run_without_leaks(scenario())


def test_many_may_wait_for_one_delivery_and_one_of_them_give_up():
    async def scenario():
        batch = Batch(count=1)
        (delivery,) = batch.deliveries
        patient, hasty = (asyncio.ensure_future(_awaited(delivery)) for _ in range(2))
        await asyncio.sleep(0)
        hasty.cancel()
        await asyncio.wait([hasty])
        assert not delivery.cancelled()
        batch.settle()
        assert (await patient).offset == 100

    run_without_leaks(scenario())


def test_a_callback_that_is_taken_back_is_not_called():
    async def scenario():
        batch = Batch(count=2)
        told = []
        first, second = batch.deliveries
        for callback in (told.append, told.append, told.remove):
            first.add_done_callback(callback)
        second.add_done_callback(told.append)
        assert first.remove_done_callback(told.remove) == 1
        assert second.remove_done_callback(told.append) == 1
        assert second.remove_done_callback(told.append) == 0
        batch.settle()
        assert told == [first, first]

    run_without_leaks(scenario())


def test_a_callback_for_one_that_is_done_is_called_soon_and_in_its_context():
    name = contextvars.ContextVar("name", default="outside")

    async def scenario():
        batch = Batch(count=1)
        (delivery,) = batch.deliveries
        told = []
        context = contextvars.copy_context()
        context.run(name.set, "inside")
        delivery.add_done_callback(lambda _: told.append(name.get()), context=context)
        batch.settle()
        delivery.add_done_callback(lambda _: told.append(name.get()))
        delivery.add_done_callback(lambda _: told.append(name.get()), context=context)
        assert told == ["inside"]
        await asyncio.sleep(0)
        assert told == ["inside", "outside", "inside"]

    run_without_leaks(scenario())


def test_a_callback_follows_its_record_into_another_batch_and_can_be_taken_back_there():
    async def scenario():
        parked, batch = Batch(count=1), Batch()
        (delivery,) = parked.deliveries
        told = []
        delivery.add_done_callback(told.append)
        delivery.add_done_callback(told.remove)
        parked.result.move(Moved(1, batch.result, 1))
        assert delivery.remove_done_callback(told.remove) == 1
        batch.settle()
        assert told == [delivery]
        assert delivery.result().offset == 101

    run_without_leaks(scenario())


def test_what_is_not_known_yet_is_not_told():
    async def scenario():
        (delivery,) = Batch(count=1).deliveries
        for ask in (delivery.result, delivery.exception):
            with pytest.raises(InvalidState):
                ask()
        assert delivery.cancel("no more")
        assert not delivery.cancel()
        with pytest.raises(asyncio.CancelledError, match="no more"):
            delivery.result()

    run_without_leaks(scenario())


def test_a_delivery_belongs_to_the_loop_of_its_producer():
    async def made():
        return Batch(count=1)

    loop = asyncio.new_event_loop()
    batch = loop.run_until_complete(made())

    async def mixed():
        with pytest.raises(ValueError, match="loop"):
            asyncio.gather(asyncio.get_running_loop().create_future(), *batch.deliveries)

    asyncio.run(mixed())
    assert batch.deliveries[0].get_loop() is loop
    loop.call_soon(batch.settle)
    assert loop.run_until_complete(batch.deliveries[0]).offset == 100
    loop.close()


class Listening(ProducerInterceptor):
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def on_acknowledgement(self, metadata, error):
        self.told.append((metadata, error))


def test_an_interceptor_hears_of_a_record_whose_delivery_was_cancelled():
    async def scenario():
        batch = Batch(count=1)
        (delivery,) = batch.deliveries
        listening = Listening()
        producer = AsyncProducer("h:1", interceptor_classes=[listening])
        producer._report(delivery)
        delivery.cancel()
        batch.settle()
        ((metadata, error),) = listening.told
        assert (metadata.offset, error) == (100, None)

    run_without_leaks(scenario())


# Threads


def test_settled_deliveries_need_no_garbage_collector():
    result = BatchResult("t", 0, threading.Lock())
    delivery = Delivery(result, 0, 1)
    gc.disable()
    try:
        before = sys.getrefcount(result)
        delivery.add_done_callback(lambda _: None)
        concurrent.futures.wait([delivery], 0)
        for told in result.settle(None, 0):
            told()
        del told  # it refers to the delivery
        assert concurrent.futures.wait([delivery]).done == {delivery}
        del delivery
        assert sys.getrefcount(result) == before - 1
    finally:
        gc.enable()


def test_threads_wait_for_many():
    first, second, written = Batch(Delivery, COUNT), Batch(Delivery), Batch(Delivery)
    written.settle()
    every = [*first.deliveries, *second.deliveries, *written.deliveries]
    settling = threading.Timer(0.01, first.settle)
    settling.start()
    done, pending = concurrent.futures.wait(
        first.deliveries, return_when=concurrent.futures.FIRST_COMPLETED
    )
    settling.join()
    assert done
    done, pending = concurrent.futures.wait(every, timeout=0)
    assert pending == set(second.deliveries)
    settling = threading.Timer(0.01, second.settle, (DeliveryTimedOut("late"),))
    settling.start()
    done, pending = concurrent.futures.wait(every, return_when=concurrent.futures.FIRST_EXCEPTION)
    settling.join()
    assert any(one.exception() is not None for one in done)
    assert not concurrent.futures.wait(every).not_done


def test_threads_take_each_as_it_is_settled():
    first, second, written = Batch(Delivery, COUNT), Batch(Delivery), Batch(Delivery)
    written.settle()
    every = [*first.deliveries, *second.deliveries, *written.deliveries]

    def settle():
        second.settle()
        first.settle()

    settling = threading.Timer(0.01, settle)
    settling.start()
    found = list(concurrent.futures.as_completed(every))
    settling.join()
    assert len(found) == len(set(found)) == len(every)
    assert set(found[:3]) == set(written.deliveries)


def test_a_delivery_for_threads_waits_for_its_error_too():
    batch = Batch(Delivery, 1)
    (delivery,) = batch.deliveries
    for ask in (delivery.result, delivery.exception):
        with pytest.raises(RequestTimedOut):
            ask(timeout=0)
        with pytest.raises(InvalidArgument, match="timeout='5' is not a number"):
            ask(timeout="5")
    assert delivery.running()
    assert not delivery.cancel()
    settling = threading.Timer(0.01, batch.settle, (DeliveryTimedOut("late"),))
    settling.start()
    assert isinstance(delivery.exception(), DeliveryTimedOut)
    settling.join()
    assert not delivery.running()
    assert not delivery.cancelled()
