from __future__ import annotations

import asyncio

import pytest

from kits.hand_executor import HandExecutor, turns
from kits.log_kit import Broker, append_values
from moldau.base.errors import StorageError
from moldau.sim.disk_faults import Operation
from moldau.storage.flushing import Flusher


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_one_sync_serves_everybody_who_came_during_the_last(broker):
    async def scenario() -> None:
        executor = HandExecutor()
        flusher = Flusher(executor)
        log = broker.log()
        append_values(log, b"a")
        waiters = [asyncio.create_task(flusher.flush(log, 1))]
        await turns()
        for offset in range(2, 6):
            append_values(log, b"b")
            waiters.append(asyncio.create_task(flusher.flush(log, offset)))
        await turns()
        executor.go()
        await turns()
        assert [waiter.done() for waiter in waiters] == [True] + [False] * 4
        assert log.recovery_point == 1
        executor.go()
        await asyncio.gather(*waiters)
        assert (log.recovery_point, executor.calls) == (5, 2)

    asyncio.run(scenario())


def test_what_is_durable_already_waits_for_nothing(broker):
    async def scenario() -> None:
        log = broker.log()
        append_values(log, b"a")
        broker.flush(log)
        await Flusher(HandExecutor()).flush(log, 1)

    asyncio.run(scenario())


def test_a_failed_sync_reaches_everybody_and_moves_nothing(broker):
    async def scenario() -> None:
        executor = HandExecutor()
        flusher = Flusher(executor)
        log = broker.log()
        append_values(log, b"a")
        waiters = [asyncio.create_task(flusher.flush(log, 1)) for _ in range(2)]
        await turns()
        broker.sim().faults.fail(Operation.SYNC, "/data")
        executor.go()
        results = await asyncio.gather(*waiters, return_exceptions=True)
        assert [type(result) for result in results] == [StorageError, StorageError]
        assert log.recovery_point == 0

    asyncio.run(scenario())


def test_one_who_gives_up_waiting_does_not_stop_the_sync(broker):
    async def scenario() -> None:
        executor = HandExecutor()
        flusher = Flusher(executor)
        log = broker.log()
        append_values(log, b"a")
        impatient = asyncio.create_task(flusher.flush(log, 1))
        patient = asyncio.create_task(flusher.flush(log, 1))
        await turns()
        impatient.cancel()
        await turns()
        executor.go()
        await patient
        assert log.recovery_point == 1
        assert impatient.cancelled()

    asyncio.run(scenario())


def test_settling_waits_for_what_is_under_way(broker):
    async def scenario() -> None:
        executor = HandExecutor()
        flusher = Flusher(executor)
        log = broker.log()
        append_values(log, b"a")
        flushing = asyncio.create_task(flusher.flush(log, 1))
        await turns()
        settling = asyncio.create_task(flusher.settle())
        await turns()
        assert not settling.done()
        executor.go()
        await settling
        await flushing

    asyncio.run(scenario())
