"""Deliveries of the asyncio producer, where the user's own loop runs what the user gave."""

from __future__ import annotations

import asyncio

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from kits.scripted_broker import PRODUCE, silence
from moldau.client.errors import DeliveryAborted
from moldau.client.producer import AsyncProducer
from moldau.client.producing import face as face_module


def test_a_callback_that_exits_ends_the_program_after_all_others_were_told():
    told = []

    def leave(_):
        raise SystemExit(3)

    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address) as producer,
        ):
            for callback in (leave, lambda one: told.append(one.metadata().offset)):
                producer.send("t", b"v").add_done_callback(callback)
            await producer.flush()
            await asyncio.Event().wait()

    with pytest.raises(SystemExit):
        asyncio.run(scenario())
    assert told == [1]


def test_a_cancelled_block_does_not_wait_for_a_broker_that_is_silent(monkeypatch):
    monkeypatch.setattr(face_module, "STOPPED_PATIENCE_S", 0.05)
    deliveries = []

    async def work(broker):
        async with AsyncProducer(broker.address, linger_ms=0) as producer:
            await producer.send("t", b"first")
            broker.on("Produce", silence)
            deliveries.append(producer.send("t", b"stuck"))
            await deliveries[0]

    async def scenario():
        async with FaultyLog(1, lambda: Fault.NONE) as broker:
            task = asyncio.create_task(work(broker))
            await broker.until_asked(PRODUCE, 2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        with pytest.raises(DeliveryAborted):
            await deliveries[0]

    run_without_leaks(scenario())
