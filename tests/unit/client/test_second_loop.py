"""A client of asyncio that is used in a second event loop says so at once."""

from __future__ import annotations

import asyncio

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from kits.scripted_broker import PRODUCE, silence
from kits.scripted_log import TOPIC, ScriptedLog
from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import AsyncConsumer
from moldau.client.errors import InvalidState
from moldau.client.producer import AsyncProducer

PLACE = (TOPIC, 0)
SAID = "used in another event loop"


async def refused(*calls):
    for call in calls:
        with pytest.raises(InvalidState, match=SAID):
            await call()


async def elsewhere(*calls):
    await asyncio.to_thread(asyncio.run, refused(*calls))


async def iterated(consumer):
    async for _ in consumer:
        pass


def test_a_producer_belongs_to_the_loop_it_was_started_in():
    async def scenario():
        async with (
            FaultyLog(1, lambda: Fault.NONE) as broker,
            AsyncProducer(broker.address, linger_ms=0) as producer,
        ):
            await producer.send("t", b"v")
            broker.on("Produce", silence)
            stuck = producer.send("t", b"v")
            await broker.until_asked(PRODUCE, 2)

            async def awaited():
                await stuck

            async def sent():
                producer.send("t", b"v")

            await elsewhere(
                awaited,
                sent,
                producer.flush,
                producer.close,
                lambda: producer.send("new", b"v"),
                lambda: producer.send_many("t", [b"v"]),
            )
            with pytest.raises(InvalidState, match="used outside of the event loop"):
                await asyncio.to_thread(producer.send, "t", b"v")
            stuck.cancel()
            await producer.close(0)

    run_without_leaks(scenario())


def test_a_consumer_belongs_to_the_loop_it_was_started_in():
    async def scenario():
        async with (
            ScriptedLog() as broker,
            AsyncConsumer(broker.address) as consumer,
        ):
            consumer.assign([PLACE])
            await elsewhere(
                consumer.poll,
                lambda: anext(consumer),
                lambda: iterated(consumer),
                lambda: consumer.seek(PLACE, 0),
                lambda: consumer.end_offsets([PLACE]),
                consumer.close,
            )
            assert await consumer.poll(timeout_ms=1) == []

    run_without_leaks(scenario())


def test_an_admin_belongs_to_the_loop_it_was_started_in():
    async def scenario():
        async with ScriptedLog() as broker, AsyncAdmin(broker.address) as admin:
            await elsewhere(admin.list_topics, admin.close)
            assert await admin.list_topics()

    run_without_leaks(scenario())
