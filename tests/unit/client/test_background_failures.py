"""A part of a client that ends by a bug ends the client at once, with the cause."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kits.faulty_log import Fault, FaultyLog
from kits.leaks import run_without_leaks
from kits.scripted_broker import PRODUCE, silence
from kits.scripted_log import TOPIC, ScriptedLog
from moldau.client.admin import AsyncAdmin
from moldau.client.consumer import AsyncConsumer, Consumer
from moldau.client.consuming.fetcher import Fetcher
from moldau.client.errors import ClientClosed, ClientFailed
from moldau.client.producer import AsyncProducer, Producer
from moldau.client.producing.parking import Parking
from moldau.client.producing.sender import Sender
from moldau.engine.cluster import Cluster

WAIT_S = 20


class BugError(Exception):
    """What nobody expects."""


async def broken(*_, **__):
    raise BugError("broken")


def broken_at_once(*_, **__):
    raise BugError("broken")


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL + 1, "moldau")


def is_told(error):
    return isinstance(error, ClientFailed) and isinstance(error.__cause__, BugError) and error.fatal


@pytest.mark.parametrize(
    ("part", "name", "bug"),
    [
        (Cluster, "refresh", broken),
        (Parking, "_image", broken),
        pytest.param(Sender, "_collected", broken_at_once, marks=pytest.mark.patches),
    ],
)
def test_a_producer_refuses_everything_and_what_is_on_its_way_fails(monkeypatch, part, name, bug):
    async def scenario():
        async with FaultyLog(1, lambda: Fault.NONE) as broker:
            producer = AsyncProducer(broker.address, linger_ms=0)
            await producer.start()
            await producer.send("t", b"v")
            broker.on("Produce", silence)
            stuck = producer.send("t", b"stuck")
            await broker.until_asked(PRODUCE, 2)
            monkeypatch.setattr(part, name, bug)
            waiting = producer.send("new", b"v")
            producer.send("t", b"more")
            for delivery in (waiting, stuck):
                with pytest.raises(ClientFailed) as caught:
                    await asyncio.wait_for(delivery, WAIT_S)
                assert is_told(caught.value)
            with pytest.raises(ClientFailed):
                producer.send("t", b"v")
            with pytest.raises(ClientFailed):
                await producer.flush()
            await producer.close()
            with pytest.raises(ClientClosed):
                producer.send("t", b"v")

    run_without_leaks(scenario())


def test_a_blocking_producer_does_not_wait_for_what_never_comes(monkeypatch):
    async def scenario():
        async with FaultyLog(1, lambda: Fault.NONE) as broker:

            def blocking():
                with Producer(broker.address, linger_ms=0) as producer:
                    producer.send("t", b"v").result(WAIT_S)
                    monkeypatch.setattr(Cluster, "refresh", broken)
                    with pytest.raises(ClientFailed) as caught:
                        producer.send("new", b"v")
                    assert is_told(caught.value)

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())


@pytest.mark.parametrize(("part", "name"), [(Cluster, "refresh"), (Fetcher, "_run")])
def test_a_consumer_raises_it_at_every_call(monkeypatch, part, name):
    async def scenario():
        async with ScriptedLog() as broker:
            async with AsyncConsumer(broker.address, metadata_max_age_ms=50) as consumer:
                monkeypatch.setattr(part, name, broken)
                consumer.assign([(TOPIC, 0)])
                for _ in range(2):
                    with pytest.raises(ClientFailed) as caught:
                        await asyncio.wait_for(anext(consumer), WAIT_S)
                    assert is_told(caught.value)
                with pytest.raises(ClientFailed):
                    consumer.seek((TOPIC, 0), 0)

            monkeypatch.undo()

            def blocking():
                with Consumer(broker.address, metadata_max_age_ms=50) as consumer:
                    monkeypatch.setattr(part, name, broken)
                    consumer.assign([(TOPIC, 0)])
                    with pytest.raises(ClientFailed):
                        next(consumer)

            await asyncio.to_thread(blocking)

    run_without_leaks(scenario())


def test_an_admin_raises_it_at_every_call(monkeypatch):
    async def scenario():
        async with (
            ScriptedLog() as broker,
            AsyncAdmin(broker.address, metadata_max_age_ms=10) as admin,
        ):
            monkeypatch.setattr(Cluster, "refresh", broken)
            failed = asyncio.Event()
            admin._running.cluster.on_crash(lambda _: failed.set())
            await asyncio.wait_for(failed.wait(), WAIT_S)
            for _ in range(2):
                with pytest.raises(ClientFailed) as caught:
                    await admin.list_topics()
                assert is_told(caught.value)

    run_without_leaks(scenario())
